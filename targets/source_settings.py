"""The settings of a source of traces: its place, its columns, its verifier, and its share of the targets."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from core.errors import InputError, first_line, validated
from core.files import read_yaml
from core.plugins.config_files import check_not_declared, entries, entry
from core.plugins.user_code import load_function
from core.settings import UserPath
from grading.answers.gold import AnswerForm
from grading.gym_tasks import ENTRY, GYM, task_of
from grading.row_fields import Columns, name_columns
from grading.verifiers.spec import SpecValue, VerifierSpec, domain_of, parse_spec, require_fields

EMBEDDED = "embedded"
FIELDS = "fields"  # column of the traces of a teacher
GENERATED = "generated"  # traces of a teacher, in a file of luffy evaluate traces that the caller knows
# What a trace of `GENERATED` says of itself: its teacher and its settings, then which one it is of them.
OF_A_GENERATION = {"teacher": "teacher", "generation": "generation"}
OF_ONE_TRACE = {"generation_problem": "id", "generation_sample": "sample"}
# Columns that are read under these names if they are there and the mapping does not name them.
OPTIONAL_COLUMNS = ("target_log_probs", "target_token_ids", "finish_reason")
OPTION_COLUMNS = ("choices", "options")  # likewise, where they hold the options of a question that lists none
REASONING_COLUMNS = ("reasoning_content", "reasoning", "thinking")  # also fields of a chat message
ADDED = "luffy.mappings"  # entry points of packages
MAPPINGS = Path(__file__).parent / "read" / "mappings.yaml"


class ColumnMapping(BaseModel):
    """Which columns of a source hold what a trace needs. Each value is a column, or a dotted path into structs.

    Of a column of chat messages, ``problem`` takes the user message, ``response`` the assistant message and ``system``
    the system message. A list of strings in ``response`` holds several generations of one problem; then
    ``reasoning``, ``upstream_correct``, ``target_log_probs`` and ``target_token_ids`` are lists of the same length.

    `OPTIONAL_COLUMNS`, and the first of `REASONING_COLUMNS` and of `OPTION_COLUMNS`, are also read if the mapping does
    not name them.

    Without a ``response``, the response is the thoughts of ``reasoning`` and then the answer in a box. The ``options``
    of a question follow it as A) to J); labels of the file's own, by which its answers name them, become these letters.

    >>> mapping = ColumnMapping(problem="question", answer=["answer", "gold"], reasoning="rationale")
    >>> mapping.columns(), mapping.resolve(["question", "gold", "rationale"]).answer
    (['question', 'rationale'], 'gold')
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    problem: str | Annotated[list[str], Field(min_length=1)]  # several: their texts, joined by a space
    answer: str | Annotated[list[str], Field(min_length=1)]  # of several, the first that the source has
    response: str | Annotated[list[str], Field(min_length=1)] | None = None  # several: one generation in each
    # Thoughts kept apart from the response become its think block; of several columns, the first that the source has.
    reasoning: str | Annotated[list[str], Field(min_length=1)] | None = None
    reasoning_required: bool = True  # false: a response whose thoughts are not in that column is taken as it is
    options: str | None = None  # of a multiple-choice question: they follow it as A) to J), unless it lists them
    options_required: bool = True  # false: what is no list of options is left out
    system: str | None = None
    upstream_correct: str | None = None
    target_log_probs: str | None = None  # a list per response
    target_token_ids: str | None = None  # a list per response: the tokens that the log-probabilities are of
    finish_reason: str | None = None  # "length": the response was cut at a token limit
    steps: bool = False  # the response is one solution, as a list of its lines or as a text (`read.worked_solutions`)
    answer_form: AnswerForm = "text"  # of the column of answers (see `grading.answers.gold`)

    @model_validator(mode="after")
    def _has_a_response(self) -> Self:
        if self.response is None and self.reasoning is None:
            raise ValueError("expected a column of the response, or of reasoning, behind which the answer is boxed")
        return self

    def columns(self) -> list[str]:
        """The top-level columns that must be there."""
        alternatives = [path for path in (self.answer, self.reasoning) if isinstance(path, str)]
        responses = [self.response] if isinstance(self.response, str) else self.response or []
        problems = [self.problem] if isinstance(self.problem, str) else self.problem
        paths = [*problems, *alternatives, *responses, self.options, self.system, self.upstream_correct]
        paths += [self.target_log_probs, self.target_token_ids, self.finish_reason]
        return top_level(path for path in paths if path)

    def resolve(self, columns: "list[str] | tuple[str, ...]") -> "ColumnMapping":
        """The mapping with the one column of answers, and of thoughts, that is among ``columns``, or else the first."""
        several = {name: paths for name in ("answer", "reasoning") if isinstance(paths := getattr(self, name), list)}
        there = {name: [path for path in paths if path.split(".")[0] in columns] for name, paths in several.items()}
        return self.model_copy(update={name: (there[name] or paths)[0] for name, paths in several.items()})

    def renamed(self, names: dict[str, str]) -> "ColumnMapping":
        """The mapping of the columns that a source calls by ``names``.

        >>> mapping = ColumnMapping(problem="question", answer="info.gold", response=["first", "second"])
        >>> renamed = mapping.renamed({"question": "Question", "info": "INFO"})
        >>> renamed.problem, renamed.answer, renamed.response
        ('Question', 'INFO.gold', ['first', 'second'])
        """

        def moved(value: Any) -> Any:
            if isinstance(value, list):
                return [moved(part) for part in value]
            column, dot, rest = value.partition(".")
            return names.get(column, column) + dot + rest

        # The other fields are flags and the form of the answers.
        paths = {key: moved(value) for key, value in self if isinstance(value, str | list) and key != "answer_form"}
        return self.model_copy(update=paths)


