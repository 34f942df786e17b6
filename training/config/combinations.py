"""The values of verl's resolved configuration that exclude each other. The sections check their own (`config.run`)."""

from omegaconf import DictConfig

from core.errors import InputError
from training.algorithms.off_policy_schedule import ALWAYS
from training.algorithms.options import MixedPolicyOptions


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
    if config.mixed.replay.use:
        modes = ("rollouts.type", config.rollouts, "sync")
        for key, value, needed in (
            modes,
            ("algorithm.filter_groups.enable", config.algorithm.filter_groups.enable, False),
        ):
            if value != needed:
                raise InputError(
                    f"mixed.replay.use=true and {key}={str(value).lower()} contradict each other: what a step replays "
                    f"depends on all groups of the step before. Set {key}={str(needed).lower()}"
                )
    if context < data.max_prompt_length + data.max_response_length:
        raise InputError(
            f"actor_rollout_ref.rollout.max_model_len={context} and data.max_prompt_length={data.max_prompt_length} + "
            f"data.max_response_length={data.max_response_length} contradict each other: leave the first out, "
            "and the others set it"
        )


def check_groups(config: DictConfig, options: MixedPolicyOptions) -> None:
    """Raise InputError for groups in which every advantage is 0, so that nothing is learned from them."""
    n, prefix = config.actor_rollout_ref.rollout.n, options.prefix
    if config.objective != "rl" or options.srft.use or options.uses_unsolved_prompts or options.distillation.use:
        return  # nothing is sampled, or something beside the advantages teaches
    if n == 1:
        raise InputError(
            "actor_rollout_ref.rollout.n=1: the advantage of a sample is its distance from the mean of its group, so a "
            "group of one teaches nothing: set it to 2 or more"
        )
    always = options.off_policy_schedule == ALWAYS and config.data.sample_target_ratio == 1
    if prefix.samples_of(n) == n and prefix.min == 1 and always and not options.shows_prefix:
        raise InputError(
            f"mixed.prefix.n_prefix={prefix.n_prefix} and actor_rollout_ref.rollout.n={n}: all samples of a group are "
            "its whole target and have the same reward, so the group teaches nothing: lower mixed.prefix.n_prefix or "
            "raise actor_rollout_ref.rollout.n, so that some samples are the policy's own"
        )
