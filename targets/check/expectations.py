"""Run Great Expectations on the profile of prepared targets. The checks are data: see ``suite.yaml``.

Besides the profile's columns a suite can use columns of `targets.check.source_drift`, and numbers among the settings
of the preparation.

Names and severities are read from the YAML alone: importing the library takes seconds, so only `validate` does it.
The profile is flat and has no text, so that a failing result stays small.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from core.errors import InputError, did_you_mean, validated
from core.files import read_yaml
from core.text.patterns import compile_full_match
from targets.check.source_drift import Change, measure, read_version
from targets.settings import SUITE, TargetSettings

if TYPE_CHECKING:
    import pandas as pd

PARAMETER = compile_full_match(r"\$(\w+)(?:\s*\*\s*(\d+(?:\.\d+)?))?")
MUST_HOLD = ("verified", "gold_parses", "has_think", "has_answer")  # an unknown value counts as false
OF_METADATA = "metadata."
METADATA = "$metadata"  # in a list of columns: those that the sources declare, metadata.NAME
MOST_VALUES = 5  # offending values in a result
ANOTHER_FORM = "value is not a valid dict"  # Great Expectations also takes a parameter there, which no suite has
NO_ARGUMENTS = ("batch_id", "table")  # the profile is the only table


class Check(BaseModel):
    """One expectation of the suite. ``severity``: error blocks what follows, warning does not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    severity: Literal["error", "warning"]
    description: str
    type: str = Field(pattern=r"^expect_\w+$")
    kwargs: dict[str, Any] = Field(default_factory=dict)

    @field_validator("kwargs")
    @classmethod
    def _are_comparable(cls, kwargs: dict[str, Any]) -> dict[str, Any]:
        for key, value in kwargs.items():
            if any(part != part for part in (value if isinstance(value, list) else [value])):
                raise ValueError(f"{key}: got nan, expected a number: nothing is above or below nan")
        return kwargs


