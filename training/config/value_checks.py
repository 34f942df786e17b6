"""Check the values of a composed configuration: their kinds, what a run needs, and what contradicts each other."""

from collections.abc import Sequence

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from core.errors import InputError
from grading.grader import TRUNCATED
from training.algorithms.off_policy_schedule import ALWAYS
from training.algorithms.options import MixedPolicyOptions
from training.algorithms.schedules.prompt_order import EASY_FIRST, ORDERS
from training.config.keys import OPEN, within
from training.config.ranges import ranges

# What may be null though its default is not, beside the keys whose classes say so themselves.
MAY_BE_NULL = (*OPEN, "mixed", "trainer.total_training_steps", "trainer.rollout_data_dir")
# Without them a run has no batch, no length or no policy.
NEEDED = (
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "trainer.save_freq",
)


def check_kinds(keys: Sequence[str], config: DictConfig, defaults: DictConfig, where: str = "") -> None:
    """Raise InputError for a value of another kind than the default: a number, a switch, a list or a section, or null.

    ``where`` says who sets it, before the key.
    """
    kinds = (
        (bool, "true or false"),
        ((int, float), "a number"),
        ((list, ListConfig), "a list"),
        ((dict, DictConfig), "a mapping of its keys"),
    )
    for key in sorted(keys, key=lambda key: key.count(".")):  # a section that is none has no keys
        try:
            default, value = OmegaConf.select(defaults, key), OmegaConf.select(config, key)
        except OmegaConfBaseException as error:
            raise InputError(f"{where}{key}: {str(error).splitlines()[0]}") from error
        any_kind = None, f"a value, such as {default!r:.80}"
        kind, expected = next((pair for pair in kinds if isinstance(default, pair[0])), any_kind)
        if value is None:
            wrong = default is not None and (isinstance(default, DictConfig) or not within(key, MAY_BE_NULL))
            expected = ranges()[key].text if key in ranges() else expected
        else:
            wrong = kind and (not isinstance(value, kind) or isinstance(value, bool) != (kind is bool))
        if wrong:
            raise InputError(f"{where}{key}: got {value!r:.80}, expected {expected}")


def check_needed(config: DictConfig) -> None:
    """Raise InputError for a value that no run can do without and that is null."""
    length = "total_epochs" if config.trainer.total_training_steps is None else "total_training_steps"
    for key in (*NEEDED, f"trainer.{length}"):
        if OmegaConf.select(config, key) is None:
            raise InputError(f"{key}: got None, expected {ranges()[key].text}")


def check_values(config: DictConfig) -> None:
    """Raise InputError for two numbers that contradict each other, or a wrong name."""
    data, actor = config.data, config.actor_rollout_ref.actor
    context = config.actor_rollout_ref.rollout.max_model_len
    batch, update = data.train_batch_size, actor.ppo_mini_batch_size
    if config.objective == "rl" and batch % update:
        raise InputError(
            f"data.train_batch_size={batch} and actor_rollout_ref.actor.ppo_mini_batch_size={update} contradict each "
            "other: a batch is cut into whole updates. Set the second to a divisor of the first"
        )
    if config.mixed.replay.use:
        for key, needed in (("rollouts", "sync"), ("algorithm.filter_groups.enable", False)):
            if (value := OmegaConf.select(config, key)) != needed:
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
    if config.policy_from not in ("last", "best"):
        raise InputError(f"policy_from: got {config.policy_from!r}, expected last or best")
    if data.order not in ORDERS:
        raise InputError(f"data.order: got {data.order!r:.80}, expected one of {', '.join(ORDERS)}")
    if data.order == EASY_FIRST and data.get("train_max_samples", -1) > 0:
        raise InputError(
            f"data.order={EASY_FIRST} and data.train_max_samples={data.train_max_samples} contradict each other: the "
            "sample would be the easiest problems. Give fewer targets instead (split.max_rows)"
        )
    if config.reward.truncated not in TRUNCATED:
        raise InputError(f"reward.truncated: got {config.reward.truncated!r}, expected one of {', '.join(TRUNCATED)}")


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
