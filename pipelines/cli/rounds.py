"""``luffy run --rounds N``: ask a teacher about what the model does not solve, train on the answers, and repeat.

A round is two ordinary runs. One measures how often the present model solves each problem (targets/difficulty). The
other is a run of the whole graph, on the problems that the teacher was asked so far and the unsolved ones, from the
model that the round before has trained. The teacher answers within ``generate.budget_tokens`` per round.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet as pq

from assets.evals.scores import key
from assets.generated import KEY as GENERATED
from assets.shared.references import GeneratedReference, PolicyReference, Reference, ScoresReference
from assets.shared.storage import Storage
from assets.targets import DIFFICULTY
from assets.training import POLICY
from core import PROJECT
from core.cli import say
from core.code_digest import SHORT_DIGEST, identity
from core.errors import InputError
from core.files import atomic_write, digest_file, read_json, write_json
from core.settings import Layer, resolve
from evaluation.benchmarks.benchmark_files import read_rows
from evaluation.generation.endpoint import Endpoint
from evaluation.report.table import Table
from evaluation.settings import GenerateSettings
from pipelines.cli.run import run_graph
from pipelines.settings import Settings
from targets.select.dedupe import problem_digest
from targets.source_settings import GENERATED as SOURCE

UNSOLVED_BELOW = 0.25  # share of the model's samples of a problem
RECORD = "round.json"
# Sections that change no result.
OTHERS = {"storage", "interpreter", "retention", "catalog", "schedule", "notify"}
COLUMNS = ("round", "unsolved before", "asked so far", "tokens so far", "score", "policy")


@dataclass(frozen=True)
class Round:
    """A round that is complete: what the teacher has answered up to it, and the policy with its mean score."""

    unsolved: int  # problems, before the teacher was asked
    asked: list[int]  # numbers of problems
    tokens: int
    score: float
    policy: str  # folder
    digest: str  # of the policy


def run_rounds(settings: Settings, number_of_rounds: int, at_once: int) -> int:
    """Run the rounds, of which complete ones are reused, print a table of them, and return the exit status."""
    teacher = _teacher(settings)
    file = PROJECT / Path(teacher.problems).expanduser()
    if not file.is_file():
        raise InputError(f"generate.problems: {file}: no such file; give a file with problems and gold answers")
    rows, storage = [row for _, row in read_rows(file)], Storage(root=settings.storage.root)
    done: list[Round] = []
    made_of = [settings.model_dump(mode="json", exclude=OTHERS), digest_file(file)]
    for number in range(1, number_of_rounds + 1):
        folder = storage.folder("rounds", "round", identity(made_of, number, done[-1].digest if done else ""))
        if (folder / RECORD).is_file() and not storage.force:
            recorded = Round(**read_json(folder / RECORD))
            if Path(recorded.policy).is_dir():
                done.append(recorded)
                continue
        start, asked = (done[-1].policy, done[-1].asked) if done else (settings.model.source, [])
        with storage.writable():
            folder.mkdir(parents=True, exist_ok=True)
        if status := _measure(settings, teacher, rows, start, folder / "measured.jsonl", at_once):
            return status
        rates = _rates(storage, [str(row[teacher.problem_column]) for row in rows])
        chosen = unsolved(rates, teacher.seed)
        wanted = [*asked, *(one for one in chosen if one not in asked)]
        say(f"round {number}: {len(chosen)} of {len(rows)} problems unsolved, {len(wanted) - len(asked)} new")
        if wanted == asked:
            say("the rounds end here: the teacher has written traces for every unsolved problem")
            break
        _write(folder / "problems.jsonl", [rows[one] for one in wanted])
        budget = {"budget_tokens": number * (teacher.budget_tokens or 0), "budget_covers_cached": True}
        changes = {
            "model": {"source": start},
            "generate": {"problems": str(folder / "problems.jsonl"), **budget},
            "training": {"seed": settings.training.seed + number - 1},
        }
        if status := _run(settings, changes, None, at_once):
            return status
        done.append(_record(storage, settings, len(chosen), wanted, folder / RECORD))
    say(_table(done, len(rows)).to_text())
    return 0


def unsolved(rates: Sequence[float], seed: int) -> list[int]:
    """Return the numbers of the problems with a low pass rate, the lowest first; ``seed`` orders equal ones.

    >>> unsolved([0.2, 1.0, 0.0, 0.25], seed=0)
    [2, 0]
    """
    low = [number for number, rate in enumerate(rates) if rate < UNSOLVED_BELOW]
    return sorted(low, key=lambda number: (rates[number], identity(seed, number)))


def _teacher(settings: Settings) -> GenerateSettings:
    teacher = settings.generate
    if teacher is None or Endpoint.parse(teacher.teacher) is None or teacher.budget_tokens is None:
        raise InputError(
            "--rounds: they ask the teacher of the section generate within a budget per round: set generate.teacher to "
            "MODEL@URL of an endpoint, and generate.budget_tokens (a model folder is one behind `vllm serve`)"
        )
    return teacher


def _measure(
    settings: Settings, teacher: GenerateSettings, rows: Sequence[Any], model: str, file: Path, at_once: int
) -> int:
    """Measure how often ``model`` solves each problem, by a run of targets/difficulty on ``file``."""
    _write(file, [{**row, "response": "none"} for row in rows])
    mapping = {"problem": teacher.problem_column, "answer": teacher.answer_column, "response": "response"}
    entries = settings.model_dump(mode="json")["targets"]["source"]
    of_teacher = next((one for one in entries if isinstance(one, dict) and one["path"] == SOURCE), {})
    changes = {
        "model": {"source": model},
        "generate": None,
        "difficulty": {} if settings.difficulty is None else settings.difficulty.model_dump(mode="json"),
        "targets": {"source": [{**of_teacher, "path": str(file), "mapping": mapping}]},
    }
    return _run(settings, changes, f"+key:{DIFFICULTY.to_user_string()}", at_once)


def _rates(storage: Storage, problems: Sequence[str]) -> list[float]:
    """Return the pass rate of each problem; one that no filter lets through was not measured, and counts as 1."""
    table = pq.read_table(storage.read_reference(DIFFICULTY.to_user_string(), Reference).path)
    rates = {problem_digest(row["problem"]): row["pass_rate"] for row in table.to_pylist()}
    return [rates.get(problem_digest(problem), 1.0) for problem in problems]


def _record(storage: Storage, settings: Settings, count: int, wanted: Sequence[int], file: Path) -> Round:
    """Read what the run of a round has made, and keep it in ``file``, by which a later command knows the round."""
    traces = pq.read_table(storage.read_reference(GENERATED.to_user_string(), GeneratedReference).path)
    policy = storage.read_reference(POLICY.to_user_string(), PolicyReference)
    scores = [
        storage.read_reference(key(benchmark, "policy").to_user_string(), ScoresReference).accuracy
        for benchmark in settings.suite.entries()
    ]
    asked = [wanted[number - 1] for number in sorted({int(one) for one in traces["id"].to_pylist()})]
    tokens = sum(traces["tokens"].to_pylist())
    made = Round(count, asked, tokens, fmean(scores), policy.path, policy.digest)
    write_json(asdict(made), file)
    return made


def _table(rounds: Sequence[Round], problems: int) -> Table:
    table = Table(COLUMNS, left=(len(COLUMNS) - 1,))
    for number, one in enumerate(rounds, 1):
        counts = [f"{one.unsolved:,} of {problems:,}", f"{len(one.asked):,}", f"{one.tokens:,}"]
        table.add(str(number), *counts, f"{one.score:.1%}", one.digest[:SHORT_DIGEST])
    return table


def _run(settings: Settings, changes: Mapping[str, Any], select: str | None, at_once: int) -> int:
    """Run the graph with changed settings and return the exit status."""
    layers = [Layer("profile", settings.model_dump(mode="json")), Layer("--rounds", changes)]
    return run_graph(resolve(Settings, layers), select, at_once, suggests=False)


def _write(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with atomic_write(file) as temporary:
        temporary.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows), encoding="utf-8")
