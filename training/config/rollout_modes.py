"""Translate the keys of `RolloutOptions` for verl's trainers and rollout servers."""

from typing import TYPE_CHECKING

from core.errors import InputError, validated
from training.algorithms.options import RolloutOptions

if TYPE_CHECKING:
    from omegaconf import DictConfig

SEPARATE = "separate_async"
ROUTER = "training/verl_hooks/asynchronous/router.yaml"


def rollout_options(config: "DictConfig") -> RolloutOptions:
    """Return the validated options of a run; InputError names the one at fault."""
    return validated(RolloutOptions, {name: config[name] for name in RolloutOptions.model_fields}, "")


def lay_out_rollouts(config: "DictConfig") -> None:
    """Set verl's keys for the rollouts of ``config``; synchronous ones keep verl's defaults.

    Raises:
        InputError: ``rollout_gpus`` is no number, or two keys contradict each other.
    """
    options = rollout_options(config)
    if options.rollout_precision != "auto":
        set_precision(config, options.rollout_precision)
    if options.rollouts == "sync":
        return
    sampler = config.trainer.v1.sampler
    # verl counts the steps from the one that dispatched a group to the one that trains on it, both included.
    sampler.max_off_policy_threshold = options.max_staleness + 1
    sampler.max_off_policy_strategy = options.stale_samples
    if options.rollouts == SEPARATE:
        gpus = config.rollout_gpus
        if gpus != "auto" and (not isinstance(gpus, int) or isinstance(gpus, bool) or gpus < 1):
            raise InputError(f"rollout_gpus: got {gpus!r}, expected auto or a whole number from 1")
        rollout = config.actor_rollout_ref.rollout
        if rollout.router_config_path is not None:
            raise InputError(
                f"actor_rollout_ref.rollout.router_config_path={rollout.router_config_path} and rollouts={SEPARATE} "
                "contradict each other: its router measures how long rollouts are idle. Leave the first out"
            )
        rollout.router_config_path = f"{config.paths.project}/{ROUTER}"
        config.actor_rollout_ref.hybrid_engine = False
        # One update per mini-batch, and then the weights are sent.
        updates = config.data.train_batch_size // config.actor_rollout_ref.actor.ppo_mini_batch_size
        config.trainer.v1.separate_async.parameter_sync_step = updates
        engine = rollout.checkpoint_engine
        if config.trainer.device == "cpu":
            engine.backend, engine.custom_backend_module = "cpu", "training.platforms.cpu_weights"
        elif engine.backend == "naive":  # verl's default, which cannot leave a GPU
            engine.backend = "nccl"


def set_precision(config: "DictConfig", precision: str) -> None:
    """Set the precision in which vLLM generates; fp8 and int4 apply to the weights of linear layers."""
    rollout = config.actor_rollout_ref.rollout
    if precision in ("float32", "bfloat16"):
        rollout.dtype = precision
        return
    if rollout.quantization is not None:
        raise InputError(
            f"rollout_precision={precision} and actor_rollout_ref.rollout.quantization={rollout.quantization} "
            "contradict each other: leave the second out"
        )
    if config.trainer.device == "cpu":  # vLLM's own does not start there: training.platforms.cpu_vllm rounds weights
        rollout.dtype = "float32"
    elif precision == "fp8":
        rollout.dtype, rollout.quantization = "bfloat16", "fp8"
    else:
        raise InputError(
            f"rollout_precision={precision}: only the CPU's simulation has it: set fp8 or bfloat16 on a GPU"
        )
