"""What the causes of `training.diagnosis.explain` look at, the record of a run, and what they find: evidence."""

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.backends.attempts import attempts
from core.errors import InputError
from core.files import read_object, read_yaml
from core.ledger_verdicts import LEARNED_FILE
from core.metric_table import REWARD, read_step_metrics
from core.model.lineage_file import MANIFEST
from core.zip_archive import unpack
from training.job.records import rollout_log
from training.job.records.metrics_log import merge_attempts
from training.job.records.rollout_log import Rollout
from training.job.run_folder import RunFolder

if TYPE_CHECKING:
    import pyarrow as pa

WINDOW = 5  # steps at either end of a curve, at most; a quarter of the steps of a shorter run
SAMPLES = 512  # read of a step
LIVE_WINDOW = 10  # steps whose mean is looked at while a run goes on, so that one step alone alarms nobody
STEPS = 12  # number of steps whose samples are read
ROSE = 0.1  # a reward that rose by this much was learned from
KEPT = 0.5  # share of its best reward that a run which learns still has at its end
SHOWN = 3  # samples with an evidence
PROMPTS = 20  # rows of a training set that are looked at before a run
# When a cause is looked for: in targets before a run, in the samples of its first step, in its curves after every
# step, in all that it left (`luffy explain`).
BEFORE, FIRST, LIVE, AFTER = "before", "first", "live", "after"


class Evidence:
    """The figures with their threshold, up to three samples and the name of the metric that show a cause."""

    def __init__(self, text: str, samples: Sequence[Rollout] = (), curve: str = "") -> None:
        self.text, self.samples, self.curve = text, tuple(samples[:SHOWN]), curve


@dataclass(frozen=True)
class Cause:
    """A reason why a run does not learn."""

    name: str  # the anchor of its section in docs/explain.md, too
    title: str
    when: tuple[str, ...]
    keys: str  # what to change
    test: "Callable[[RunRecord], Evidence | None]"

    @property
    def link(self) -> str:
        """The section of the documentation."""
        return f"docs/explain.md#{self.name}"


def cause(*when: str, keys: str) -> "Callable[[Callable[[RunRecord], Evidence | None]], Cause]":
    """Make a cause of a test: its name becomes the cause's, its docstring the title."""
    return lambda test: Cause(test.__name__, (test.__doc__ or "").removesuffix("."), when, keys, test)


def share(samples: Sequence[Rollout], chosen: Sequence[Rollout]) -> float:
    """Return the share of ``chosen`` among ``samples``; 0 of none."""
    return len(chosen) / max(len(samples), 1)


