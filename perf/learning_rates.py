"""Choose the learning rates of the profile `comparison`: ``.venv/bin/python -m perf.learning_rates``.

Every recipe has the same budget: two thirds of the updates per rate, with a seed that no comparison uses. The policies
are scored on problems from the distribution of the in-domain benchmark, drawn with another seed. The result is a table.
Trainings and scores that are complete in ``--out`` are reused.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from core.code import PROJECT
from evaluation.statistics.scores import summarize
from pipelines.definitions.settings import PROFILE, Settings, load_settings

TRAINING = str(PROJECT / ".venv-train/bin/python")
RATE = "actor_rollout_ref.actor.optim.lr"
RATES = ("1e-4", "2e-4")
BENCHMARK = "arithmetic_hard"  # in domain
SEED = 100
VALIDATION_SEED = 1
PROBLEMS = 200


def call(*command: str | Path) -> None:
    """Run a command; if it fails, end with the last lines of its errors."""
    done = subprocess.run([str(part) for part in command], cwd=PROJECT, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stderr[-2000:]}")


def shortened(override: str) -> str:
    """The override with two thirds of its steps."""
    return re.sub(r"(training_steps|save_freq)=(\d+)", lambda n: f"{n[1]}={int(n[2]) * 2 // 3}", override)


def score(settings: Settings, recipe: str, rate: str, out: Path) -> float:
    """The share of the validation problems that the policy of ``recipe`` at ``rate`` answers correctly."""
    run, suite, sampling = out / f"{recipe}-{rate}", out / "suite.parquet", settings.evaluation
    overrides = (*settings.training.overrides, *settings.experiments.overrides.get(recipe, ()))
    sets = {text.partition("=")[0]: shortened(text) for text in overrides}
    sets[RATE] = f"{RATE}={rate}"  # a first stage has it, too
    command = [TRAINING, "-m", "training", "--recipe", recipe, "--hardware", settings.training.hardware]
    command += ["--targets", out / "targets/train.parquet", "--heldout", out / "targets/heldout.parquet"]
    command += ["--model", PROJECT / "training/base/model", "--out", run, "--seed", str(SEED)]
    call(*command, *(part for text in sets.values() for part in ("--set", text)))
    if not (run / "graded").exists():
        command = [TRAINING, "-m", "evaluation", "generate", "--model", run / "policy", "--suite", suite]
        command += ["--temperature", str(sampling.temperature), "--top-p", str(sampling.top_p)]
        command += ["--max-tokens", str(sampling.max_tokens), "--cache", out / "samples", "--out", run / "samples"]
        call(*command)
        command = [TRAINING, "-m", "evaluation", "grade", "--suite", suite]
        call(*command, "--samples", run / "samples", "--out", run / "graded")
    return summarize(pq.read_table(run / "graded" / f"{BENCHMARK}.parquet")).mean


def main() -> None:
    os.environ[PROFILE] = "comparison"
    settings = load_settings()
    parser = argparse.ArgumentParser(
        prog="python -m perf.learning_rates", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--recipes", nargs="+", default=list(settings.experiments.recipes))
    parser.add_argument("--rates", nargs="+", default=list(RATES))
    parser.add_argument("--out", type=Path, default=PROJECT / "var/learning_rates")
    options = parser.parse_args()
    out: Path = options.out.resolve()
    if not (out / "targets/train.parquet").exists():
        command = [sys.executable, "-m", "targets", "--source", "embedded", "--out", out / "targets"]
        command += ["--tokenizer", PROJECT / "training/base/model/tokenizer.json"]
        for name in ("embedded_split", "embedded_terse"):
            command += ["--set", f"{name}={getattr(settings.targets, name)}"]
        call(*command, "--heldout-share", str(settings.split.heldout_share))
    command = [sys.executable, "-m", "evaluation", "suite", "--suite", settings.suite.name]
    command += ["--benchmarks", BENCHMARK, "--limit", str(PROBLEMS)]
    call(*command, "--seed", str(VALIDATION_SEED), "--out", out / "suite.parquet")
    print("recipe                " + "".join(f"{rate:>10}" for rate in options.rates), flush=True)
    for recipe in options.recipes:
        scores = [score(settings, recipe, rate, out) for rate in options.rates]
        best = max(zip(scores, options.rates, strict=True), key=lambda pair: (pair[0], -float(pair[1])))[1]
        print(f"{recipe:22}" + "".join(f"{share:10.1%}" for share in scores) + f"   best {best}", flush=True)


if __name__ == "__main__":
    main()
