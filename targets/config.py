"""Every setting of target preparation. The defaults are those of LUFFY's published training set (arXiv 2504.14945)."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from core.errors import InputError, explain_validation
from core.files import digest_bytes, read_yaml
from core.parse import parse_yaml

EMBEDDED = "embedded"
MAPPINGS = Path(__file__).parent / "read" / "mappings.yaml"
# Settings that say which traces are read and which of several survive, not whether a trace alone is good.
NOT_FILTERING = frozenset(
    {"source", "mapping", "split", "subset", "revision", "limit", "seed"}
    | {"embedded_rows", "embedded_split", "embedded_terse"}
    | {"near_duplicate", "traces_per_problem", "keep", "min_rows"}
)


class ColumnMapping(BaseModel):
    """Which columns of a source hold what a trace needs. Each value is a column, or a dotted path into structs.

    Of a column of chat messages, ``problem`` takes the last user message, ``response`` the last assistant message and
    ``system`` the system message. A list of strings in ``response`` holds several generations of one problem; then
    ``reasoning``, ``upstream_correct`` and ``target_log_probs`` are lists of the same length.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    problem: str
    answer: str
    response: str
    reasoning: str | None = None  # thoughts kept apart from the response: they become its think block
    system: str | None = None
    upstream_correct: str | None = None
    target_log_probs: str | None = None  # a list per response; a column of this name is read without being mapped
    worked_solution: bool = False  # the answer column holds a solution: its last box is the gold answer

    def columns(self) -> list[str]:
        """The top-level columns that must be there."""
        paths = (self.problem, self.answer, self.response, self.reasoning, self.system, self.upstream_correct)
        paths += (self.target_log_probs,)
        return list(dict.fromkeys(path.split(".")[0] for path in paths if path))


def ready_names() -> list[str]:
    """The names of the ready mappings."""
    return list(read_yaml(MAPPINGS, "mappings"))


def _known(mapping: ColumnMapping | str) -> ColumnMapping | str:
    if isinstance(mapping, str) and mapping not in (names := ["auto", *ready_names()]):
        raise ValueError(f"{mapping!r} does not exist: expected one of {', '.join(names)}, or the columns")
    return mapping


Mapping = Annotated[ColumnMapping | str, AfterValidator(_known)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class PrepareConfig(BaseModel):
    """Everything that decides which targets come out. Two equal configs on equal input give equal bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    # --- where the traces are
    source: Annotated[list[str], BeforeValidator(_as_list)] = Field(
        default=[EMBEDDED],
        min_length=1,
        description="'embedded', a parquet/JSONL file, folder or glob (local or s3://, gs://), or a hub dataset id",
    )
    mapping: Mapping = Field(default="auto", description="'auto', a ready mapping's name, or the columns")
    split: str = Field(default="train", description="split of a hub dataset")
    subset: str | None = Field(default=None, description="subset (configuration) of a hub dataset")
    revision: str | None = Field(default=None, description="revision of a hub dataset")
    limit: int | None = Field(default=None, ge=1, description="read only so many traces of all sources together")
    embedded_rows: int = Field(default=4096, ge=1, description="problems that the embedded generator makes")
    embedded_split: Literal["train", "train_hard"] = Field(
        default="train",
        description="train: sums of 5 to 7 numbers; train_hard: of 6 to 7, which the base model hardly ever solves",
    )
    embedded_terse: float = Field(
        default=0.0, ge=0, le=1, description="share of its traces with two operations per line after the first line"
    )
    seed: int = 0

    # --- what a target looks like
    system_prompt: str | None = Field(
        default=None, description="system message of every prompt; none: keep the source's; empty: remove it"
    )
    plain_text: Literal["reject", "split"] = Field(
        default="reject", description="a response without any marker: reject it, or split it before its last box"
    )

    # --- thresholds of the filters
    max_text_bytes: int = Field(default=1_000_000, ge=1, description="longer texts are rejected unread")
    max_prompt_tokens: int = Field(
        default=1024, ge=1, description="longest prompt with its chat template, in the policy's tokens"
    )
    max_target_tokens: int = Field(
        default=8192, ge=1, description="longest target with its end token, in the policy's tokens"
    )
    min_compression_ratio: float = Field(
        default=0.12, ge=0, le=1, description="a target with a smaller zlib size / size is a loop"
    )
    compression_min_chars: int = Field(default=2000, ge=1, description="shorter targets are not tested for loops")
    max_repeats: int = Field(default=20, ge=2, description="a run of 16 words or a line that occurs so often is a loop")
    max_foreign_share: float = Field(
        default=0.001, ge=0, le=1, description="largest share of characters of other scripts, or U+FFFD"
    )
    reject_figures: bool = Field(
        default=True, description="reject problems that need a figure, an [asy] drawing or a link"
    )
    reject_choices: bool = Field(default=True, description="reject gold answers that are an option letter")
    grade_limit_s: float = Field(default=5.0, gt=0, description="seconds for comparing one answer")

    # --- duplicates
    near_duplicate: float = Field(
        default=95.0, ge=50, le=100, description="percent of similarity from which two problems are the same"
    )
    traces_per_problem: int = Field(default=1, ge=1)
    keep: Literal["first", "shortest", "diverse"] = Field(
        default="first", description="which verified traces of a problem survive; diverse: the least alike"
    )
    min_rows: int = Field(default=1, ge=1, description="fewer rows than this fail the quality check")

    # --- where the filters run: the output does not depend on these
    engine: Literal["local", "ray"] = Field(
        default="local", description="processes of this machine, or Ray Data (in the training interpreter)"
    )
    workers: int = Field(default=2, ge=1, description="processes that filter traces")

    def deciding(self) -> dict[str, Any]:
        """The settings that decide what comes out, as JSON values."""
        return self.model_dump(mode="json", exclude={"engine", "workers"})

    def digest(self) -> str:
        """sha256 of the settings that decide what comes out."""
        return digest_bytes(json.dumps(self.deciding(), sort_keys=True).encode())

    def filter_digest(self) -> str:
        """sha256 of the settings on which the decision on a single trace depends."""
        filtering = {name: value for name, value in self.deciding().items() if name not in NOT_FILTERING}
        filtering["minhash"] = self.keep == "diverse"
        return digest_bytes(json.dumps(filtering, sort_keys=True).encode())


def build_config(values: dict[str, Any], *, where: str = "targets config") -> PrepareConfig:
    """A PrepareConfig, or InputError that names the first key that does not fit and what was expected."""
    try:
        return PrepareConfig.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{where}: {explain_validation(error, PrepareConfig)}") from error


def read_config(path: Path | None, overrides: Sequence[str] = ()) -> PrepareConfig:
    """The config in a YAML file (none: the defaults) with ``KEY=VALUE`` overrides, VALUE being YAML."""
    values = {} if path is None else read_yaml(path, "targets config")
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise InputError(f"--set {override!r}: expected KEY=VALUE")
        values[key] = parse_yaml(value, f"--set {override!r:.200}")
    return build_config(values, where=f"targets config {path}" if path else "targets config")