def top_level(paths: Any) -> list[str]:
    """The columns that dotted paths begin with, each once."""
    return list(dict.fromkeys(path.split(".")[0] for path in paths))


@cache
def ready_mappings() -> dict[str, ColumnMapping]:
    """The mappings that have a name, in ``mappings.yaml``, then in installed packages.

    Raises:
        InputError: a package's cannot be imported, is no mapping of columns, or has the name of another one:
            ``auto`` tries them all.
    """
    ready = {name: ColumnMapping(**columns) for name, columns in read_yaml(MAPPINGS, "mappings").items()}
    for name in entries(ADDED):
        if name in ready:
            check_not_declared(name, ADDED)
        path = str(entry(ADDED, name))
        try:
            columns = load_function(path)
        except (Exception, SystemExit) as error:  # whatever the package's module raises
            raise InputError(f"mapping {name} of {path}: {first_line(error)}; install its package again") from None
        ready[name] = validated(ColumnMapping, columns, f"mapping {name} of {path}: ")
    return ready


def _known(mapping: ColumnMapping | str) -> ColumnMapping | str:
    # `auto` looks at the packages' mappings when it reads a source: one that is broken fails no other command.
    if isinstance(mapping, str) and mapping != "auto" and mapping not in (ready := ready_mappings()):
        raise ValueError(f"{mapping!r} does not exist: expected one of auto, {', '.join(ready)}, or the columns")
    return mapping


Mapping = Annotated[ColumnMapping | str, AfterValidator(_known)]


@cache
def _parsed(spec: str) -> VerifierSpec:
    return parse_spec(json.loads(spec), "verifier")


