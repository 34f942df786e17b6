"""What of verl our hooks override or call that it does not document: a new version says here what moved."""

import inspect
from typing import Any

import pytest
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.trainer.main_ppo import TaskRunnerV1
from verl.trainer.ppo.ray_trainer import apply_kl_penalty
from verl.trainer.ppo.v1 import PPOTrainerSync
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from training.mixed.groups import GroupBuffer
from training.mixed.main import TaskRunner
from training.mixed.rollout import OffPolicyAgentLoop, OffPolicyOutput
from training.mixed.trainer import MixedPolicyTrainer

BUFFER = "trainer_mode trainer_config max_off_policy_threshold max_off_policy_strategy sampler_kwargs refill_fn "
BUFFER += "poll_interval filter_groups_metric train_batch_size gen_batch_size max_inflight_gen_batches"
VALIDATION = "data_sources sample_uids reward_extra_infos_dict sample_turns expected_acc_counts"
OVERRIDDEN: list[tuple[Any, Any, str, str]] = [
    (PPOTrainerSync, MixedPolicyTrainer, "_setup", ""),
    (PPOTrainerSync, MixedPolicyTrainer, "_build_replay_buffer", ""),
    (PPOTrainerSync, MixedPolicyTrainer, "_compute_old_log_prob", "batch metrics"),
    (PPOTrainerSync, MixedPolicyTrainer, "_compute_advantage", "batch metrics"),
    (PPOTrainerSync, MixedPolicyTrainer, "_update_actor", "batch metrics"),
    (PPOTrainerSync, MixedPolicyTrainer, "_val_metrics_update", VALIDATION),
    (PPOTrainerSync, MixedPolicyTrainer, "_save_checkpoint", ""),
    (PPOTrainerSync, MixedPolicyTrainer, "_load_checkpoint", ""),
    (PPOTrainerSync, MixedPolicyTrainer, "_log_rollout_data", "batch timing_raw rollout_data_dir"),
    (ReplayBuffer, GroupBuffer, "sample", "global_steps partition_id batch_size"),
    (ReplayBuffer, GroupBuffer, "_dapo_filtered_keys", "partition_id"),
    (AgentLoopBase, OffPolicyAgentLoop, "run", "sampling_params kwargs"),
    (AgentLoopOutput, OffPolicyOutput, "as_dict", ""),
]
CALLED: list[tuple[Any, str, str]] = [
    (
        PPOTrainerSync,
        "_dump_generations",
        "inputs outputs gts scores reward_extra_infos_dict dump_path",
    ),
    (PPOTrainerSync, "_resolve_filter_groups_metric", ""),
    (PPOTrainerSync, "_add_prompts_to_generate", "num_prompts"),
    (PPOTrainerSync, "_shutdown_dump_executor", ""),
    (ReplayBuffer, "__init__", BUFFER),
]


def parameters(owner: Any, name: str) -> list[str]:
    return [
        name for name in inspect.signature(getattr(owner, name)).parameters if name not in ("self", "_ray_trace_ctx")
    ]


@pytest.mark.parametrize(("theirs", "ours", "name", "expected"), OVERRIDDEN)
def test_what_we_override_takes_what_it_took(theirs: Any, ours: Any, name: str, expected: str) -> None:
    assert parameters(theirs, name) == expected.split()
    assert name in vars(ours) and len(parameters(ours, name)) == len(parameters(theirs, name))


@pytest.mark.parametrize(("owner", "name", "passed"), CALLED)
def test_what_we_call_takes_our_arguments(owner: Any, name: str, passed: str) -> None:
    inspect.signature(getattr(owner, name)).bind(None, **dict.fromkeys(passed.split()))


def test_the_runner_and_the_penalty() -> None:
    theirs = TaskRunnerV1.__ray_metadata__.modified_class
    assert parameters(theirs, "run") == ["config"] == parameters(TaskRunner.__ray_metadata__.modified_class, "run")
    assert list(inspect.signature(apply_kl_penalty).parameters) == ["data", "kl_ctrl", "kl_penalty"]
