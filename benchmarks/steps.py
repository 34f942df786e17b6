"""A mixed-policy step against a plain GRPO step of verl: ``.venv-train/bin/python -m benchmarks.steps``.

Both train the embedded base model on the embedded targets at the same batch, group size and limits, with a learning
rate of 0, so that the policy, and with it the length of its answers, stays what it is. "verl" is verl's own trainer,
agent loop, advantage and loss; "on_policy" is ours without guidance, which measures the hooks alone; "luffy" has one
whole demonstration in each group. Prints the median seconds of steps 3 and later, and the ratios to verl.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
COMMON = {
    "data.train_batch_size": "16",
    "data.max_prompt_length": "64",
    "data.max_response_length": "144",
    "actor_rollout_ref.actor.optim.lr": "0",
    "algorithm.filter_groups.enable": "false",
    "trainer.save_freq": "-1",
    "actor_rollout_ref.actor.checkpoint.save_contents": "[model,hf_model]",
}
RUNS = {
    "verl": (
        "on_policy",
        {"trainer.v1.trainer_mode": "sync", "actor_rollout_ref.rollout.agent.default_agent_loop": "single_turn_agent"},
    ),
    "on_policy": ("on_policy", {}),
    "luffy": ("luffy", {}),
}
PARTS = ("step", "gen", "old_log_prob", "adv", "update_actor")


def targets(folder: Path) -> Path:
    """The embedded targets, prepared with the orchestration interpreter."""
    command = [
        str(PROJECT / ".venv/bin/python"),
        "-m",
        "training.targets",
        "--source",
        "embedded",
        "--out",
        str(folder),
    ]
    command += ["--tokenizer", str(PROJECT / "training/base/model/tokenizer.json")]
    subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)
    return folder / "train.parquet"


def measure(name: str, file: Path, out: Path, steps: int) -> dict[str, float]:
    """Median seconds of the parts of a step, and the mean response length."""
    recipe, changes = RUNS[name]
    settings = COMMON | changes | {"trainer.total_training_steps": str(steps), "trainer.save_freq": str(steps)}
    command = [sys.executable, "-m", "training", "--recipe", recipe, "--targets", str(file), "--out", str(out)]
    command += ["--model", str(PROJECT / "training/base/model")]
    command += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)
    records = [json.loads(line)["data"] for line in (out / "metrics.jsonl").read_text().splitlines()][2:]
    # verl's own step contains the checkpoint of the last one.
    figures = {part: statistics.median(record[f"timing_s/{part}"] for record in records[:-1]) for part in PARTS}
    return figures | {"tokens": statistics.median(record["response_length/mean"] for record in records)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description="Time mixed-policy and GRPO steps.")
    parser.add_argument("--steps", type=int, default=20, help="steps a run (default %(default)s)")
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        file = targets(Path(folder) / "targets")
        results = {name: measure(name, file, Path(folder) / name, steps) for name in RUNS}
    columns = [*PARTS, "tokens"]
    sys.stdout.write("run        " + "".join(f"{column:>14}" for column in columns) + "   step against verl\n")
    for name, figures in results.items():
        numbers = "".join(f"{figures[column]:14.3f}" for column in columns)
        sys.stdout.write(f"{name:<11}{numbers}   {figures['step'] / results['verl']['step']:.2f}x\n")


if __name__ == "__main__":
    main()