class Source(BaseModel):
    """One source with what is particular to it. Fields that are None come from the settings for all sources."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    # 'embedded', 'generated', 'gym:TASK' (of Reasoning Gym), a file, folder or glob, or the id of a hub dataset
    path: Annotated[str, UserPath()] = Field(min_length=1)
    options: dict[str, Any] = {}  # of a task of Reasoning Gym: size, seed, and what the task takes
    mapping: Mapping | None = None
    split: str | None = None
    subset: str | None = None
    revision: str | None = None
    weight: float | None = Field(default=None, gt=0)  # its part of the targets of all sources that have a weight
    cap: int | None = Field(default=None, ge=1)  # most targets from it
    name: str | None = Field(default=None, pattern=r"^[\w.-]+$")  # `data_source` of its rows; else of its path
    verifier: SpecValue = "math"  # how its answers are checked
    domain: str | None = Field(default=None, min_length=1)  # `ability` of its rows; else math, or the verifier's type
    fields: Columns = {}  # columns that the verifier reads besides the gold answer
    system_prompt: str | None = None
    suffix: str = ""  # follows each problem, such as what form the answer should have
    license: str | None = None
    teacher: str | None = None
    metadata: Columns = {}  # columns that pass through

    @model_validator(mode="before")
    @classmethod
    def _of_its_kind(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("path") == GENERATED:
            metadata = name_columns(values.get("metadata") or {})
            return {**values, "metadata": {**metadata, **OF_A_GENERATION, **OF_ONE_TRACE}}
        if isinstance(values, dict) and task_of(str(values.get("path"))):
            return {"verifier": "gym", "fields": [ENTRY], **values}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> "Source":
        if twice := [name for name in self.constants if name in self.metadata]:
            raise ValueError(f"{', '.join(twice)} is given for the whole source and as a column; give one of them")
        if self.path == EMBEDDED and (self.metadata or self.fields):
            raise ValueError(f"the source {EMBEDDED!r} has no columns for metadata or fields")
        if self.task and (self.metadata or list(self.fields) != [ENTRY]):
            raise ValueError(f"the source {self.path!r} has no columns for metadata or fields but {ENTRY}")
        of_files = ("mapping", "split", "subset", "revision")
        unread = [name for name in of_files if getattr(self, name) is not None]
        if unread and (self.path == EMBEDDED or self.task):
            raise ValueError(f"the source {self.path!r} is no file or dataset, so {unread[0]} would change nothing")
        if self.options and not self.task:
            raise ValueError(f"options belong to a task, and {self.path!r} is none; expected a path {GYM}TASK")
        if empty := [name for name in self.metadata if not name or "." in name]:
            raise ValueError(f"metadata {empty[0]!r}: expected a name without dots, as in {{name: path.to.column}}")
        require_fields(self.spec, self.fields, f"the source {self.name or self.path}")
        return self

    @property
    def task(self) -> str | None:
        """The task of Reasoning Gym that it names."""
        return task_of(self.path)

    @property
    def spec(self) -> VerifierSpec:
        """Its verifier."""
        return _parsed(json.dumps(self.verifier))

    @property
    def ability(self) -> str:
        """The domain of its problems."""
        return self.domain or domain_of(self.spec)

    def record(self) -> dict[str, Any]:
        """What files say of the verifier of its rows."""
        return {"verifier": self.verifier, "digest": self.spec.digest, "domain": self.ability}

    @property
    def field_paths(self) -> dict[str, str]:
        """Where the rows of its files have `fields`: for a teacher's traces in one column, by their names."""
        return {name: f"{FIELDS}.{name}" for name in self.fields} if self.path == GENERATED else self.fields

    @property
    def named_columns(self) -> list[str]:
        """The columns that its mapping, unless that is auto, its metadata and its fields name."""
        mapping = ready_mappings().get(self.mapping) if isinstance(self.mapping, str) else self.mapping
        paths = [*self.metadata.values(), *self.field_paths.values()]
        if mapping:
            several = (paths for paths in (mapping.answer, mapping.reasoning) if isinstance(paths, list))
            paths += [*mapping.columns(), *chain.from_iterable(several)]
        return top_level(paths)

    @property
    def constants(self) -> dict[str, str]:
        """The metadata that all its traces share."""
        values = {"teacher": self.teacher, "license": self.license}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def metadata_names(self) -> list[str]:
        """All metadata that its traces have."""
        return [*self.constants, *self.metadata]


def with_names(sources: Sequence[Source]) -> list[Source]:
    """``sources`` with a name for each: its own, or the last word of its path, numbered where several share one.

    >>> [source.name for source in with_names([Source(path="my/traces/*.jsonl"), Source(path="law/traces.csv.gz")])]
    ['traces', 'traces-2']

    Raises:
        ValueError: two sources give the same name.
    """
    given = Counter(source.name for source in sources if source.name)
    if twice := [name for name, count in given.items() if count > 1]:
        raise ValueError(f"two sources have the name {twice[0]!r}: give each one of its own")
    named, used = [], set(given)
    for source in sources:
        name = source.name
        if name is None:
            stem = _word_of(source.path)
            name = next(n for k in range(1, len(sources) + 2) if (n := stem if k == 1 else f"{stem}-{k}") not in used)
            used.add(name)
        named.append(source.model_copy(update={"name": name}))
    return named


def _word_of(path: str) -> str:
    """What a path says of its content: the last part of it that is no pattern, without its ending."""
    parts = [part for part in path.removeprefix(GYM).rstrip("/").split("/") if not any(mark in part for mark in "*?[")]
    word = "".join(c if c.isalnum() or c == "_" else "-" for c in parts[-1].partition(".")[0]) if parts else ""
    return word.strip("-") or "source"


def _kind(value: Any) -> str:
    return "str" if isinstance(value, str) else "Source"


SourceEntry = Annotated[
    Annotated[str, Field(min_length=1), UserPath(), Tag("str")] | Annotated[Source, Tag("Source")], Discriminator(_kind)
]
