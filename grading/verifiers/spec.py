"""What a user writes to choose a verifier, ``math`` or ``{type: choice, options: 4}``: it is parsed and opened here.

A type is a row of `TYPES`, or an entry point of the group ``luffy.verifiers`` that another package declares: a function
with the signature of the type ``python``.
"""

import json
import pkgutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from core.code_digest import identity
from core.errors import InputError, did_you_mean, validated
from core.plugins.config_files import check_not_declared, entries, entry
from core.settings import UserPath, user_path
from core.text.parse import parse_yaml
from grading.row_fields import DATA_SOURCE, PROBLEM

if TYPE_CHECKING:
    from grading.verifiers.verifier import Verifier, VerifierOptions

GROUP = "luffy.verifiers"
PYTHON = "python"
MATHEMATICS = ("math", "math_whole_text")  # types
TYPES: Mapping[str, str] = {  # the class of each
    "math": "grading.verifiers.math:MathVerifier",
    "math_whole_text": "grading.verifiers.math:WholeTextVerifier",
    "choice": "grading.verifiers.choice:ChoiceVerifier",
    "exact": "grading.verifiers.exact:ExactVerifier",
    "number": "grading.verifiers.number:NumberVerifier",
    "regex": "grading.verifiers.regex:RegexVerifier",
    "json": "grading.verifiers.json:JsonVerifier",
    "code": "grading.verifiers.code:CodeVerifier",
    "set": "grading.verifiers.set:SetVerifier",
    "sql": "grading.verifiers.sql:SqlVerifier",
    "gym": "grading.verifiers.gym:GymVerifier",
    "judge": "grading.verifiers.judge:JudgeVerifier",
    "python": "grading.verifiers.python:PythonVerifier",
    "all_of": "grading.verifiers.combined:AllOfVerifier",
    "weighted": "grading.verifiers.combined:WeightedVerifier",
}