@dataclass(frozen=True)
class RunRecord:
    """What is known of a run. Before a training there are samples alone: no metrics, and nothing learned."""

    config: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]] = ()  # of its steps, as in ``metrics.jsonl``
    samples: Mapping[int, Sequence[Rollout]] = field(default_factory=dict)  # by step; the first's precede any update
    learned: "pa.Table | None" = None  # `core.schemas.LEARNED`; None without a ledger
    error: str = ""  # that ended it
    first_stage: "RunRecord | None" = None

    def value(self, key: str, default: Any = None) -> Any:
        """Return the value of a key of the configuration, such as ``data.max_response_length``."""
        section: Any = self.config
        for name in key.split("."):
            if not isinstance(section, Mapping) or name not in section:
                return default
            section = section[name]
        return section

    def curve(self, metric: str) -> list[float]:
        """Return the values of ``metric``, step by step."""
        values = (record["data"].get(metric) for record in self.records)
        return [value for value in values if value is not None]

    def ends(self, metric: str) -> tuple[float, float] | None:
        """Return the means of ``metric`` over the first and the last steps of its `curve`; None for fewer than two."""
        values = self.curve(metric)
        if len(values) < 2:
            return None
        width = max(1, min(WINDOW, len(values) // 4))
        return sum(values[:width]) / width, sum(values[-width:]) / width

    def means(self, metric: str) -> list[float]:
        """Return the means of ``metric`` over each `LIVE_WINDOW` steps of its `curve`, first to last."""
        values = self.curve(metric)
        windows = range(len(values) - LIVE_WINDOW + 1)
        return [sum(values[start : start + LIVE_WINDOW]) / LIVE_WINDOW for start in windows]

    @cached_property
    def limit(self) -> int:
        return int(self.value("data.max_response_length", 0))

    @cached_property
    def learns(self) -> bool:
        """Whether the reward of on-policy samples rose and did not fall back."""
        if (ends := self.ends(REWARD)) is None:
            return False
        first, last = ends
        return last - first >= ROSE and last >= KEPT * max(self.curve(REWARD))

    @cached_property
    def both_ends(self) -> list[list[Rollout]]:
        """The on-policy samples of the first step and of the last; one list where there is one step."""
        own = [[one for one in self.samples[step] if not one.prefix_length] for step in sorted(self.samples)]
        drawn = [step for step in own if step]
        return drawn[:1] if len(drawn) < 2 else [drawn[0], drawn[-1]]

    @property
    def first(self) -> Sequence[Rollout]:
        return self.both_ends[0] if self.both_ends else ()

    @property
    def last(self) -> Sequence[Rollout]:
        return self.both_ends[-1] if self.both_ends else ()

    @cached_property
    def all_samples(self) -> list[Rollout]:
        return [one for step in sorted(self.samples) for one in self.samples[step]]

    @cached_property
    def off_policy(self) -> list[Rollout]:
        """The samples that start with a target, or are one."""
        return [one for one in self.all_samples if one.prefix_length]

    def is_cut(self, sample: Rollout) -> bool:
        """Return whether ``sample`` filled the limit of a response, or had no turn left."""
        return sample.cut or 0 < self.limit <= sample.tokens


def read_record(run: Path) -> RunRecord:
    """Return the record of the run in folder ``run``, or in a file of a recorded run (.zip).

    Raises:
        InputError: there is no run, or a file of it is damaged.
    """
    if run.is_file():
        with tempfile.TemporaryDirectory() as name:
            unpack(run, Path(name), "a recorded run", "give the folder of a run, or its .zip")
            try:
                return _read(Path(name), run)
            except InputError as error:
                raise InputError(str(error).replace(f"{name}/", f"{run}: ")) from error
    return _read(run, run)


def _read(folder: Path, named: Path) -> RunRecord:
    from core.parquet import read_table
    from core.schemas import LEARNED

    run = RunFolder(folder)
    manifest = next((file for file in (folder / MANIFEST, run.policy / MANIFEST) if file.is_file()), None)
    if run.config.is_file():
        config = read_yaml(run.config, "configuration")
    elif manifest:
        config = read_object(manifest).get("config")
    else:
        raise InputError(
            f"{named}: no config.yaml in it, so it is not a run: give the folder that training/policy shows as `run "
            "folder`, or a recorded run (.zip)"
        )
    ended = attempts(run.attempts)
    ledger = folder / LEARNED_FILE
    before = run.first_stage
    return RunRecord(
        config=config or {},
        records=_metrics(run),
        samples=_samples(run.rollouts),
        learned=read_table(ledger, LEARNED, "remove the file", optional=LEARNED.names) if ledger.is_file() else None,
        error=ended[-1].read_record().reason if ended else "",
        first_stage=_read(before.path, before.path) if before.config.is_file() else None,
    )


def _metrics(run: RunFolder) -> list[dict[str, Any]]:
    if run.metrics.is_file():
        return read_step_metrics(run.metrics)
    try:
        return merge_attempts([attempt.records for attempt in attempts(run.attempts)])
    except (ValueError, KeyError, TypeError) as error:  # also of JSON
        raise InputError(
            f"{run.attempts}: the metrics of an attempt are damaged ({error}); copy the run again"
        ) from error


def _samples(folder: Path) -> dict[int, list[Rollout]]:
    """Return the samples of the first and the last step, and of some between."""
    steps = rollout_log.steps(folder) if folder.is_dir() else []
    every = max(1, -(-len(steps) // STEPS))
    return {step: rollout_log.read(folder, step, SAMPLES) for step in sorted({*steps[::every], *steps[-1:]})}


def sample_rows(targets: Path) -> list[dict[str, Any]]:
    """Return the samples of `PROMPTS` rows of a table of targets, always the same ones, that have a target.

    Only the row groups with these rows are read, because a training set may have millions of rows.
    """
    import pyarrow.parquet as pq

    from core.parquet import count_rows, shards
    from core.schemas import TARGET

    count = count_rows(targets)
    chosen = sorted(random.Random(0).sample(range(count), min(PROMPTS, count)))
    rows, start = [], 0
    for file in map(pq.ParquetFile, shards(targets)):
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            if within := [row - start for row in chosen if start <= row < end]:
                rows += file.read_row_group(group, TARGET.names).take(within).to_pylist()
            start = end
    return [row for row in rows if row["target"]]
