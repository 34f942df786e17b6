"""Which prompts need off-policy samples: ``.venv/bin/python -m perf.trainings.off_policy_schedules``.

Trains the recipe luffy of the profile `embedded` on problems that come again in every epoch, with each rule of
``mixed.off_policy_schedule`` and with ``data.order=easy_first``, and counts the prompts with off-policy samples until
the validation is 90% right.
Pass rates are the base model's. Trainings that are complete in ``--out`` are not repeated, and one that was killed
goes on. docs/results/off_policy_schedule.md has the result.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from core import PROJECT
from core.arithmetic import problems
from core.files import read_json_lines, write_table
from perf.measurement import TRAINING, call, parser_of, train_policy
from pipelines.definitions.profile_settings import load_settings
from pipelines.variables import PROFILE

MODEL = PROJECT / "training/embedded_model/model"
PROBLEMS, VALIDATION, SAMPLES = 192, 64, 8  # of which VALIDATION are only validated on; samples for a pass rate
STEPS, EVERY = 24, 2  # batches of 16 prompts; a validation after every second one
GOAL = 0.9
SETTINGS = {  # their names are those of folders
    "always": (),
    "pass_rate_below_0.1": ("mixed.off_policy_schedule=pass_rate<0.1",),
    "until_solved": ("mixed.off_policy_schedule=until_solved",),
    "easy_first": ("data.order=easy_first",),
    "until_solved_easy_first": ("mixed.off_policy_schedule=until_solved", "data.order=easy_first"),
}


@dataclass(frozen=True)
class Course:
    """The course of a training: ``steps`` and ``off_policy`` prompts up to the goal; None: it was not reached."""

    steps: int | None
    off_policy: int | None
    off_policy_in_all: int
    best: float


def prepare(out: Path) -> Path:
    """Prepare the targets, each with its pass rate."""
    targets = out / "targets" / "train.parquet"
    if targets.exists():
        return targets
    rows = [{"problem": problem.problem, "answer": problem.answer} for problem in problems("train", PROBLEMS, 0)]
    write_table(pa.Table.from_pylist(rows), out / "problems.parquet")
    command = [TRAINING, "-m", "evaluation", "traces", "--teacher", MODEL, "--problems", out / "problems.parquet"]
    command += ["--samples", str(SAMPLES), "--temperature", "1.0", "--top-p", "1.0", "--max-tokens", "144"]
    call(*command, "--cache", out / "samples", "--out", out / "base.parquet")
    command = [sys.executable, "-m", "evaluation", "difficulty", "--samples", out / "base.parquet"]
    call(*command, "--out", out / "difficulty.parquet")
    command = [sys.executable, "-m", "targets", "--source", "embedded", "--out", out / "targets"]
    command += ["--tokenizer", MODEL / "tokenizer.json", "--set", f"embedded_rows={PROBLEMS}"]
    call(*command, "--set", f"difficulty={out / 'difficulty.parquet'}")
    return targets


def train(name: str, seed: int, targets: Path, run: Path) -> None:
    """Train with the setting ``name``."""
    settings = load_settings().training
    sets = [*settings.overrides, f"trainer.total_training_steps={STEPS}", f"trainer.save_freq={STEPS // 2}"]
    sets += [f"trainer.test_freq={EVERY}", f"data.val_max_samples={VALIDATION}", *SETTINGS[name]]
    train_policy(run, "luffy", targets, MODEL, seed, sets, "--hardware", settings.hardware)


def course(run: Path) -> Course:
    """Summarise the metrics of a finished training."""
    off_policy, best, reached = 0, 0.0, None
    for record in read_json_lines(run / "metrics.jsonl"):
        data = record["data"]
        off_policy += int(data["batch/off_policy_prompts"])
        score = data.get("validation/score", 0.0)
        best = max(best, score)
        if score >= GOAL and reached is None:
            reached = record["step"], off_policy
    return Course(*(reached or (None, None)), off_policy, best)


def main() -> None:
    os.environ[PROFILE] = "embedded"
    parser = parser_of("trainings.off_policy_schedules", __doc__)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="NAME")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--out", type=Path, default=PROJECT / "var/off_policy_schedules")
    parser.add_argument("--table", action="store_true", help="train nothing, print what is there")
    options = parser.parse_args()
    out: Path = options.out.resolve()
    runs = {(name, seed): out / f"{name}-{seed}" for name in options.settings for seed in options.seeds}
    if not options.table:
        targets = prepare(out)
        for (name, seed), run in runs.items():
            if not (run / "policy").exists():
                train(name, seed, targets, run)
    print(f"{'setting':26}{'seed':>5}{'steps':>7}{'prompts':>8}{'prompts in all':>15}{'best':>7}   (to {GOAL:.0%})")
    for (name, seed), run in runs.items():
        if (run / "policy").exists():
            ended = course(run)
            reached = f"{ended.steps or '-':>7}{ended.off_policy or '-':>8}"
            print(f"{name:26}{seed:5}{reached}{ended.off_policy_in_all:15}{ended.best:7.1%}", flush=True)


if __name__ == "__main__":
    main()
