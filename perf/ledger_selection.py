"""Train again without the targets that a ledger drops: ``.venv/bin/python -m perf.ledger_selection``.

For each seed a policy is trained on all targets, a second one without those that the ledger of the first calls known or
not learned, and a third one on as many targets drawn by chance, each for the same number of steps. The policies are
scored on problems of the same distribution, none of which is a target. Trainings and scores that are complete in
``--out`` are reused, so an interrupted comparison continues where it stopped. The result is the table of
docs/results/ledger.md.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pyarrow.parquet as pq
from scipy import stats

from core.code_digest import PROJECT
from core.files import write_table
from core.ledger import VERDICTS
from core.schemas import BENCHMARK
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite
from evaluation.statistics.scores import summarize
from perf.learning_rates import TRAINING, call
from training.embedded_model.resolve_model import SHIPPED
from training.job.ledger import verdict_counts

DROPPED = ("known", "not_learned")
BENCHMARK_NAME, PROBLEMS = "arithmetic", 200
ALL, LEFT, CHANCE = "all", "left", "chance"  # the three trainings of a seed
# The setting of the profile drift with fresh samples: 20 steps in which the policy learns most of the task.
OVERRIDES = (
    "data.train_batch_size=16",
    "actor_rollout_ref.rollout.n=4",
    "mixed.loss_agg_mode=token-mean",
    "data.max_prompt_length=64",
    "data.max_response_length=144",
    "reward.truncated=zero",
    "actor_rollout_ref.actor.optim.lr=2e-4",
)
SAMPLING = ("--temperature", "0.6", "--top-p", "0.95", "--max-tokens", "192")


def prepare(out: Path, rows: int, suite: Path, *more: str) -> Path:
    """Prepare the targets in ``out`` unless they are there; their file."""
    if not (out / "train.parquet").exists():
        settings = ["embedded_rows=" + str(rows), "max_prompt_tokens=64", "max_target_tokens=144", "workers=1"]
        command = [sys.executable, "-m", "targets", "--source", "embedded", "--tokenizer", SHIPPED, "--out", out]
        command += ["--benchmarks", suite, *(part for text in settings for part in ("--set", text)), *more]
        call(*command)
    return out / "train.parquet"


def train(run: Path, targets: Path, seed: int, steps: int, suite: Path) -> float:
    """The score of the policy of the run in folder ``run``, which is trained unless it is there."""
    command = [TRAINING, "-m", "training", "--recipe", "luffy", "--targets", targets, "--model", SHIPPED, "--out", run]
    overrides = [*OVERRIDES, f"trainer.total_training_steps={steps}", f"trainer.save_freq={steps}"]
    call(*command, "--seed", str(seed), *(part for text in overrides for part in ("--set", text)))
    if not (run / "graded").exists():
        command = [TRAINING, "-m", "evaluation", "generate", "--model", run / "policy", "--suite", suite]
        call(*command, *SAMPLING, "--cache", run / "cache", "--out", run / "samples")
        command = [TRAINING, "-m", "evaluation", "grade", "--suite", suite]
        call(*command, "--samples", run / "samples", "--out", run / "graded")
    return summarize(pq.read_table(run / "graded" / f"{BENCHMARK_NAME}.parquet")).mean


def compare(seed: int, out: Path, rows: int, steps: int, suite: Path) -> dict[str, tuple[int, float]]:
    """{training: (targets, score)} of one seed."""
    files = {ALL: prepare(out / "targets", rows, suite)}
    scores = {ALL: train(out / f"{ALL}-{seed}", files[ALL], seed, steps, suite)}
    drop = ["--set", f"ledger={out / f'{ALL}-{seed}'}", "--set", f"ledger_drop=[{','.join(DROPPED)}]"]
    files[LEFT] = prepare(out / f"targets-{LEFT}-{seed}", rows, suite, *drop)
    left = pq.read_metadata(files[LEFT]).num_rows
    more = ["--max-rows", str(left), "--set", f"seed={seed + 1}"]
    files[CHANCE] = prepare(out / f"targets-{CHANCE}-{seed}", rows, suite, *more)
    for name in (LEFT, CHANCE):
        scores[name] = train(out / f"{name}-{seed}", files[name], seed, steps, suite)
    return {name: (pq.read_metadata(files[name]).num_rows, scores[name]) for name in scores}


def difference(first: Sequence[float], second: Sequence[float]) -> str:
    """The mean of ``first - second`` in points, with the 95% t-interval over the seeds."""
    points = [100 * (a - b) for a, b in zip(first, second, strict=True)]
    if len(points) < 2:
        return f"{points[0]:+.1f}"
    low, high = stats.t.interval(0.95, len(points) - 1, fmean(points), stats.sem(points))
    return f"{fmean(points):+.1f} [{low:+.1f}, {high:+.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m perf.ledger_selection", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--targets", type=int, default=160, help="of the first training (default %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="of each training (default %(default)s)")
    parser.add_argument("--out", type=Path, default=PROJECT / "var/ledger_selection")
    options = parser.parse_args()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    suite = out / "suite.parquet"
    entries = [entry for entry in load_suite("embedded") if entry.name == BENCHMARK_NAME]
    table = read_suite(entries, [], limit=PROBLEMS, seed=0)
    assert table.schema.names == BENCHMARK.names
    write_table(table, suite)
    print("| seed | targets | left | score, all | score, left | score, as many by chance | verdicts |")
    print("|--:|--:|--:|--:|--:|--:|---|", flush=True)
    scores: dict[str, list[float]] = {name: [] for name in (ALL, LEFT, CHANCE)}
    for seed in options.seeds:
        of_seed = compare(seed, out, options.targets, options.steps, suite)
        for name, (_, score) in of_seed.items():
            scores[name].append(score)
        (counts,) = verdict_counts(pq.read_table(out / f"{ALL}-{seed}" / "targets.parquet")).values()
        verdicts = ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in VERDICTS if name in counts)
        cells = [str(seed), str(of_seed[ALL][0]), str(of_seed[LEFT][0])]
        cells += [f"{of_seed[name][1]:.1%}" for name in (ALL, LEFT, CHANCE)]
        print(f"| {' | '.join(cells)} | {verdicts} |", flush=True)
    for name in (ALL, CHANCE):
        print(f"left minus {name}, points: {difference(scores[LEFT], scores[name])}")


if __name__ == "__main__":
    main()
