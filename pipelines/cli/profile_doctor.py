"""``luffy doctor --profile``: look for known faults in 20 prompts of a profile's training, before it starts.

The targets and the base model are prepared as a run prepares them, which then reuses them.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.references import ModelReference, TrainReference
from assets.shared.storage import Storage
from assets.training import training_request
from core import PROJECT
from core.files import write_table
from core.schemas import BENCHMARK
from evaluation.statistics.solve_rate import as_suite
from pipelines.cli.run import run_graph
from pipelines.settings import Settings, load
from training.diagnosis.record import sample_rows

SELECTION = "+key:targets/train or +key:models/base"
NAME = "prompts"  # name of the benchmark that holds the prompts
DRAWN = "drawn"  # folder of the answers to them
SAMPLES = 2  # per prompt
CHEAP = 200e6  # most parameters of a model that a CPU samples from within a minute


def examine_profile(profile: str, overrides: Sequence[str]) -> int:
    """Prepare, sample and test; return the exit status, which is 1 if a fault shows."""
    settings = load(profile, overrides)
    if status := run_graph(settings, SELECTION, 1):
        return status
    storage = Storage(root=settings.storage.root)
    train, base = (
        storage.read_reference("targets/train", TrainReference),
        storage.read_reference("models/base", ModelReference),
    )
    python = TrainingInterpreter(python=settings.interpreter.python).executable()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record = {"path", "digest"}
        files = {"targets": train.model_dump(include=record), "model": base.model_dump(include=record)}
        asked = training_request(settings.training, train, base, **files, out=folder / "run")
        request = asked.write(folder / "request.json")
        command = ["training", "examine", "--request", str(request)]
        if why := _not_sampled(settings, base):
            sys.stdout.write(f"the base model is not sampled: {why}\n")
        else:
            limit = asked.composed().run.data.max_response_length
            if status := _call(python, "evaluation", "generate", *_sampling(limit, train, base, folder)):
                return status
            command += ["--samples", str(folder / DRAWN / f"{NAME}.parquet")]
        return _call(python, *command)


def _not_sampled(settings: Settings, base: ModelReference) -> str:
    """Explain why the base model is not sampled on this machine; "" if it is."""
    if settings.training.hardware != "cpu":
        backend = settings.interpreter.backend
        return "" if backend == "local" else f"its GPUs belong to interpreter.backend={backend}, not of this machine"
    return "" if base.parameters <= CHEAP else f"it has {base.parameters:,} parameters, too many for a CPU"


def _sampling(limit: int, train: TrainReference, base: ModelReference, folder: Path) -> list[str]:
    """Return the arguments with which `evaluation generate` samples as rollouts do: at temperature 1, all tokens."""
    write_table(prompts(Path(train.path)), folder / "suite.parquet")
    arguments = ["--model", base.path, "--suite", str(folder / "suite.parquet"), "--out", str(folder / DRAWN)]
    arguments += ["--temperature", "1", "--max-tokens", str(limit), "--template", "tokenizer"]
    arguments += ["--set", "evaluation.top_p=1"]
    return [*arguments, "--samples", str(SAMPLES), "--cache", str(folder / "cache")]


def prompts(targets: Path) -> pa.Table:
    """Return the problems of the rows that are looked at, as a suite."""
    rows = [
        {
            "benchmark": NAME,
            "id": str(number),
            "problem": row["prompt"][-1]["content"],
            "prompt": row["prompt"],
            "gold": str(row["reward_model"]["ground_truth"]),
            "verifier": "math",  # nothing grades them: the training's own reward does
        }
        for number, row in enumerate(sample_rows(targets))
    ]
    return as_suite(pa.Table.from_pylist(rows, schema=BENCHMARK), SAMPLES)


def _call(python: Path, *arguments: str) -> int:
    return subprocess.run([python, "-m", *arguments], cwd=PROJECT, check=False).returncode