@dataclass(frozen=True)
class VerifierSpec:
    """A type and the options that differ from the defaults of that type; hashable, and it can be pickled."""

    type: str
    options_json: str = "{}"  # canonical

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from the defaults, as JSON values."""
        return json.loads(self.options_json)

    def to_json(self) -> str | dict[str, Any]:
        """Return a JSON value that `parse_spec` reads again."""
        return {"type": self.type, **self.options} if self.options else self.type

    @property
    def digest(self) -> str:
        """sha256 over what decides a verdict: type, options, and what they name outside this project (a user's code).

        The verifiers of the project are covered by the number of the kind of result (`core.kinds`).
        """
        return identity(self.type, verifier_class(self.type).identity(self.options))

    @property
    def places(self) -> tuple[str, ...]:
        """Where the answer is, for each of the verifiers that it names."""
        return verifier_class(self.type).places(self.options)

    @property
    def requires_fields(self) -> tuple[str, ...]:
        """The fields that a row must have besides its gold answer."""
        return verifier_class(self.type).requires_fields(self.options)


def parse_spec(value: Any, where: str, *, folder: Path | None = None) -> VerifierSpec:
    """Return the spec in ``value``: the name of a type, or a mapping with ``type`` and options.

    Args:
        where: The place of ``value``, as messages name it.
        folder: The folder from which relative paths in it start; by default the current folder.

    Raises:
        InputError: an unknown type or option, or a value that does not fit; the message starts with ``where``.
    """
    if isinstance(value, VerifierSpec):
        return value
    given = {"type": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        raise InputError(
            f"{where}: expected the name of a verifier, such as math, or a mapping with its type, such as "
            f"{{type: choice, options: 4}}; got {value!r:.80}"
        )
    name, options = given["type"], {key: option for key, option in given.items() if key != "type"}
    if name in TYPES:
        check_not_declared(name, GROUP)
    else:
        options, name = _of_entry_point(name, options, where), PYTHON
    plain = _options(name, options, where, folder or Path.cwd()).model_dump(mode="json", exclude_defaults=True)
    return VerifierSpec(name, json.dumps(plain, sort_keys=True))


def _options(name: str, options: Mapping[str, Any], where: str, folder: Path) -> "VerifierOptions":
    model = verifier_class(name).Options
    return validated(model, options, f"{where}: verifier {name}: ", context={"folder": folder})


def open_verifier(spec: VerifierSpec, *, workers: int = 2, limit_s: float = 5.0) -> "Verifier":
    """Return the verifier of ``spec``. Close it, or use it as a context manager.

    Args:
        workers: answers that are graded at once, each in a process of its own where the type needs one.
        limit_s: seconds per comparison of mathematics; types that run programs have a limit in their spec.

    Raises:
        InputError: what the spec names is missing: a function, a program, a package.
    """
    from grading.verifiers.verifier import Resources

    options = _options(spec.type, spec.options, "verifier", Path.cwd())
    return verifier_class(spec.type)(options, Resources(workers, limit_s))


@cache
def verifier_class(name: str) -> "type[Verifier]":
    """Return the class of a type of `TYPES`."""
    return pkgutil.resolve_name(TYPES[name])


def _of_entry_point(name: str, options: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the options of the type ``python`` for an entry point; options of its own are passed to the function."""
    path = entry(GROUP, name)
    if path is None:
        names = [*TYPES, *entries(GROUP)]
        raise InputError(
            f"{where}: no verifier {name!r}{did_you_mean(name, names)}; expected one of {', '.join(names)}"
        )
    shared = verifier_class(PYTHON).Options.model_fields
    kwargs = {key: option for key, option in options.items() if key not in shared}
    kept = {key: option for key, option in options.items() if key in shared}
    return {**kept, "path": path, **({"kwargs": kwargs} if kwargs else {})}


def _shortest(value: Any, info: ValidationInfo) -> Any:
    try:
        return parse_spec(value, "verifier", folder=(info.context or {}).get("folder")).to_json()
    except InputError as error:
        raise ValueError(str(error).removeprefix("verifier: ")) from None


def _located(value: Any, folder: Path) -> Any:
    """Return a spec with the paths of its functions, and of functions of the verifiers in it, from ``folder``."""
    if isinstance(value, list):
        return [_located(part, folder) for part in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _located(part, folder) for key, part in value.items() if key in ("verifier", "verifiers")}
    return value | inner | ({"path": user_path(value["path"], folder)} if "path" in value else {})


SpecValue = Annotated[str | dict[str, Any], UserPath(_located), BeforeValidator(_shortest)]
"""A field of a model that holds a spec in its shortest form: the name of a type, or a mapping.

Relative paths in it are of the ``folder`` in the context of the validation, or else of the current folder.
"""


def domain_of(spec: VerifierSpec) -> str:
    """Return the domain of answers that ``spec`` verifies, by default."""
    return "math" if spec.type in MATHEMATICS else spec.type


def spec_text(spec: VerifierSpec) -> str:
    """Return a spec as a text: the name of its type, or JSON."""
    value = spec.to_json()
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def read_spec(text: str, where: str) -> VerifierSpec:
    """Return the spec in a YAML text; InputError, with a message that starts with ``where``, if there is none."""
    return parse_spec(parse_yaml(text, where) if text.startswith("{") else text, where)


def require_fields(spec: VerifierSpec, fields: Collection[str], source: str) -> None:
    """Raise ValueError if rows of ``source``, which have ``fields``, lack one that the verifier of ``spec`` reads."""
    present = [DATA_SOURCE, PROBLEM, *fields]
    if missing := [name for name in spec.requires_fields if name not in present]:
        raise ValueError(
            f"the verifier {spec.type} reads the field {missing[0]!r}, and {source} has only {', '.join(present)}: "
            f"name its column in fields, such as fields: {{{missing[0]}: COLUMN}}"
        )


def require_fitting_golds(spec: VerifierSpec, rows: Iterable[tuple[str, Mapping[str, Any]]], where: str) -> None:
    """Raise InputError, which starts with ``where``, for a gold answer that cannot be compared with any response.

    Args:
        spec: of the verifier.
        rows: gold answers, each with the fields of its row.
    """
    if spec.type in MATHEMATICS:
        return  # equal texts are right, whatever they say
    with open_verifier(spec, workers=1) as verifier:
        for gold, fields in rows:
            if reason := verifier.gold_problem(gold, fields):
                raise InputError(
                    f"{where}: problem {fields[PROBLEM]!r:.60}: the gold answer {gold!r:.80} does not fit the verifier "
                    f"{spec.type}: {reason}"
                )
