"""Which groups `algorithm.filter_groups` drops, in every recipe that has rollouts, and which lost a sample."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import replay_buffer as verl_buffer
from verl.utils import tensordict_utils as tu

from core.plugins.config_files import RECIPES, config_names
from training.algorithms.prefix import Fixed
from training.config.method_keys import of_run
from training.config.to_verl import compose_run
from training.methods.luffy import Luffy
from training.methods.method import Method
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
    "luffy_failed": UNION,
    "trapo": UNION,
    "cispo": UNION,
    "dapo": UNION,
    "gspo": UNION,
    "mixed_policy": UNION,
    "uft": {"solved"},  # a supervised loss, and all samples have a part of the target
    "srft": {"solved"},
    "relift": {"solved"},  # it imitates the targets of the others
    "on_policy": UNION,
    "pope": UNION,
    **dict.fromkeys(("sft_rl", "sft_then_rl", "sft_then_rl_short", "questa", "questa_50", "prefix_rft", "rlsd"), UNION),
    **dict.fromkeys(("luspo", "vespo", "gdpo"), UNION),
    # On-policy samples decide, and a supervised loss learns from the targets of those that were never solved.
    "chord_mu": {"solved", "solvedbuttarget"},
    "chord_phi": {"solved", "solvedbuttarget"},
    "hpt": {"solved", "solvedbuttarget"},
    "rl_sft_loss": {"solved", "solvedbuttarget"},
}


REFUSED = {"exgrpo", "luffy_opd", "opd", "exopd", "opsd", "sdpo"}


def test_every_recipe_with_rollouts_is_here() -> None:
    assert DROPPED.keys() == {
        recipe
        for recipe in config_names(RECIPES)
        if compose_run(recipe, "cpu", [], run=Path("run")).objective == "rl" and recipe not in REFUSED
    }


def options_of(recipe: str, *overrides: str) -> Method:
    settings = ["method.filter={}", *overrides]
    return of_run(compose_run(recipe, "cpu", settings, run=Path("run")))


def queue(
    monkeypatch: pytest.MonkeyPatch,
    rewards: dict[str, list[float]],
    prefixes: dict[str, list[int]],
    solved: dict[str, list[bool]] | None = None,
    cleared: list[str] | None = None,
    parts: dict[str, list[float]] | None = None,
) -> None:
    """Replace the queue, which needs Ray, by one with groups of these rewards and numbers of off-policy tokens."""

    def fields(keys: list[str], partition_id: str, select_fields: list[str]) -> Any:
        samples = [replay_buffer.sample_of(key) for key in keys]
        lengths = [prefixes[prompt][number] for prompt, number in samples]
        tensors = {
            "prefix_length": lengths,
            "guided": [0] * len(keys),
            "prompt_key": [0] * len(keys),
            "group_off_policy": [int(any(prefixes[prompt])) for prompt, _ in samples],
            "rm_scores": [[0.0, float(rewards[prompt][number])] for prompt, number in samples if rewards],
        }
        infos = [{"reward_extra_info": {"solved": solved[prompt][n]}} if solved else {} for prompt, n in samples]
        if parts:
            infos = [{"reward_extra_info": {"part": parts[prompt][n]}} for prompt, n in samples]
        chosen = {name: torch.tensor(values) for name, values in tensors.items() if name in select_fields}
        return tu.get_tensordict({**chosen, "extra_fields": infos}, {})

    kept = [] if cleared is None else cleared
    stub = SimpleNamespace(kv_batch_get=fields, kv_clear=lambda partition_id, keys: kept.extend(keys))
    for module in (verl_buffer, replay_buffer):
        monkeypatch.setattr(module, "tq", stub)


def dropped_groups(method: Method, rewards: dict[str, list[float]]) -> set[str]:
    """Return the groups that the buffer drops; `queue` has their samples."""
    n = len(next(iter(rewards.values())))
    buffer = replay_buffer.GroupReplayBuffer.__new__(replay_buffer.GroupReplayBuffer).follow(method, n)
    keys = [f"{prompt}_{number}_0" for prompt in rewards for number in range(n)]
    buffer.filter_groups_metric = "reward"
    buffer.partitions = {"train": {key: {} for key in keys}}
    buffer.finished_keys = {"train": set(rewards)}
    buffer._dapo_classification_cache = defaultdict(dict)
    prompts, counts = buffer._dapo_filtered_keys("train")
    assert counts.total() == len(prompts)
    assert len(buffer.partitions["train"]) == len(keys)
    assert buffer._dapo_filtered_keys("train")[0] == prompts  # the next time, nothing is new
    return prompts


def test_a_group_teaches_if_one_of_several_rewards_varies(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"same": [1.0, 1.0], "apart": [1.0, 0.0]}
    sums = {name: [0.5, 0.5] for name in parts}
    queue(monkeypatch, sums, {name: [0, 0] for name in parts}, parts=parts)
    assert dropped_groups(options_of("gdpo", "method.advantage.rewards={part: 1.0}"), sums) == {"same"}
    assert dropped_groups(options_of("gdpo"), sums) == parts.keys()


@pytest.mark.parametrize("recipe", DROPPED)
def test_groups_without_a_signal_are_dropped(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_of(recipe)
    prefix = [9 * (number < options.off_policy_samples(4)) for number in range(4)]
    queue(monkeypatch, GROUPS, dict.fromkeys(GROUPS, prefix))
    assert dropped_groups(options, GROUPS) == DROPPED[recipe]


def test_a_group_in_which_all_samples_continue_a_hint_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sample of h could decide; after the last hint all samples decide, and nothing is left to imitate."""
    rewards: dict[str, list[float]] = {"h": [1, 1, 1], "none": [0, 0, 0], "all": [1, 1, 1], "some": [1, 0, 1]}
    queue(monkeypatch, rewards, {"h": [2, 2, 2], "none": [0, 0, 0], "all": [0, 0, 0], "some": [0, 0, 0]})
    assert dropped_groups(options_of("uft", "method.filter.by=on_policy"), rewards) == {"none", "all"}


