"""Checks that train, through the same commands that users give.

The embedded model, with a head of its own as models from 7B have, goes through a mixed-policy run that is stopped and
resumed, a supervised step, and an evaluation.
"""

import os
import shutil
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from core import PROJECT
from core.arithmetic import problems
from core.errors import InputError
from core.files import read_json, write_json
from core.model.base_model import SHIPPED
from core.plugins.user_code import python_path
from core.schemas import TARGET
from training.config.overrides import read_by
from training.diagnosis.machine import TRIAL, Check, Examination

ROWS = 16
TARGET_CHARACTERS = 90  # the embedded tokenizer has one token per byte
SETTINGS = (
    "data.train_batch_size=8",
    "data.max_prompt_length=64",
    "data.max_response_length=96",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.optim.lr=1e-4",
    "method.filter=null",
    "trainer.save_freq=1",
)
ON_GPUS = "actor_rollout_ref.rollout.gpu_memory_utilization=0.3"
LIMIT = 900  # seconds of one command
BENCHMARK = "arithmetic_short"
TARGETS, MODEL = "train.parquet", "model"  # names in the folder of the examination


def _start(examination: Examination) -> str:
    write_targets(examination.out / TARGETS)
    write_untied_model(examination.out / MODEL)
    said = _train(examination, "luffy", 2, stop_after=1)
    if "training: step 2 of 2" in said:
        raise InputError("the training was to be stopped after its first step, and made both")
    return "1 step, then stopped"


def _resume(examination: Examination) -> str:
    said = _train(examination, "luffy", 2)
    run = examination.out / "luffy"
    if "training: step 1 of 2" in said or not (run / "policy" / "lineage.json").is_file():
        raise InputError(f"the run in {run} began anew instead of going on after its first step")
    return "second step, policy written"


def _supervised(examination: Examination) -> str:
    _train(examination, "sft", 1)
    return "1 step, policy written"


def _evaluation(examination: Examination) -> str:
    folder = examination.out
    suite, samples = folder / "suite.parquet", folder / "samples"
    _command("evaluation", "suite", "--set", f"suite.only=[{BENCHMARK}]", "--limit", "4", "--out", str(suite))
    arguments = ["--model", str(folder / "luffy" / "policy"), "--suite", str(suite), "--samples", "1"]
    arguments += ["--set", "evaluation.replicas=1", "--max-tokens", "64", "--cache", str(folder / "cache")]
    arguments += ["--out", str(samples)]
    _command("evaluation", "generate", *arguments)
    rows = pq.read_metadata(samples / f"{BENCHMARK}.parquet").num_rows
    return f"{rows} samples of the policy"


MEND = "see what it wrote into its folder, and run this again"
TRIALS = (  # each needs those before it
    Check("mixed-policy training", (TRIAL,), _start, MEND),
    Check("resume", (TRIAL,), _resume, MEND),
    Check("supervised training", (TRIAL,), _supervised, MEND),
    Check("evaluation", (TRIAL,), _evaluation, MEND),
)


def write_targets(file: Path, rows: int = ROWS, seed: int = 0) -> Path:
    """Return arithmetic problems with traces of at most `TARGET_CHARACTERS`."""
    short = (problem for problem in problems("train", 20 * rows, seed) if len(problem.trace) <= TARGET_CHARACTERS)
    table = [
        {
            "data_source": "arithmetic",
            "prompt": [{"role": "user", "content": one.problem}],
            "target": [{"role": "assistant", "content": one.trace}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": one.answer},
            "extra_info": {"split": "train", "index": number, "id": one.id, "source": "embedded"},
        }
        for number, one in enumerate(islice(short, rows))
    ]
    pq.write_table(pa.Table.from_pylist(table, schema=TARGET), file)
    return file


def write_untied_model(out: Path) -> Path:
    """Return the embedded model with a copy of its embedding as the head."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(SHIPPED, out)
    weights = load_file(out / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].copy()
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    write_json({**read_json(out / "config.json"), "tie_word_embeddings": False}, out / "config.json")
    return out


def _train(examination: Examination, recipe: str, steps: int, stop_after: int | None = None) -> str:
    """Train into the folder of the recipe's name; what the training printed."""
    settings = [*SETTINGS, f"trainer.total_training_steps={steps}"]
    if examination.hardware != "cpu":
        settings.append(ON_GPUS)
    folder = examination.out
    arguments = ["--recipe", recipe, "--hardware", examination.hardware, "--model", str(folder / MODEL)]
    arguments += ["--targets", str(folder / TARGETS), "--out", str(folder / recipe)]
    arguments += [part for text in read_by(recipe, settings)[0] for part in ("--set", text)]
    stop = None if stop_after is None else f"training: step {stop_after} of {steps}"
    return _command("training", *arguments, stop=stop)


def _command(package: str, *arguments: str, stop: str | None = None) -> str:
    """Run ``python -m package arguments`` to its end, or until it prints ``stop``; what it printed.

    Raises:
        InputError: it failed; the message has its last line.
    """
    environment = {**os.environ, "PYTHONPATH": python_path()}
    command = [sys.executable, "-m", package, *arguments]
    pipe, joined = subprocess.PIPE, subprocess.STDOUT
    lines: list[str] = []
    stopped = False
    with subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=pipe, stderr=joined, text=True) as process:
        timer = threading.Timer(LIMIT, process.terminate)
        timer.start()
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                if stop is not None and not stopped and stop in line:
                    process.terminate()
                    stopped = True
            process.wait()
        finally:
            timer.cancel()
            process.terminate()  # after Ctrl-C: it stops its own processes on the way out
    if process.returncode and not stopped:
        reason = ([line for line in lines if "error: " in line] or lines or ["without a word"])[-1]
        raise InputError(f"python -m {package} ended with status {process.returncode}: {reason}")
    return "\n".join(lines)
