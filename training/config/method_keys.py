"""The section ``method`` of a run, and the keys of verl that follow from it."""

from typing import TYPE_CHECKING, Any

from training.algorithms.regularize import AdaptiveRewardKL
from training.methods import SECTION, method_of
from training.methods.given import RunValues
from training.methods.method import Method
from training.methods.on_policy import OnPolicy

if TYPE_CHECKING:
    from omegaconf import DictConfig


GROUP_LOOPS = "training.verl_hooks.group_loop.GroupLoopManager"
# With one of them verl's actor has no logits of all tokens for a loss, or has them at other places.
HIDES_LOGITS = ("actor_rollout_ref.model.use_fused_kernels", "actor_rollout_ref.actor.fsdp_config.pad_to_length")


def of_run(config: "DictConfig") -> Method:
    """Return the method of a run."""
    from omegaconf import OmegaConf

    section: Any = OmegaConf.to_container(config[SECTION])
    return method_of(section)


def lay_out_method(config: "DictConfig") -> None:
    """Check the method against the rest of the run, and set the keys of verl that follow from it.

    Raises:
        InputError: two options exclude each other.
    """
    from omegaconf import OmegaConf

    method, rollout = of_run(config), config.actor_rollout_ref.rollout
    ratio = config.data.sample_target_ratio
    if not method.supervised:
        hides_logits = next((key for key in HIDES_LOGITS if OmegaConf.select(config, key) is True), "")
        method.check(RunValues(rollout.n, config.rollouts, rollout.temperature, ratio, hides_logits))
    for key, value in verl_keys(method).items():
        OmegaConf.update(config, key, value, force_add=True)


def verl_keys(method: Method) -> dict[str, Any]:
    """Return the keys of a run that follow from its method, with their values."""
    keys = {"objective": "sft" if method.supervised else "rl", **method.needs}
    if method.chooses:
        keys["data.gen_batch_size"] = 1  # one prompt at a time, because some of a batch are not the dataset's next
    if method.draws_more:
        keys["actor_rollout_ref.rollout.agent.agent_loop_manager_class"] = GROUP_LOOPS
    if not isinstance(method, OnPolicy):
        return keys
    keys["actor_rollout_ref.actor.entropy_coeff"] = method.entropy.coef
    keys["actor_rollout_ref.actor.use_kl_loss"] = method.reference is not None
    if method.reference is not None:
        keys["actor_rollout_ref.actor.kl_loss_coef"] = method.reference.coef
        keys["actor_rollout_ref.actor.kl_loss_type"] = method.reference.type
    keys["algorithm.use_kl_in_reward"] = method.reward_kl is not None
    if method.reward_kl is not None:
        keys["algorithm.kl_penalty"] = method.reward_kl.estimator
        keys["algorithm.kl_ctrl.type"] = method.reward_kl.type
        keys["algorithm.kl_ctrl.kl_coef"] = method.reward_kl.coef
        if isinstance(method.reward_kl, AdaptiveRewardKL):
            keys["algorithm.kl_ctrl.target_kl"] = method.reward_kl.target
            keys["algorithm.kl_ctrl.horizon"] = method.reward_kl.horizon
    keys["algorithm.filter_groups.enable"] = method.filter is not None
    if method.filter is not None:
        keys["algorithm.filter_groups.metric"] = method.filter.metric
        keys["algorithm.filter_groups.max_inflight_gen_batches"] = method.filter.max_inflight_gen_batches
    return keys
