"""Rank all checkpoints that were graded on the same problems in the same way.

A ranking holds what can be compared: the same benchmarks, problems, gold answers, verifiers, samples per problem,
sampling settings and prompt. Of several results of a checkpoint, the newest of those with the most samples counts.
It is ordered by the unweighted mean over benchmarks. The difference from the first entry is paired by problem: a
model cannot be told apart from the first if its interval includes zero with these problems.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pyarrow as pa

from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.files import digest_bytes
from core.model.endpoints import endpoint_of
from core.model.prompts import PromptRecord
from core.parquet import read_parquet
from core.schemas import GRADED
from core.text.markdown import escape_markdown
from evaluation.report.table import Table, change, percent
from evaluation.sample_tables import grading_record, model_name, read_graded, recorded
from evaluation.statistics.benchmark_scores import summarize
from evaluation.statistics.paired import average_difference, paired_difference


@dataclass(frozen=True)
class Entry:
    """One checkpoint of a ranking. Scores are shares of right samples; the difference is that from the first entry."""

    checkpoint: str
    model: str  # its folder or hub id when it was generated
    scores: Mapping[str, float]
    mean: float
    difference: float
    low: float  # 95% interval of the difference
    high: float

    @property
    def name(self) -> str:
        """The checkpoint's short digest and the end of the model's path; an endpoint is its own checkpoint."""
        if endpoint_of(self.checkpoint):
            return self.checkpoint
        return f"{self.checkpoint[:SHORT_DIGEST]} {model_name(self.model)}".strip()


@dataclass(frozen=True)
class Ranking:
    """Checkpoints that were evaluated in the same way, the best first."""

    benchmarks: tuple[str, ...]
    problems: int
    digest: str  # of the problems, their gold answers and their verifiers
    settings: str
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        return f"{self.problems} problems, digest {self.digest[:8]}; {self.settings}"

    def table(self) -> Table:
        """Return one row per checkpoint."""
        table = Table(["#", "model", "mean", "difference from #1", *self.benchmarks], left=(1,))
        for number, entry in enumerate(self.entries, 1):
            difference = change(entry.difference, entry.low, entry.high) if number > 1 else ""
            scores = (percent(entry.scores[name]) for name in self.benchmarks)
            table.add(str(number), entry.name, percent(entry.mean), difference, *scores)
        return table


def rank_folder(folder: Path) -> list[Ranking]:
    """Return the rankings of all graded tables below ``folder``, the longest first; InputError if there are none."""
    graded: dict[tuple[str, str], dict[str, list[pa.Table]]] = {}  # (settings, checkpoint) -> benchmark -> tables
    for file in sorted(Path(folder).rglob("*.parquet"), key=_age):
        table = _read_graded(file)
        checkpoint = recorded(table, "checkpoint") if table else ""
        if table is None or not checkpoint or len(names := table["benchmark"].unique().to_pylist()) != 1:
            continue
        key = _settings(table), checkpoint
        graded.setdefault(key, {}).setdefault(names[0], []).append(table)
    if not graded:
        raise InputError(f"{folder}: no graded results below it; make some with luffy evaluate compare, or make demo")
    groups: dict[tuple[str, str], dict[str, dict[str, pa.Table]]] = {}  # (settings, problems) -> checkpoint -> tables
    for (settings, checkpoint), benchmarks in graded.items():
        largest = {name: max(tables, key=lambda table: table.num_rows) for name, tables in sorted(benchmarks.items())}
        groups.setdefault((settings, _problems(largest)), {})[checkpoint] = largest
    rankings = [_rank(*key, checkpoints) for key, checkpoints in groups.items()]
    return sorted(rankings, key=lambda ranking: (-len(ranking.entries), -len(ranking.benchmarks), ranking.settings))


def leaderboard_text(rankings: Sequence[Ranking]) -> str:
    """Return the rankings as tables for the terminal."""
    return "\n\n".join(f"{ranking.title}\n{ranking.table().to_text()}" for ranking in rankings)


def leaderboard_markdown(rankings: Sequence[Ranking]) -> str:
    """Return the rankings as Markdown tables."""
    title = (
        "# Leaderboard\n\nUnweighted mean over benchmarks, percent of samples right; 95% intervals paired by problem."
    )
    parts = (f"{escape_markdown(ranking.title)}\n\n{ranking.table().to_markdown()}" for ranking in rankings)
    return "\n\n".join([title, *parts]) + "\n"


def _rank(settings: str, digest: str, checkpoints: Mapping[str, Mapping[str, pa.Table]]) -> Ranking:
    scores, problems = {}, 0
    for checkpoint, tables in checkpoints.items():
        summaries = {name: summarize(table) for name, table in tables.items()}
        scores[checkpoint] = {name: summary.mean for name, summary in summaries.items()}
        problems = sum(summary.problems for summary in summaries.values())
    means = {checkpoint: fmean(by_benchmark.values()) for checkpoint, by_benchmark in scores.items()}
    order = sorted(means, key=lambda checkpoint: (-means[checkpoint], checkpoint))
    first = checkpoints[order[0]]
    entries = []
    for checkpoint in order:
        tables = checkpoints[checkpoint]
        difference = average_difference([paired_difference(first[name], tables[name]) for name in first])
        model = recorded(next(iter(tables.values())), "model")
        entries.append(Entry(checkpoint, model, scores[checkpoint], means[checkpoint], *difference))
    return Ranking(tuple(first), problems, digest, settings, tuple(entries))


def _age(file: Path) -> tuple[int, Path]:
    """Return a key that sorts the newest file first."""
    return -file.stat().st_mtime_ns, file


def _problems(tables: Mapping[str, pa.Table]) -> str:
    """Return the digest of the problems of each benchmark, with their gold answers and recorded verifiers."""
    parts = {}
    for name, table in tables.items():
        record = grading_record(table)
        parts[name] = [sorted(table["id"].to_pylist()), record.get("problems"), record.get("verifiers")]
    return digest_bytes(json.dumps(parts, sort_keys=True).encode())


def _read_graded(file: Path) -> pa.Table | None:
    names = read_parquet(file, "grade the samples again, or keep other files elsewhere").schema.names
    return read_graded(file) if set(GRADED.names) <= set(names) else None


def _settings(table: pa.Table) -> str:
    """Return the sampling settings, the prompt's digest, and the rules for thoughts and for truncated answers."""
    sampling, grading = json.loads(recorded(table, "sampling") or "{}"), grading_record(table)
    settings = ", ".join(f"{name} {value}" for name, value in sampling.items() if name != "samples")
    frame = PromptRecord.of(table).frame
    prompt = "not recorded" if frame is None else digest_bytes(frame.encode())[:8]
    thoughts = ", answers after </think>" if grading.get("thinking") else ""
    cut = ", cut samples by their text" if grading.get("truncated") == "by_text" else ""
    return f"{settings or 'sampling not recorded'}, prompt {prompt}{thoughts}{cut}"
