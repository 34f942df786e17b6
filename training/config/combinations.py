"""The values of a run that exclude each other, and keys that another one switches off."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from training.config.verl_keys import within

if TYPE_CHECKING:
    from omegaconf import DictConfig

MODEL, OPTIM = "actor_rollout_ref.model", "actor_rollout_ref.actor.optim"
VALIDATION = ("data.val_files", "data.val_max_samples", "data.val_batch_size", "actor_rollout_ref.rollout.val_kwargs")
# Keys, or sections, that are read with another value of a key only than this one, which is its default.
SWITCHED_OFF = {
    (f"{MODEL}.lora_rank", 0): tuple(f"{MODEL}.{name}" for name in ("lora_alpha", "target_modules", "exclude_modules")),
    (f"{MODEL}.tiled_mlp.enabled", False): (f"{MODEL}.tiled_mlp.num_shards",),
    (f"{OPTIM}.lr_scheduler_type", "constant"): (f"{OPTIM}.min_lr_ratio", f"{OPTIM}.num_cycles"),
    ("trainer.test_freq", -1): VALIDATION,
    ("reward.reward_manager.source", "register"): ("reward.reward_manager.module",),
}


def check_switches(given: Mapping[str, Any]) -> None:
    """Raise ValueError for a key of ``given``, values by key, that another one switches off."""
    for (switch, off), keys in SWITCHED_OFF.items():
        if given.get(switch, off) != off:
            continue
        for key in (key for key, value in given.items() if value is not None and within(key, keys)):
            raise ValueError(
                f"{key}={given[key]} has no effect with {switch}={off}: set another {switch}, or leave the first out"
            )


def check_values(config: "DictConfig") -> None:
    """Raise InputError for two values that contradict each other."""
    data, actor = config.data, config.actor_rollout_ref.actor
    context = config.actor_rollout_ref.rollout.max_model_len
    batch, update = data.train_batch_size, actor.ppo_mini_batch_size
    if config.objective == "rl" and batch % update:
        raise InputError(
            f"data.train_batch_size={batch} and actor_rollout_ref.actor.ppo_mini_batch_size={update} contradict each "
            "other: a batch is cut into whole updates. Set the second to a divisor of the first"
        )
    if not actor.use_dynamic_bsz and actor.ppo_micro_batch_size_per_gpu is None:
        raise InputError(
            "actor_rollout_ref.actor.use_dynamic_bsz=false: micro-batches then have a fixed number of rows. Set "
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu too, such as to 4"
        )
    if context < data.max_prompt_length + data.max_response_length:
        raise InputError(
            f"actor_rollout_ref.rollout.max_model_len={context} and data.max_prompt_length={data.max_prompt_length} + "
            f"data.max_response_length={data.max_response_length} contradict each other: leave the first out, "
            "and the others set it"
        )