class _Suite(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    checks: list[Check] = Field(min_length=1)


@dataclass(frozen=True)
class CheckResult:
    """The outcome of a check.

    ``failing`` of ``rows`` values do not fit, where the check is about values. ``error`` says why it broke. ``where``
    names the source that a number of `targets.check.source_drift` is of.
    """

    name: str
    passed: bool
    severity: str
    description: str
    expected: dict[str, Any]
    observed: str | float | bool | None
    failing: int | None
    rows: int
    error: str | None = None
    where: str = ""

    @property
    def observed_text(self) -> str:
        """What the check observed, or why it broke, and of which source."""
        text = self.error or ("" if self.observed is None else str(self.observed))
        return f"{text} ({self.where})" if self.where else text


def load_checks(suite: Path = SUITE) -> list[Check]:
    """The checks of a suite, without Great Expectations; InputError names what is wrong in the YAML."""
    where = f"check suite {suite}"
    loaded = validated(_Suite, read_yaml(suite, "check suite"), f"{where}: ", f"; see {SUITE}")
    names = [check.name for check in loaded.checks]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{where}: {', '.join(twice)} named more than once; give each check another name")
    return loaded.checks


def check_names(suite: Path = SUITE) -> list[str]:
    """Names of the checks of a suite, in order."""
    return [check.name for check in load_checks(suite)]


def check_suite(config: TargetSettings, suite: Path = SUITE) -> None:
    """Raise InputError if ``suite`` has an unknown number or expectation, or an argument that an expectation lacks.

    The suite of the project is right, and constructing its expectations takes seconds.
    """
    checks = load_checks(suite)
    if suite == SUITE:
        return
    metadata = [f"{OF_METADATA}{name}" for name in config.metadata_names]
    _construct(checks, [_resolve(check, config.model_dump(), metadata, suite) for check in checks], suite)


def validate(
    profile: Path,
    *,
    suite: Path = SUITE,
    parameters: Mapping[str, float] | None = None,
    previous: Path | None = None,
) -> list[CheckResult]:
    """Run every check of ``suite`` on a profile file; the results are in the suite's order.

    An expectation has failed if its evaluation breaks, and says so.

    Args:
        parameters: values for ``$name`` in the suite, in addition to the settings recorded in the file.
        previous: the profile of the version before, to which drift is relative. None: there is no drift.

    Raises:
        InputError: the file is no profile, or the suite has an unknown parameter or expectation.
    """
    checks = load_checks(suite)
    now = read_version(Path(profile))
    frame = _completed(now.rows, profile)
    changes = measure(now, None if previous is None else read_version(previous))
    frame = frame.assign(**{name: change.value for name, change in changes.items()})
    numbers = {**now.settings, **(parameters or {})}
    metadata = [name for name in frame.columns if name.startswith(OF_METADATA)]
    expected = [_resolve(check, numbers, metadata, suite) for check in checks]
    outcomes = _run(frame, checks, expected, suite)
    results = [
        replace(_result(check, kwargs, outcome, frame), where=changes.get(str(kwargs.get("column")), Change()).where)
        for check, kwargs, outcome in zip(checks, expected, outcomes, strict=True)
    ]
    if len(frame["source"].unique()) < 2:
        return results
    return [
        replace(result, observed="; ".join([str(result.observed), *_failing_sources(frame, check, kwargs, suite)]))
        if result.failing and not result.passed
        else result
        for check, kwargs, result in zip(checks, expected, results, strict=True)
    ]


def summarize(results: Sequence[CheckResult]) -> list[str]:
    """The last lines of a report: how many checks passed, which warn, and which block, with the sources they name."""

    def named(severity: str) -> list[str]:
        failed = [result for result in results if not result.passed and result.severity == severity]
        return [f"{result.name} ({result.where})" if result.where else result.name for result in failed]

    def line(names: Sequence[str], one: str, several: str) -> str:
        return f"{len(names)} {one if len(names) == 1 else several}: {'; '.join(names)}"

    warnings, errors = named("warning"), named("error")
    lines = [f"{sum(result.passed for result in results)} of {len(results)} checks passed"]
    lines += [line(warnings, "check warns", "checks warn")] if warnings else []
    return [*lines, *([line(errors, "check blocks", "checks block")] if errors else [])]


def _failing_sources(frame: "pd.DataFrame", check: Check, expected: dict[str, Any], suite: Path) -> list[str]:
    """How many rows of each source fail ``check``, most first; nothing where it is not about rows."""
    (outcome,) = _run(frame, [check], [expected], suite, result_format="COMPLETE")
    if (rows := outcome["result"].get("unexpected_index_list")) is None:
        return []
    sources = frame["source"].loc[rows].value_counts()
    return [", ".join(f"{count} of {name}" for name, count in sources.head(MOST_VALUES).items())]


def _completed(frame: "pd.DataFrame", profile: Path) -> "pd.DataFrame":
    """The rows of a profile without unknown values in `MUST_HOLD`, and with the column ``traces_of_problem``."""
    if missing := {"problem_digest", *MUST_HOLD} - set(frame.columns):
        present = dict.fromkeys(name.partition(".")[0] for name in frame.columns)
        raise InputError(
            f"profile {profile}: no column {', '.join(sorted(missing))}; it has {', '.join(present)}: "
            "give the profile.parquet that prepare wrote"
        )
    traces = frame.groupby("problem_digest")["problem_digest"].transform("size")
    return frame.assign(**{name: frame[name].eq(True) for name in MUST_HOLD}, traces_of_problem=traces)


def _resolve(check: Check, settings: Mapping[str, Any], metadata: Sequence[str], suite: Path) -> dict[str, Any]:
    """Fill in the arguments of a check: the numbers that it names by ``$name``, and the columns of `METADATA`."""
    numbers = {name: value for name, value in settings.items() if isinstance(value, int | float)}

    def resolve(value: Any) -> Any:
        match = PARAMETER(value.strip()) if isinstance(value, str) else None
        if isinstance(value, list) and METADATA in value:
            at = value.index(METADATA)
            return [*value[:at], *metadata, *value[at + 1 :]]
        if match is None:
            return value
        name, factor = match.groups()
        if name not in numbers:
            raise InputError(
                f"check suite {suite}: {check.name}: no number ${name}; known: {', '.join(sorted(numbers)) or 'none'}"
            )
        return numbers[name] * float(factor) if factor else numbers[name]

    return {key: resolve(value) for key, value in check.kwargs.items()}


def _construct(checks: Sequence[Check], expected: Sequence[dict[str, Any]], suite: Path) -> list[Any]:
    """The expectations of Great Expectations, each with its number; InputError for one that it rejects."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read at import: it would post to the network
    from great_expectations.exceptions.exceptions import GreatExpectationsError
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    expectations = []
    for number, (check, kwargs) in enumerate(zip(checks, expected, strict=True)):
        configuration = ExpectationConfiguration(type=check.type, kwargs=kwargs, meta={"number": number})
        try:
            expectations.append(configuration.to_domain_obj())
        except (GreatExpectationsError, ValueError, TypeError) as error:
            why = _explain_construction(check.type, kwargs, error)
            raise InputError(f"check suite {suite}: {check.name}: {why}") from error
    return expectations


def _run(
    frame: "pd.DataFrame",
    checks: Sequence[Check],
    expected: Sequence[dict[str, Any]],
    suite: Path,
    result_format: Literal["BASIC", "COMPLETE"] = "BASIC",
) -> list[dict[str, Any]]:
    expectations = _construct(checks, expected, suite)
    import great_expectations as gx

    context: Any = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    batch = context.data_sources.add_pandas("profile").add_dataframe_asset("profile")
    definition = batch.add_batch_definition_whole_dataframe("all")
    together = gx.ExpectationSuite(name="targets", expectations=expectations)
    # A ValidationDefinition would also store the results, and cannot store one with a truth value of numpy: quantiles.
    result: Any = definition.get_batch({"dataframe": frame}).validate(together, result_format=result_format)
    result = result.to_json_dict()
    by_number = {outcome["expectation_config"]["meta"]["number"]: outcome for outcome in result["results"]}
    return [by_number[number] for number in range(len(checks))]


def _result(check: Check, expected: dict[str, Any], outcome: dict[str, Any], frame: "pd.DataFrame") -> CheckResult:
    rows, error = len(frame), _exception(outcome.get("exception_info") or {})
    if error is not None:
        error = _explain_failure(expected, list(frame.columns), error)
    result = outcome.get("result") or {}
    failing = result.get("unexpected_count")
    observed = result.get("observed_value")
    if observed is None and failing:
        # Of several columns a value is a list or an object.
        values = [value for value in result.get("partial_unexpected_list") or [] if value is not None]
        named = ", ".join(value[:100] for value in list(dict.fromkeys(map(str, values)))[:MOST_VALUES])
        observed = f"{failing} of {rows}" + (f": {named}" if named else "")
    elif observed is None and failing == 0:
        observed = f"0 of {rows}"
    elif observed is None and error is None and not outcome["success"]:
        observed = "no value to compare"
    if isinstance(observed, list | dict):
        observed = json.dumps(observed, default=str)  # of numpy's values
    elif isinstance(observed, float):
        observed = float(observed)  # of numpy's otherwise
    passed = bool(outcome["success"]) and error is None
    return CheckResult(check.name, passed, check.severity, check.description, expected, observed, failing, rows, error)


def _exception(info: Mapping[str, Any]) -> str | None:
    """The message of an expectation that broke: Great Expectations nests it by metric, or not."""
    if "raised_exception" in info:
        return str(info.get("exception_message") or "it raised an exception") if info["raised_exception"] else None
    messages = [message for nested in info.values() if isinstance(nested, dict) and (message := _exception(nested))]
    return "; ".join(messages) or None


def _explain_construction(kind: str, kwargs: Mapping[str, Any], error: Exception) -> str:
    """Explain in one line why Great Expectations rejects an expectation of type ``kind``."""
    from great_expectations.exceptions.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.registry import list_registered_expectation_implementations as kinds

    if isinstance(error, ExpectationNotFoundError):
        return f"{kind}: no such expectation{did_you_mean(kind, kinds())}"
    complaints: dict[str, list[str]] = {}
    listed = getattr(error, "errors", None)  # pydantic's, of the version that Great Expectations brings
    for entry in listed() if listed else [{"loc": (), "msg": str(error).splitlines()[0]}]:
        if entry["msg"] != ANOTHER_FORM:
            complaints.setdefault(str(entry["loc"][0]) if entry["loc"] else "__root__", []).append(entry["msg"])
    named = {name: said for name, said in complaints.items() if name != "__root__"} or complaints
    return f"{kind}: " + "; ".join(_complaint(kind, name, said, kwargs) for name, said in named.items())


def _explain_failure(kwargs: Mapping[str, Any], columns: Collection[str], error: str) -> str:
    """Explain in one line why an expectation failed with ``error`` on a profile of these ``columns``."""
    for name, value in kwargs.items():
        values = value if isinstance(value, list) else [value]
        if name.startswith("column") and (gone := [str(column) for column in values if column not in columns]):
            return f"kwargs.{name}: no column {', '.join(gone)}; the profile has {', '.join(columns)}"
    said = " ".join(error.split())[:300]
    if patterns := [f"kwargs.{name}: {value!r:.100}" for name, value in kwargs.items() if "regex" in name]:
        return f"{', '.join(patterns)}: {said}"
    return f"{said} (with {', '.join(f'{name}: {value!r:.60}' for name, value in kwargs.items())})"


def _complaint(kind: str, name: str, said: list[str], kwargs: Mapping[str, Any]) -> str:
    from great_expectations.expectations.registry import get_expectation_impl

    messages = " or ".join(dict.fromkeys(said))
    if name == "__root__":
        return messages
    if name in kwargs and "extra fields" not in messages:
        return f"kwargs.{name}: {messages} (got {kwargs[name]!r:.80})"
    expectation = get_expectation_impl(kind)
    keys = dict.fromkeys((*expectation.domain_keys, *expectation.success_keys))
    allowed = ", ".join(key for key in keys if key not in NO_ARGUMENTS)
    return f"kwargs.{name}: {'no such argument' if name in kwargs else messages}; it takes {allowed}"
