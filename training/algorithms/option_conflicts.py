"""The pairs of options of the section ``mixed`` that exclude each other. No torch."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from core.errors import InputError
from training.algorithms.registry import ON_POLICY_LOSSES, RESHAPES


class Conflict(NamedTuple):
    """Two options that exclude each other where ``holds`` of the `training.algorithms.options.MixedPolicyOptions`."""

    first: str
    second: str
    why: str
    holds: Callable[[Any], bool]


# The options that say how off-policy tokens enter the policy loss; their defaults say nothing.
OFF_POLICY_LOSS = ("off_policy_reshape", "off_max_clip", "off_min_clip", "use_target_probs", "prefix.alpha")
GATE = "the gate chooses between the policy loss of samples and the supervised loss of the target"


def contradiction(first: str, value: object, second: str, other: object, why: str) -> InputError:
    """Make the error for two options that exclude each other."""
    return InputError(f"{first}={value} contradicts {second}={other}: {why}. Change one of them.")


def _unread(name: str, readers: tuple[str, ...], why: str) -> Conflict:
    """Return the conflict of a changed parameter of a reshape with a reshape that does not read it."""
    reshape = "off_policy_reshape" if name.startswith("off") else "on_policy_reshape"
    others = RESHAPES.keys() - set(readers)
    return Conflict(name, reshape, why, lambda o: not o.is_default(name) and o.value(reshape) in others)


def _off_policy_only(name: str) -> Conflict:
    """Return the conflict of an option of the off-policy loss with a run that has none."""
    why = "off-policy tokens have no policy loss"
    return Conflict("use_off_policy_loss", name, why, lambda o: not (o.use_off_policy_loss or o.is_default(name)))


def _needs_prefix(name: str) -> Conflict:
    """Return the conflict of an option of off-policy samples with a run that has none."""
    why = "no sample has off-policy tokens"
    return Conflict(name, "prefix.n_prefix", why, lambda o: not o.is_default(name) and o.prefix.n_prefix == 0)


def _needed_by_srft(name: str, needed: object) -> Conflict:
    why = f"SRFT has {name}={str(needed).lower()}"
    return Conflict("srft.use", name, why, lambda o: o.srft.use and o.value(name) != needed)


def _least_upper_clip(o: Any) -> float:
    """Return the upper clip of ``clip_ratio``, which a lower bound does not change; 0 where the bound is the clip."""
    if o.on_policy_loss == "gmpo":
        return math.exp(o.clip_ratio)
    return 1 + o.clip_ratio if o.on_policy_loss in ("ppo", "gspo", "dppo", "dppo_kl") else 0.0


def _teacher_alone(name: str) -> Conflict:
    """Return the conflict of an option of the group's advantage with a run in which no token has it."""
    return Conflict(
        name,
        "distillation.task_rewards",
        "the teacher's scores alone are the advantage",
        lambda o: not o.is_default(name) and o.distillation.use and not _has_group_advantage(o),
    )


def _has_group_advantage(o: Any) -> bool:
    off_policy = o.use_off_policy_loss and (o.prefix.n_prefix != 0 or o.replay.use)
    return o.distillation.task_rewards or off_policy