def test_the_verifier_says_which_groups_were_never_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """All samples score 0.8, which is right by the verifier of r alone."""
    rewards: dict[str, list[float]] = {"r": [0.8] * 3, "w": [0.8] * 3}
    solved = {"r": [True] * 3, "w": [False] * 3}
    queue(monkeypatch, rewards, {"r": [0, 0, 0], "w": [0, 0, 0]}, solved)
    assert dropped_groups(options_of("relift"), rewards) == {"r"}


def sampled(keys: list[str]) -> Any:
    batch = KVBatchMeta(keys=keys, tags=[{} for _ in keys], partition_id="train")
    return lambda *_: (batch, {})


def test_a_group_that_lost_its_off_policy_sample_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["a_0_0", "a_1_0", "b_1_0", "b_2_0", "c_0_0", "c_2_0"]  # c lost an on-policy sample
    cleared: list[str] = []
    queue(monkeypatch, {}, {"a": [9, 0, 0], "b": [9, 0, 0], "c": [9, 0, 0], "d": [0, 0, 0]}, cleared=cleared)
    keys += ["d_1_0", "d_2_0"]  # d has no target, so it lost an on-policy sample too
    monkeypatch.setattr(replay_buffer.ReplayBuffer, "sample", sampled(keys))
    buffer = replay_buffer.GroupReplayBuffer.__new__(replay_buffer.GroupReplayBuffer)
    buffer.off_policy_samples = 1
    batch, metrics = buffer.sample(1, "train", 3)
    assert batch.keys == ["a_0_0", "a_1_0", "c_0_0", "c_2_0", "d_1_0", "d_2_0"]
    assert (metrics, cleared) == ({"groups/dropped": 1.0}, ["b_1_0", "b_2_0"])
    assert buffer.sample(1, "val", 3)[0].keys == keys
    monkeypatch.setattr(replay_buffer.ReplayBuffer, "sample", sampled(["b_1_0"]))
    with pytest.raises(RuntimeError, match="no group of the batch has all its off-policy samples"):
        buffer.sample(1, "train", 1)


@pytest.mark.parametrize(("n_prefix", "keys", "stops"), [(1, ["a_0_0"], True), (2, ["a_0_0", "a_1_0"], False)])
def test_a_batch_of_which_nothing_was_generated_ends_the_training(
    n_prefix: int, keys: list[str], stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = Luffy(prefix=Fixed(n=n_prefix))
    queue(monkeypatch, {}, {"a": [9] * n_prefix + [0] * (2 - n_prefix), "b": [9, 0]})
    monkeypatch.setattr(replay_buffer.ReplayBuffer, "sample", sampled(keys))
    buffer = replay_buffer.GroupReplayBuffer.__new__(replay_buffer.GroupReplayBuffer).follow(method, 2)
    if not stops:
        assert buffer.sample(1, "train", 1)[0].keys == keys
        return
    with pytest.raises(RuntimeError, match="no sample of the batch was generated"):
        buffer.sample(1, "train", 1)
    monkeypatch.setattr(replay_buffer.ReplayBuffer, "sample", sampled([*keys, "b_0_0", "b_1_0"]))
    assert buffer.sample(1, "train", 2)[0].keys == [*keys, "b_0_0", "b_1_0"]
