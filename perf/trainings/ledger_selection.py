"""Train again without the targets that a ledger drops: ``.venv/bin/python -m perf.trainings.ledger_selection``.

For each seed a policy is trained on all targets, and a second one without those that the ledger of the first calls
known or not learned, each for the same number of steps; with ``--control`` also a third one, on as many targets drawn
by chance. The policies are scored on problems of the same distribution, none of which is a target. Trainings that are
complete in ``--out`` are reused, so an interrupted comparison continues where it stopped. The result is the table of
docs/results/ledger.md.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from core import PROJECT
from core.arithmetic import problems
from core.files import write_table
from core.ledger_verdicts import LEARNED_FILE, VERDICTS
from core.metric_table import VALIDATION_SCORE
from core.schemas import TARGET
from perf.measurement import call, interval, overriding, parser_of, train_policy
from training.embedded_model.resolve_model import SHIPPED
from training.job.records.ledger_table import verdict_counts
from training.preflight.trial_training import target_rows

DROPPED = ("known", "not_learned")
PROBLEMS = 200
ALL, LEFT, CHANCE = "all", "left", "chance"  # the trainings of a seed
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


def prepare(out: Path, rows: int, *more: str) -> Path:
    """Prepare the targets in ``out`` unless they are there; their file."""
    if not (out / "train.parquet").exists():
        settings = [f"embedded_rows={rows}", "max_prompt_tokens=64", "max_target_tokens=144", "workers=1"]
        command = [sys.executable, "-m", "targets", "--source", "embedded", "--tokenizer", SHIPPED, "--out", out]
        call(*command, *overriding(settings), *more)
    return out / "train.parquet"


def write_problems(file: Path) -> Path:
    """Return the problems that the policies are scored on: sums of the same lengths, none of which is a target."""
    rows = target_rows(problems("test", PROBLEMS), split="test")
    write_table(pa.Table.from_pylist(rows, schema=TARGET), file)
    return file


def train(run: Path, targets: Path, seed: int, steps: int, asked: Path, model: Path = SHIPPED) -> float:
    """The score of the policy of the run in folder ``run``, which is trained unless it is there: by its validation."""
    lengths = (f"trainer.{key}={steps}" for key in ("total_training_steps", "save_freq", "test_freq"))
    settings = [*OVERRIDES, *lengths, f"data.val_files={asked}", f"data.val_max_samples={PROBLEMS}"]
    train_policy(run, "luffy", targets, model, seed, settings)
    return json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["data"][VALIDATION_SCORE]


def compare(seed: int, out: Path, rows: int, steps: int, *, control: bool) -> dict[str, tuple[int, float]]:
    """{training: (targets, score)} of one seed."""
    asked, files, scores = write_problems(out / "problems.parquet"), {ALL: prepare(out / "targets", rows)}, {}
    scores[ALL] = train(out / f"{ALL}-{seed}", files[ALL], seed, steps, asked)
    drop = ["--set", f"ledger={out / f'{ALL}-{seed}'}", "--set", f"ledger_drop=[{','.join(DROPPED)}]"]
    files[LEFT] = prepare(out / f"targets-{LEFT}-{seed}", rows, *drop)
    if control:
        more = ["--max-rows", str(pq.read_metadata(files[LEFT]).num_rows), "--set", f"seed={seed + 1}"]
        files[CHANCE] = prepare(out / f"targets-{CHANCE}-{seed}", rows, *more)
    for name in files.keys() - {ALL}:
        scores[name] = train(out / f"{name}-{seed}", files[name], seed, steps, asked)
    return {name: (pq.read_metadata(files[name]).num_rows, scores[name]) for name in files}


def main() -> None:
    parser = parser_of("trainings.ledger_selection", __doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--targets", type=int, default=160, help="of the first training (default %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="of each training (default %(default)s)")
    parser.add_argument("--control", action="store_true", help="also train on as many targets drawn by chance")
    parser.add_argument("--out", type=Path, default=PROJECT / "var/ledger_selection")
    options = parser.parse_args()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    names = [ALL, LEFT, *([CHANCE] if options.control else [])]
    scores: dict[str, list[float]] = {name: [] for name in names}
    print("| seed | targets | left |" + "".join(f" score, {name} |" for name in names) + " verdicts |")
    print("|--:|--:|--:|" + "--:|" * len(names) + "---|", flush=True)
    for seed in options.seeds:
        of_seed = compare(seed, out, options.targets, options.steps, control=options.control)
        for name in names:
            scores[name].append(of_seed[name][1])
        (counts,) = verdict_counts(pq.read_table(out / f"{ALL}-{seed}" / LEARNED_FILE)).values()
        verdicts = ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in VERDICTS if name in counts)
        cells = [str(seed), *(str(of_seed[name][0]) for name in (ALL, LEFT))]
        cells += [f"{of_seed[name][1]:.1%}" for name in names]
        print(f"| {' | '.join(cells)} | {verdicts} |", flush=True)
    for name in (name for name in names if name != LEFT):
        points = [100 * (left - other) for left, other in zip(scores[LEFT], scores[name], strict=True)]
        print(f"left minus {name}, points: {interval(points, '+.1f')}")


if __name__ == "__main__":
    main()
