"""Which groups `algorithm.filter_groups` drops, in every recipe that has rollouts, and which lost a sample."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import replay_buffer as verl_buffer

from core.plugins.config_files import RECIPES, config_names
from training.algorithms.off_policy_schedule import ALWAYS, OffPolicySchedule
from training.algorithms.options import MixedPolicyOptions
from training.job.configuration import compose_run, mixed_options
from training.verl_hooks import replay_buffer

# Rewards of four samples, the target's first.
GROUPS = {
    "solved": [1, 1, 1, 1],
    "failed": [0, 0, 0, 0],
    "failedbuttarget": [1, 0, 0, 0],
    "solvedbuttarget": [0, 1, 1, 1],
    "mixed": [1, 1, 0, 1],
}
UNION = {"solved", "failed"}
DROPPED = {
    "luffy": UNION,
    "luffy_rejection": UNION,
    "luffy_reinforce_pro": UNION,
    "luffy_seed": UNION,
    "cispo": UNION,
    "dapo": UNION,
    "gspo": UNION,
    "mixed_policy": UNION,
    "uft": {"solved"},  # a supervised loss, and all samples have a part of the target
    "srft": {"solved"},
    "relift": {"solved"},  # it imitates the targets of the others
    "on_policy": UNION,
    "pope": UNION,
    "sft_rl": UNION,
    # On-policy samples decide, and a supervised loss learns from the targets of those that were never solved.
    "chord_mu": {"solved", "solvedbuttarget"},
    "chord_phi": {"solved", "solvedbuttarget"},
    "hpt": {"solved", "solvedbuttarget"},
    "rl_sft_loss": {"solved", "solvedbuttarget"},
}


REFUSED = {"exgrpo", "luffy_opd", "opd", "opsd"}


def test_every_recipe_with_rollouts_is_here() -> None:
    assert DROPPED.keys() == {
        recipe
        for recipe in config_names(RECIPES)
        if compose_run(recipe, "cpu", [], run=Path("run")).objective == "rl" and recipe not in REFUSED
    }


@pytest.mark.parametrize("recipe", DROPPED)
def test_groups_without_a_signal_are_dropped(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = mixed_options(compose_run(recipe, "cpu", ["algorithm.filter_groups.enable=true"], run=Path("run")))
    rewards = {f"{prompt}_{n}_0": reward for prompt, group in GROUPS.items() for n, reward in enumerate(group)}

    def rm_scores(keys: list[str], partition_id: str, select_fields: list[str]) -> TensorDict:
        values = torch.tensor([[0.0, float(rewards[key])] for key in keys])
        return TensorDict({"rm_scores": values}, batch_size=len(keys))

    monkeypatch.setattr(verl_buffer, "tq", SimpleNamespace(kv_batch_get=rm_scores))  # the real one needs Ray
    buffer = replay_buffer.GroupReplayBuffer.__new__(replay_buffer.GroupReplayBuffer).follow(
        options, 4, OffPolicySchedule(ALWAYS)
    )
    buffer.filter_groups_metric = "reward"
    buffer.partitions = {"train": {key: {} for key in rewards}}
    buffer.finished_keys = {"train": set(GROUPS)}
    buffer._dapo_classification_cache = defaultdict(dict)
    prompts, counts = buffer._dapo_filtered_keys("train")
    assert prompts == DROPPED[recipe]
    assert counts.total() == len(prompts)
    assert len(buffer.partitions["train"]) == len(rewards)


def sampled(keys: list[str]) -> Any:
    batch = KVBatchMeta(keys=keys, tags=[{} for _ in keys], partition_id="train")
    return lambda *_: (batch, {})


def test_a_group_that_lost_its_off_policy_sample_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["a_0_0", "a_1_0", "b_1_0", "b_2_0", "c_0_0", "c_2_0"]  # c lost an on-policy sample
    cleared: list[str] = []
    monkeypatch.setattr(replay_buffer, "tq", SimpleNamespace(kv_clear=lambda partition_id, keys: cleared.extend(keys)))
    monkeypatch.setattr(replay_buffer.ReplayBuffer, "sample", sampled(keys))
    buffer = replay_buffer.GroupReplayBuffer.__new__(replay_buffer.GroupReplayBuffer)
    buffer.off_policy_samples = 1
    batch, metrics = buffer.sample(1, "train", 3)
    assert batch.keys == ["a_0_0", "a_1_0", "c_0_0", "c_2_0"]
    assert (metrics, cleared) == ({"groups/dropped": 1.0}, ["b_1_0", "b_2_0"])
    assert buffer.sample(1, "val", 3)[0].keys == keys
    monkeypatch.setattr(replay_buffer.ReplayBuffer, "sample", sampled(["b_1_0"]))
    with pytest.raises(RuntimeError, match="no group of the batch has all its off-policy samples"):
        buffer.sample(1, "train", 1)


@pytest.mark.parametrize(("n_prefix", "keys", "stops"), [(1, ["a_0_0"], True), (2, ["a_0_0", "a_1_0"], False)])
def test_a_batch_of_which_nothing_was_generated_ends_the_training(
    n_prefix: int, keys: list[str], stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = MixedPolicyOptions.from_mapping({"prefix": {"n_prefix": n_prefix}})
    monkeypatch.setattr(replay_buffer.ReplayBuffer, "sample", sampled(keys))
    buffer = replay_buffer.GroupReplayBuffer.__new__(replay_buffer.GroupReplayBuffer).follow(
        options, 2, OffPolicySchedule(ALWAYS)
    )
    if not stops:
        assert buffer.sample(1, "train", 1)[0].keys == keys
        return
    with pytest.raises(RuntimeError, match="no sample of the batch was generated"):
        buffer.sample(1, "train", 1)
    monkeypatch.setattr(replay_buffer.ReplayBuffer, "sample", sampled([*keys, "b_0_0", "b_1_0"]))
    assert buffer.sample(1, "train", 2)[0].keys == [*keys, "b_0_0", "b_1_0"]
