"""The list of keys that a run reads, which tests/components/training/test_keys.py relies on, comes from real runs."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf
from training_runs import ROOT, Training, write_targets

LIST = ROOT / "tests" / "components" / "training" / "config_reads.yaml"
# Everything on that a CPU can do: KL loss and reward, correction, refilled groups, validation.
FULL = {
    "actor_rollout_ref.actor.use_kl_loss": "true",
    "algorithm.use_kl_in_reward": "true",
    "mixed.rollout_correction.type": "reinforce_pro",
    "algorithm.filter_groups.enable": "true",
    "trainer.test_freq": "1",
    "data.val_max_samples": "4",
    "trainer.total_training_steps": "1",
}


def keys_read(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """The leaves of ``config`` that the processes read which wrote their lines to ``folder``."""
    keys, fields = set(), defaultdict(set)
    for file in folder.glob("*.txt"):
        for line in file.read_text().splitlines():
            if ":" in line:
                name, field = line.split(":")
                fields[name.rpartition(".")[2]].add(field)
            else:
                keys.add(line)

    def walk(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
        section = str(node.get("_target_", "")).rpartition(".")[2]
        for key, value in node.items():
            if isinstance(value, dict) and value:
                yield from walk(value, f"{prefix}{key}.")
            elif key != "_target_" and (f"{prefix}{key}" in keys or key in fields[section]):
                yield f"{prefix}{key}"

    return sorted(walk(config))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("objective", "recipe"), [("rl", "luffy"), ("sft", "sft")])
def test_the_listed_keys_are_those_that_a_run_reads(
    objective: str, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reads").mkdir()
    monkeypatch.setenv("CONFIG_READS", str(tmp_path / "reads"))
    settings = FULL | {
        "environment.VERL_USE_EXTERNAL_MODULES": "'config_reads,training.platforms.every_process'",
        "environment.PYTHONPATH": f"'{ROOT}{os.pathsep}{ROOT / 'tests' / 'integration'}'",
    }
    training = Training(tmp_path / "run", write_targets(tmp_path / "train.parquet", rows=16), recipe, **settings)
    assert training.end() == 0, training.said
    config = OmegaConf.to_container(OmegaConf.load(tmp_path / "run" / "config.yaml"))
    listed = yaml.safe_load(LIST.read_text(encoding="utf-8"))[objective]
    assert set(listed) - set(keys_read(tmp_path / "reads", config)) == set()  # pyright: ignore[reportArgumentType]
