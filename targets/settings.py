"""The sections targets, split and checks: which targets come out, their split, and their quality checks.

The defaults describe LUFFY's published training set (arXiv 2504.14945).
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from core import PROJECT
from core.errors import validated
from core.files import digest_bytes
from core.ledger_verdicts import VERDICTS
from core.model.model_folder import HUB_ID
from core.model.prompts import TEMPLATE_KWARGS
from core.plugins.config_files import entries, entry
from core.plugins.user_code import check_defined, function_file, function_name, function_path, user_code_digest
from core.settings import Section, UserPath, yaml_path
from grading.verifiers.spec import MATHEMATICS
from targets.source_settings import EMBEDDED, GENERATED, Mapping, Source, SourceEntry, with_names

FILTERS = "luffy.filters"  # entry points of packages
SUITE = Path(__file__).parent / "check" / "suite.yaml"
RECORDED = {"recorded": True}  # context of validation: the settings that a file of targets records
OF_THE_GENERATOR = ("embedded_rows", "embedded_split", "embedded_terse")
# Settings that say which traces are read and which of several survive, not whether a trace alone is good.
NOT_FILTERING = frozenset(
    {"source", "mapping", "split", "subset", "revision", "limit", "seed"}
    | {"embedded_rows", "embedded_split", "embedded_terse"}
    | {
        "near_duplicate",
        "traces_per_problem",
        "keep",
        "min_rows",
        "pass_rate",
        "rows_per_file",
        "domain_caps",
        "token_budget",
    }
    | {"max_prompt_tokens", "max_target_tokens", "require_log_probs"}
)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class TargetSettings(Section):
    """Settings of targets/prepared, which decide which targets come out: equal ones on equal input give equal bytes."""

    # --- where the traces are
    source: Annotated[list[SourceEntry], BeforeValidator(_as_list)] = Field(
        default=[EMBEDDED],
        min_length=1,
        description="Where the traces are. 'embedded' (the generator), 'generated' (traces of a teacher; see the "
        "section generate), 'gym:TASK' (a task of Reasoning Gym), a parquet or JSONL file, a folder or a glob "
        "(local, s3:// or gs://), or the id of a dataset on the Hugging Face hub. A mapping with a 'path' gives a "
        "source its own mapping, split, subset, revision, weight, cap, license, teacher, metadata, name, verifier, "
        "domain, fields, system_prompt, suffix, and options (of a task: size, seed, and its own options).",
    )
    mapping: Mapping = Field(
        default="auto",
        description="Columns to read: 'auto', the name of a mapping of targets/read/mappings.yaml, or the columns.",
    )
    split: str = Field(default="train", description="Split of a hub dataset.")
    subset: str | None = Field(
        default=None, description="Subset (configuration) of a hub dataset. None: the default subset."
    )
    revision: str | None = Field(default=None, description="Branch, tag or commit of a hub dataset. None: the newest.")
    limit: int | None = Field(
        default=None, ge=1, description="Maximum number of traces to read from all sources together. None: all."
    )
    embedded_rows: int = Field(
        default=4096, ge=1, le=10_000_000, description="Number of problems that the embedded generator writes."
    )
    embedded_split: Literal["train", "train_hard", "train_products", "train_calls"] = Field(
        default="train",
        description="Problems of the embedded generator. train: sums of 5 to 7 numbers; train_hard: sums of 6 to 7 "
        "numbers, which the base model hardly ever solves; train_products: sums of 7 to 9 numbers with two products, "
        "which the base model was never trained on; train_calls: products of two numbers plus or minus a third, with "
        "traces that call a calculator (it needs the setting tools).",
    )
    embedded_terse: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the embedded traces that do two operations per line after the first line.",
    )
    seed: int = Field(default=0, description="Seed of the generator, and of every choice among traces and problems.")

    # --- what a target looks like
    system_prompt: str | None = Field(
        default=None, description="System message of every prompt. None: keep the source's. Empty: remove it."
    )
    chat_template_kwargs: dict[str, Any] = Field(
        default=dict(TEMPLATE_KWARGS),
        description="Arguments of the policy's chat template, such as {enable_thinking: false}. strftime_now is the "
        "date that a template prints instead of today's. Use the same arguments in the training and the evaluation.",
    )
    plain_text: Literal["reject", "split"] = Field(
        default="reject",
        description="What happens to a response without any marker: reject it, or split it before its last box.",
    )

    # --- thresholds of the filters
    max_text_bytes: int = Field(
        default=1_000_000, ge=1, description="Maximum size of a text, in bytes. A longer text is rejected unread."
    )
    max_prompt_tokens: int = Field(
        default=1024, ge=1, description="Maximum length of a prompt with its chat template, in the policy's tokens."
    )
    max_target_tokens: int = Field(
        default=8192, ge=1, description="Maximum length of a target with its end token, in the policy's tokens."
    )
    min_compression_ratio: float = Field(
        default=0.12,
        ge=0,
        le=1,
        description="Minimum ratio of the compressed (zlib) to the full size of a target. A lower ratio means a loop.",
    )
    compression_min_chars: int = Field(
        default=2000, ge=1, description="Minimum length of a target that is tested for loops, in characters."
    )
    max_repeats: int = Field(
        default=20, ge=2, description="A target is a loop if a line, or a run of 16 words, occurs this many times."
    )
    max_foreign_share: float = Field(
        default=0.001, ge=0, le=1, description="Maximum share of characters that belong to other scripts or are U+FFFD."
    )
    languages: list[str] = Field(
        default=[],
        description="Languages of the targets, such as [en, de], as py3langid identifies them. Empty: any language.",
    )
    reject_figures: bool = Field(
        default=True, description="Reject problems that need a figure, an [asy] drawing or a link."
    )
    reject_choices: bool = Field(
        default=True,
        description="Reject problems of the verifier math that have the letter of an option as their gold answer.",
    )
    grade_limit_s: float = Field(default=5.0, gt=0, description="Seconds allowed for comparing one answer.")

    require_log_probs: bool = Field(
        default=False,
        description="Reject targets without a teacher's log-probability of each token that the policy is trained on.",
    )

    filters: Annotated[list[str], UserPath()] = Field(
        default=[],
        description="Your own filters, which see each target before its answer is compared: FILE.py:FUNCTION, "
        "package.module:FUNCTION, or the name of an entry point luffy.filters.",
    )

    # --- duplicates
    near_duplicate: float = Field(
        default=95.0,
        ge=50,
        le=100,
        description="Minimum similarity of two problems that count as the same, in percent.",
    )
    traces_per_problem: int = Field(
        default=1, ge=1, description="Maximum number of traces per problem that become targets."
    )
    keep: Literal["first", "shortest", "diverse"] = Field(
        default="first",
        description="Which verified traces of a problem become targets: the first, the shortest, or the least alike "
        "(diverse).",
    )
    domain_caps: dict[str, Annotated[int, Field(ge=1)]] = Field(
        default={},
        description="Maximum number of targets by domain, such as {math: 20000, law: 5000}. Others have no limit.",
    )
    token_budget: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of tokens of all targets together, in the policy's tokens. None: no limit.",
    )
    pass_rate: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None,
        description="[low, high]: keep only problems that the base model solves in this share of its samples, "
        "according to the pass rates of the setting difficulty.",
    )
    difficulty: Annotated[str | None, UserPath()] = Field(
        default=None,
        description="Parquet file of pass rates, which `luffy evaluate difficulty` writes. They become the column "
        "pass_rate of the targets. None: the file of the asset targets/difficulty, if the profile has it.",
    )
    review: Annotated[str | None, UserPath()] = Field(
        default=None,
        description="CSV file of reviewers' decisions about traces (id, decision, reviewer, note), which the page of "
        "targets/browser writes. None: no review.",
    )
    ledger: Annotated[str | None, UserPath()] = Field(
        default=None,
        description="Folder of an earlier training run, or its targets.parquet, which has a verdict on each target. "
        "None: no ledger.",
    )
    ledger_drop: list[str] = Field(
        default=["known", "not_learned"],
        description="Leave out the targets to which the ledger gives one of these verdicts.",
    )
    min_rows: int = Field(default=1, ge=1, description="Minimum number of targets that passes the quality check.")

    rows_per_file: int = Field(
        default=50_000,
        ge=1,
        description="With more targets than this, the output is several files, NAME-00000-of-000NN.parquet, each of "
        "about this many targets, or of four times as many traces.",
    )

    # --- where the filters run: the output does not depend on these
    engine: Literal["local", "ray"] = Field(
        default="local",
        description="Where the filters run: local (processes of this machine), or ray (Ray Data, in the training "
        "interpreter).",
    )
    workers: int = Field(default=2, ge=1, description="Number of processes that filter traces.")

    @field_validator("filters")
    @classmethod
    def _exist(cls, filters: list[str]) -> list[str]:
        found = []
        for name in filters:
            path = function_path(name, Path.cwd()) if ":" in name else entry(FILTERS, name)
            if path is None:
                names = ", ".join([*entries(FILTERS), "FILE.py:FUNCTION"])
                raise ValueError(f"there is no filter {name!r}; expected {names}")
            check_defined(path)
            found.append(path)
        if twice := [name for name, count in Counter(map(function_name, found)).items() if count > 1]:
            raise ValueError(f"two filters are named {twice[0]}; rename one of the functions")
        return found

    @field_validator("ledger_drop")
    @classmethod
    def _are_verdicts(cls, names: list[str]) -> list[str]:
        if unknown := [name for name in names if name not in VERDICTS]:
            raise ValueError(f"there is no verdict {unknown[0]!r}; expected {', '.join(VERDICTS)}")
        return names

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.pass_rate is not None and not 0 <= self.pass_rate[0] <= self.pass_rate[1] <= 1:
            raise ValueError(f"pass_rate {self.pass_rate}: expected [low, high] with 0 <= low <= high <= 1")
        # Generated traces may join the sources later.
        domains = dict.fromkeys(source.ability for source in [*self.sources, Source(path=GENERATED)])
        if unknown := [domain for domain in self.domain_caps if domain not in domains]:
            raise ValueError(f"domain_caps: no source has the domain {unknown[0]!r}; expected {', '.join(domains)}")
        return self

    @model_validator(mode="after")
    def _all_read(self, info: ValidationInfo) -> Self:
        """Refuse a setting that changes nothing, given the others; what a file records has been accepted."""
        if info.context == RECORDED:
            return self
        hub = any(HUB_ID(source.path) and not os.path.exists(source.path) for source in self.sources)
        columns = any(source.path != EMBEDDED and not source.task for source in self.sources)
        unread = {
            **dict.fromkeys(OF_THE_GENERATOR, EMBEDDED not in self.paths and "no source is 'embedded'"),
            "revision": not hub and "no source is a dataset of the hub",
            "subset": not (hub or any(map(os.path.isdir, self.paths))) and "no source is a dataset or its folder",
            "mapping": not columns and "no source has columns to choose",
            "split": not columns and "no source has splits",
            "ledger_drop": self.ledger is None and "there is no ledger",
            "compression_min_chars": not self.min_compression_ratio and "min_compression_ratio 0 rejects no loop",
        }
        changed = (name for name in sorted(self.model_fields_set) if getattr(self, name) != self.default(name))
        if name := next((name for name in changed if unread.get(name)), None):
            default = json.dumps(self.default(name))
            raise ValueError(f"{name} would change nothing: {unread[name]}; leave it out, or set it to {default}")
        return self

    @classmethod
    def default(cls, name: str) -> Any:
        """Return the default of a setting."""
        return cls.model_fields[name].default

    @property
    def sources(self) -> list[Source]:
        """The sources, each with the settings that it shares with the others."""
        entries = [Source(path=entry) if isinstance(entry, str) else entry for entry in self.source]
        shared = {name: getattr(self, name) for name in ("mapping", "split", "subset", "revision", "system_prompt")}
        return with_names(
            [
                entry.model_copy(update={name: value for name, value in shared.items() if getattr(entry, name) is None})
                for entry in entries
            ]
        )

    def published(self) -> Self:
        """The settings with the sources that existed before anything was generated."""
        there = [entry for entry in self.source if entry != GENERATED and getattr(entry, "path", None) != GENERATED]
        return self.model_copy(update={"source": there})

    @property
    def paths(self) -> list[str]:
        """The paths of the sources."""
        return [source.path for source in self.sources]

    @property
    def metadata_names(self) -> list[str]:
        """All metadata that some source gives its traces."""
        return list(dict.fromkeys(name for source in self.sources for name in source.metadata_names))

    def identity_fields(self) -> dict[str, Any]:
        """The settings that decide what comes out, as JSON values; of files their content does."""
        unread = {"engine", "workers", "review", "difficulty", "ledger"}
        optional = (("filters", self.filters), ("ledger_drop", self.ledger))
        unread |= {name for name, used in optional if not used}
        return self.model_dump(mode="json", exclude=unread)

    def _digested_fields(self) -> dict[str, Any]:
        """`identity_fields` with the content of the user's filters in the place of their paths."""
        fields = self.identity_fields()
        if self.filters:
            fields["filters"] = {function_name(path): user_code_digest(function_file(path)) for path in self.filters}
        return fields

    def digest(self) -> str:
        """sha256 of the settings that decide what comes out, and of what verifiers read outside of them."""
        fields = self._digested_fields()
        if specs := {source.name: source.spec.digest for source in self.sources if source.spec.type not in MATHEMATICS}:
            fields["verifiers"] = specs
        return digest_bytes(json.dumps(fields, sort_keys=True).encode())

    def filter_digest(self) -> str:
        """sha256 of the settings on which the decision on a single trace depends."""
        filtering = {name: value for name, value in self._digested_fields().items() if name not in NOT_FILTERING}
        del filtering["system_prompt"]  # that of each source counts
        filtering["minhash"] = self.keep == "diverse"
        return digest_bytes(json.dumps(filtering, sort_keys=True).encode())


class SplitSettings(Section):
    """Settings of targets/train."""

    heldout_share: float = Field(default=0.0, ge=0, lt=1, description="Share of the problems that are held out.")
    max_rows: int | None = Field(default=None, ge=1, description="Maximum number of training rows. None: all.")


class CheckSettings(Section):
    """The quality checks. They decide which asset checks exist, so they cannot be changed in the Launchpad."""

    suite: Annotated[str | None, UserPath(yaml_path)] = Field(
        default=None, description="YAML file of checks that replaces targets/check/suite.yaml."
    )

    @property
    def file(self) -> Path:
        """The file of the checks."""
        return SUITE if self.suite is None else PROJECT / Path(self.suite).expanduser()


def build_config(values: dict[str, Any], *, where: str = "targets config") -> TargetSettings:
    """A TargetSettings, or InputError that names the first key that does not fit and what was expected."""
    return validated(TargetSettings, values, f"{where}: ")
