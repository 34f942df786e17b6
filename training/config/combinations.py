"""The values of verl's resolved configuration that exclude each other. The sections check their own (`config.run`)."""

from omegaconf import DictConfig

from core.errors import InputError


def check_values(config: DictConfig) -> None:
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
