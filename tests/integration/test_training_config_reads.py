"""The keys of verl in training/config/verl_keys.yaml are those that real runs read, but for the reasons given here."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from training_inputs import write_targets
from training_runs import ROOT, Training

from training.config.kinds import HANDED_ON
from training.config.overrides import needs_rollouts
from training.config.verl_keys import kinds, within

# What the runs below cannot show: a key or section, and why a run reads it all the same.
ALSO_READ = {
    **{f"actor_rollout_ref.{role}.fsdp_config.dtype": "the engine's autocast, on a GPU" for role in ("actor", "ref")},
    **{f"actor_rollout_ref.{role}.fsdp_config.use_orig_params": "FSDP1 reads it" for role in ("actor", "ref")},
    **{f"actor_rollout_ref.{role}.fsdp_config.seed": "read with full_determinism" for role in ("actor", "ref")},
    **{f"actor_rollout_ref.{role}.strategy": "the section's class hands it to the engine" for role in ("actor", "ref")},
    **{
        f"actor_rollout_ref.{section}.entropy_from_logits_chunk_size": "read with chunking"
        for role in ("actor", "ref")
        for section in (role, f"{role}.fsdp_config")
    },
    **{
        f"actor_rollout_ref.{role}.{name}": "fsdp_config refers to it"
        for role in ("actor", "ref")
        for name in ("entropy_checkpointing", "entropy_from_logits_with_chunking", "pad_to_length")
    },
    "actor_rollout_ref.actor.checkpoint.strict": "read when a checkpoint is loaded",
    "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio": "read without optim.lr_warmup_steps",
    "actor_rollout_ref.model.external_lib": "the section's class imports it",
    "actor_rollout_ref.model.lora_alpha": "read with lora_rank",
    "actor_rollout_ref.model.lora_adapter_path": "the engine loads it",
    "actor_rollout_ref.model.tiled_mlp": "the worker turns it into a plain dictionary first",
    "actor_rollout_ref.model.use_shm": "the section's class copies the model with it",
    "actor_rollout_ref.nccl_timeout": "workers/engine_workers.py:92 of verl, where there are several ranks",
    "actor_rollout_ref.rollout.quantization_config_file": "read with rollout.quantization",
    "algorithm.kl_ctrl.horizon": "read with type=adaptive",
    "algorithm.kl_ctrl.target_kl": "read with type=adaptive",
    "transfer_queue": "handed to TransferQueue as it is",
}
MODULES = "config_reads,training.platforms.every_process"
# Everything on that a CPU can do: KL loss and reward, correction, refilled groups, validation.
FULL = {
    "method.reference": "{}",
    "method.reward_kl": "{}",
    "method.correction.type": "reinforce_pro",
    "method.filter": "{}",
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
        "machine.environment.VERL_USE_EXTERNAL_MODULES": f"'{MODULES}'",
        "machine.environment.PYTHONPATH": f"'{ROOT}{os.pathsep}{ROOT / 'tests' / 'integration'}'",
    }
    training = Training(tmp_path / "run", write_targets(tmp_path / "train.parquet", rows=16), recipe, **settings)
    assert training.end() == 0, training.said
    config = OmegaConf.to_container(OmegaConf.load(tmp_path / "run" / "config.yaml"))
    read = keys_read(tmp_path / "reads", config)  # pyright: ignore[reportArgumentType]
    listed = [key for key, kind in kinds().items() if kind.text != HANDED_ON]
    expected = {key for key in listed if objective == "rl" or not needs_rollouts(key)}
    assert {key for key in expected - set(read) if not within(key, ALSO_READ)} == set()
