"""What of verl our hooks override or call that it does not document: a new version says here what moved."""

import inspect
from typing import Any

import pytest
from verl.checkpoint_engine.base import CheckpointEngine
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.trainer.main_ppo import TaskRunnerV1
from verl.trainer.ppo.ray_trainer import apply_kl_penalty
from verl.trainer.ppo.v1 import PPOTrainerColocateAsync, PPOTrainerSeparateAsync, PPOTrainerSync
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.tracking import Tracking, ValidationGenerationsLogger
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.router import GlobalRequestLoadBalancer

from training.driver import task_runner
from training.platforms.cpu_weights import CPUCheckpointEngine
from training.plugins import TRACKERS
from training.verl_hooks.agent_loop import OffPolicyAgentLoop, OffPolicyOutput
from training.verl_hooks.asynchronous.trainers import (
    AsynchronousPolicy,
    ColocatedTrainer,
    PinningActorWorker,
    SeparateTrainer,
)
from training.verl_hooks.asynchronous.vllm_client import ResumingClient, TimedBalancer
from training.verl_hooks.replay_buffer import AsyncGroupBuffer, GroupReplayBuffer
from training.verl_hooks.trainer import MixedPolicy, MixedPolicyTrainer

BUFFER = "trainer_mode trainer_config max_off_policy_threshold max_off_policy_strategy sampler_kwargs refill_fn "
BUFFER += "poll_interval filter_groups_metric train_batch_size gen_batch_size max_inflight_gen_batches"
VALIDATION = "data_sources sample_uids reward_extra_infos_dict sample_turns expected_acc_counts"
OVERRIDDEN: list[tuple[Any, Any, str, str]] = [
    (PPOTrainer, MixedPolicy, "_setup", ""),
    (PPOTrainer, MixedPolicy, "_build_replay_buffer", ""),
    (PPOTrainer, MixedPolicy, "_compute_old_log_prob", "batch metrics"),
    (PPOTrainer, MixedPolicy, "_compute_advantage", "batch metrics"),
    (PPOTrainer, MixedPolicy, "_update_actor", "batch metrics"),
    (PPOTrainer, MixedPolicy, "_val_metrics_update", VALIDATION),
    (PPOTrainer, MixedPolicy, "_save_checkpoint", ""),
    (PPOTrainer, MixedPolicy, "_load_checkpoint", ""),
    (PPOTrainer, MixedPolicy, "_shutdown_dump_executor", ""),
    (PPOTrainer, MixedPolicy, "_log_rollout_data", "batch timing_raw rollout_data_dir"),
    (PPOTrainer, MixedPolicy, "on_step_begin", ""),
    (PPOTrainer, MixedPolicy, "_compute_metrics", "batch metrics timing_raw global_steps epoch"),
    (PPOTrainerColocateAsync, AsynchronousPolicy, "get_llm_client", ""),
    (PPOTrainerSeparateAsync, AsynchronousPolicy, "get_llm_client", ""),
    (PPOTrainerColocateAsync, AsynchronousPolicy, "on_train_begin", ""),
    (PPOTrainerSeparateAsync, AsynchronousPolicy, "on_train_begin", ""),
    (PPOTrainer, AsynchronousPolicy, "_add_batch_to_generate", ""),
    (PPOTrainer, AsynchronousPolicy, "_next_train_batch", "num_prompts"),
    (PPOTrainerSeparateAsync, SeparateTrainer, "_init_resource_pool_mgr", ""),
    (ReplayBufferAsync, AsyncGroupBuffer, "_terminal_eviction_reasons", "global_steps partition_id"),
    (GlobalRequestLoadBalancer, TimedBalancer, "acquire_server", "request_id"),
    (GlobalRequestLoadBalancer, TimedBalancer, "release_server", "server_id request_id"),
    (CheckpointEngine, CPUCheckpointEngine, "send_weights", "weights global_steps"),
    (CheckpointEngine, CPUCheckpointEngine, "receive_weights", "global_steps"),
    (ReplayBuffer, GroupReplayBuffer, "sample", "global_steps partition_id batch_size"),
    (ReplayBuffer, GroupReplayBuffer, "_dapo_filtered_keys", "partition_id"),
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
    (PPOTrainer, "_add_async_warmup_batches", "num_warmup_batches"),
    (PPOTrainer, "_rollout_server_managers", ""),
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
    ours = task_runner("rl").__ray_metadata__.modified_class
    assert parameters(theirs, "run") == ["config"] == parameters(ours, "run")
    assert list(inspect.signature(apply_kl_penalty).parameters) == ["data", "kl_ctrl", "kl_penalty"]


def test_the_trainers_are_verls_with_the_same_steps() -> None:
    """Each overrides what the mode needs and nothing of a step; verl tells its modes apart by their names."""
    trainers = {MixedPolicyTrainer: "sync", ColocatedTrainer: "colocate_async", SeparateTrainer: "separate_async"}
    for kind, mode in trainers.items():
        assert kind.trainer_mode.fget(kind) == mode  # pyright: ignore[reportAttributeAccessIssue]
        assert (kind.fit, kind.step, kind._step_once) == (PPOTrainer.fit, PPOTrainer.step, PPOTrainer._step_once)
    assert isinstance(DetachActorWorker.copy_handler, property) and "copy_handler" in vars(PinningActorWorker)
    assert parameters(ResumingClient, "generate") == ["request_id", "prompt_ids", "sampling_params", "kwargs"]
    assert {"request_id", "prompt_ids", "sampling_params"} <= set(parameters(LLMServerClient, "generate"))


def test_the_trackers_are_verls_and_each_with_tables_gets_samples() -> None:
    assert {*TRACKERS, "console", "file"} == {*Tracking.supported_backend}
    tables = [name for name in TRACKERS if hasattr(ValidationGenerationsLogger, f"log_generations_to_{name}")]
    assert {"mlflow", "wandb", "trackio", "swanlab", "clearml"} <= {*tables}