CONFLICTS = (
    Conflict(
        "off_min_clip",
        "off_max_clip",
        "the minimum is above the maximum",
        lambda o: None not in (o.off_min_clip, o.off_max_clip) and o.off_min_clip > o.off_max_clip,
    ),
    Conflict(
        "loss_remove_clip",
        "clip_upper_bound",
        "there is no clip to bound",
        lambda o: o.loss_remove_clip and o.clip_upper_bound is not None,
    ),
    Conflict(
        "clip_upper_bound",
        "clip_ratio",
        "the upper clip is at least that of clip_ratio, so the bound has no effect",
        lambda o: o.clip_upper_bound is not None and o.clip_upper_bound < _least_upper_clip(o),
    ),
    Conflict(
        "clip_upper_bound",
        "clip_ratio",
        "the upper clip is below the lower one, 1 - clip_ratio",
        lambda o: o.on_policy_loss == "cispo" and (o.clip_upper_bound or 1) < 1 - o.clip_ratio,
    ),
    Conflict(
        "on_policy_loss",
        "loss_remove_clip",
        "it has no ratio that a clip could hold",
        lambda o: o.on_policy_loss in ("reinforce", "sapo") and not o.loss_remove_clip,
    ),
    Conflict(
        "on_policy_loss",
        "loss_remove_clip",
        "its clipped ratio is the weight of a token",
        lambda o: o.on_policy_loss == "cispo" and o.loss_remove_clip,
    ),
    Conflict(
        "on_policy_loss",
        "loss_remove_clip",
        "its clip is the region that it trusts",
        lambda o: o.on_policy_loss in ("dppo", "dppo_kl") and o.loss_remove_clip,
    ),
    Conflict(
        "on_policy_loss",
        "on_policy_reshape",
        "only ppo has a ratio of each token to reshape",
        lambda o: o.on_policy_loss in ON_POLICY_LOSSES.keys() - {"ppo"} and o.on_policy_reshape != "no_reshape",
    ),
    _unread("off_policy_reshape_gamma", ("p_div_p",), "only p_div_p has a gamma"),
    _unread("on_policy_reshape_gamma", ("p_div_p",), "only p_div_p has a gamma"),
    _unread("off_policy_reshape_weight", ("logp", "p_logp"), "only logp and p_logp have a weight"),
    _unread("off_policy_reshape_pow_exp", ("pow",), "only pow has an exponent"),
    _unread("on_policy_reshape_weight", ("p_logp",), "only p_logp has a weight"),
    _unread("on_policy_reshape_pow_exp", ("pow",), "only pow has an exponent"),
    *map(_off_policy_only, OFF_POLICY_LOSS),
    _needs_prefix("use_target_probs"),
    _needs_prefix("sft_multitask.use"),
    _needs_prefix("off_policy_schedule"),
    Conflict(
        "baseline",
        "prefix.n_prefix",
        "all samples are on-policy",
        lambda o: o.baseline == "on_policy" and o.prefix.n_prefix == 0 and not o.replay.use,
    ),
    Conflict(
        "replay.use",
        "prefix.n_prefix",
        "the first sample of a group is replayed",
        lambda o: o.replay.use and o.prefix.n_prefix != 0,
    ),
    Conflict(
        "replay.use",
        "use_off_policy_loss",
        "a replayed sample is off-policy",
        lambda o: o.replay.use and not o.use_off_policy_loss,
    ),
    _needed_by_srft("on_policy_loss", "reinforce"),
    _needed_by_srft("sft_multitask.use", True),
    _needed_by_srft("sft_multitask.complement", False),
    Conflict(
        "srft.use",
        "length_penalty.use",
        "an on-policy sample's advantage is its outcome",
        lambda o: o.srft.use and o.length_penalty.use,
    ),
    Conflict(
        "srft.use",
        "distillation.use",
        "an on-policy sample's advantage is its outcome",
        lambda o: o.srft.use and o.distillation.use,
    ),
    Conflict(
        "srft.use",
        "prefix.beta",
        "an on-policy sample's advantage is its outcome",
        lambda o: o.srft.use and not o.is_default("prefix.beta"),
    ),
    Conflict(
        "prefix.beta",
        "distillation.task_rewards",
        "an on-policy sample's advantage is the teacher's score",
        lambda o: not o.is_default("prefix.beta") and o.distillation.use and not o.distillation.task_rewards,
    ),
    *map(_teacher_alone, ("use_std", "length_penalty.use")),
    *(
        Conflict("prefix.place", name, "no sample starts with a part of the target", holds)
        for name, holds in {
            "use_off_policy_loss": lambda o: o.shows_prefix and o.use_off_policy_loss,
            "sft_multitask.use": lambda o: o.shows_prefix and o.sft_multitask.use,
            "regularize_on": lambda o: o.shows_prefix and o.regularize_on == "on_policy",
        }.items()
    ),
    Conflict(
        "prefix.place",
        "baseline",
        "samples with a prefix are a group of their own, and none of them is on-policy",
        lambda o: o.shows_prefix and o.baseline == "on_policy",
    ),
    Conflict("gate.type", "sft_multitask.use", GATE, lambda o: o.gate.type != "none" and not o.sft_multitask.use),
    Conflict("gate.type", "use_off_policy_loss", GATE, lambda o: o.gate.type != "none" and o.use_off_policy_loss),
)
