"""Measure a mixed-policy step against a plain GRPO step of verl, on the embedded targets.

Both train at the same batch, group size and limits, with a learning rate of 0, so that the policy and the length of its
answers do not change. "verl" is verl's own trainer, agent loop, advantage and loss. "on_policy" is our trainer without
off-policy samples, which measures the hooks alone. "luffy" has one whole target per group.
"""

import json
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.cli import say
from core.files import read_yaml, write_text
from pipelines.api import luffy
from research.bench.measure import MODEL, TRAINING, Used, call, overrides, prepare

SETTINGS = {
    "data.train_batch_size": 16,
    "data.max_prompt_length": 64,
    "data.max_response_length": 144,
    "actor_rollout_ref.actor.optim.lr": "1e-30",
    "actor_rollout_ref.actor.checkpoint.save_contents": "[model]",
}
PARTS = ("step", "gen", "old_log_prob", "adv", "update_actor")
WARM_UP = 2  # steps
DRIVE = """import sys
from omegaconf import OmegaConf
from training.driver import drive
drive(OmegaConf.load(sys.argv[1]), {}, print)
"""


def steps(number: int, model: str | None) -> None:
    """Print the median seconds of a step's parts, the ratio to verl, and CPU seconds and memory of ``number`` steps."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare("embedded", folder / "targets")
        say("run        " + "".join(f"{part:>14}" for part in PARTS) + "   of verl   CPU s     GiB")
        medians: dict[str, Mapping[str, float]] = {}
        used: dict[str, Used] = {}
        for recipe in ("on_policy", "luffy"):
            length = {"trainer.total_training_steps": number, "trainer.save_freq": number}
            files = ["--targets", folder / "targets/train.parquet", "--model", model or MODEL, "--out", folder / recipe]
            with Used() as used[recipe]:
                luffy("train", "--recipe", recipe, *files, *overrides({**SETTINGS, **length}))
            medians[recipe] = _medians(folder / recipe / "metrics.jsonl")
        with Used() as used["verl"]:
            medians["verl"] = _train_with_verl(folder / "on_policy", folder / "verl")
    for run, figures in medians.items():
        parts = "".join(f"{figures[part]:14.3f}" for part in PARTS)
        ratio, peak = figures["step"] / medians["verl"]["step"], used[run].peak / 2**30
        say(f"{run:<11}{parts}{ratio:9.2f}x{used[run].cpu:8.0f}{peak:8.1f}")


def _train_with_verl(run: Path, out: Path) -> Mapping[str, float]:
    """The medians of verl's own trainer and agent loop, with the configuration of ``run``."""
    config: dict[str, Any] = read_yaml(run / "config.yaml", "configuration")
    config["trainer"]["v1"]["trainer_mode"] = "sync"
    config["trainer"]["default_local_dir"] = str(out / "checkpoints")
    config["trainer"]["rollout_data_dir"] = str(out / "rollouts")
    config["actor_rollout_ref"]["rollout"]["agent"]["default_agent_loop"] = "single_turn_agent"
    write_text(json.dumps(config), out / "config.yaml")
    environment = {"TENSORBOARD_DIR": str(out / "tensorboard"), "VERL_FILE_LOGGER_PATH": str(out / "metrics.jsonl")}
    call(TRAINING, "-c", DRIVE, out / "config.yaml", environment=environment)
    return _medians(out / "metrics.jsonl")


def _medians(file: Path) -> Mapping[str, float]:
    """Median seconds of the parts of a step; verl's own last step also writes the checkpoint."""
    records = [json.loads(line)["data"] for line in file.read_text().splitlines()][WARM_UP:-1]
    return {part: statistics.median(record[f"timing_s/{part}"] for record in records) for part in PARTS}
