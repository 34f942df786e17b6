"""Every choice of the algorithm in one frozen dataclass, checked before anything starts. No torch, no Hydra.

A value out of its range names its key; two options that exclude each other, or one that another makes void, name both.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from core.errors import InputError
from training.algorithms.names import (
    BASELINES,
    CORRECTIONS,
    NORMALISERS,
    PREFIX_STRATEGIES,
    Baseline,
    Correction,
    Normaliser,
    PrefixStrategy,
    parse_reshape,
)
from training.algorithms.option_checks import build, choice, contradiction, flag, integer, keys, number


@dataclass(frozen=True)
class PrefixOptions:
    """Which samples of a group start with how much of the teacher's target (``training.algorithms.prefix``)."""

    n_prefix: int = 1  # samples of a group with a prefix; -1: all
    strategy: PrefixStrategy = "random"
    min: float = 1.0
    max: float = 1.0
    steps: int = 300  # of the linear schedules
    share: bool = False  # one draw for all samples of a prompt
    spread: float = 0.1  # standard deviation of linear_variance
    alpha: float = 1.0  # weight of the advantage on teacher tokens
    beta: float = 1.0  # weight of the advantage elsewhere

    def __post_init__(self) -> None:
        where = "prefix"
        integer(where, "n_prefix", self.n_prefix, -1)
        choice(where, "strategy", self.strategy, PREFIX_STRATEGIES)
        number(where, "min", self.min, 0.0, 1.0)
        number(where, "max", self.max, 0.0, 1.0)
        integer(where, "steps", self.steps, 1)
        flag(where, "share", self.share)
        for name in ("spread", "alpha", "beta"):
            number(where, name, getattr(self, name), 0.0)
        if self.min > self.max:
            contradiction("prefix.min", self.min, "prefix.max", self.max, "the minimum is above the maximum")
        if self.strategy == "fixed" and self.share:
            contradiction("prefix.strategy", "fixed", "prefix.share", True, "fixed gives each sample its own ratio")

    def schedule(self) -> dict[str, Any]:
        """The keyword arguments of ``prefix_ratio`` that these options decide."""
        return {
            "strategy": self.strategy,
            "n_prefix": self.n_prefix,
            "minimum": self.min,
            "maximum": self.max,
            "steps": self.steps,
            "share": self.share,
            "spread": self.spread,
        }


@dataclass(frozen=True)
class RolloutCorrectionOptions:
    """The mismatch of the rollout engine and the actor (``training.algorithms.correction``)."""

    type: Correction = "none"
    low: float = 0.5
    high: float = 5.0

    def __post_init__(self) -> None:
        where = "rollout_correction"
        choice(where, "type", self.type, CORRECTIONS)
        number(where, "low", self.low, 0.0)
        number(where, "high", self.high, 0.0)
        if self.low > self.high:
            contradiction(f"{where}.low", self.low, f"{where}.high", self.high, "the band is empty")


@dataclass(frozen=True)
class SFTMultitaskOptions:
    """A supervised loss on teacher tokens beside the policy loss (``training.algorithms.sft``)."""

    use: bool = False
    coef: float = 0.1

    def __post_init__(self) -> None:
        flag("sft_multitask", "use", self.use)
        number("sft_multitask", "coef", self.coef, 0.0)
        if self.use and self.coef == 0:
            contradiction("sft_multitask.use", True, "sft_multitask.coef", 0, "the loss would have no weight")


@dataclass(frozen=True)
class EntropyOptions:
    """The adaptive entropy coefficient (``training.algorithms.entropy``). ``min`` and ``max`` bound the coefficient."""

    use: bool = False
    target: float = 0.5  # nats a token
    lr: float = 0.05  # change of log(coefficient) for a step and nat of difference
    min: float = 1e-5
    max: float = 1e-1

    def __post_init__(self) -> None:
        where = "adaptive_entropy"
        flag(where, "use", self.use)
        for name in ("target", "lr", "min", "max"):
            number(where, name, getattr(self, name), 0.0, above=name != "target")
        if self.min > self.max:
            contradiction(f"{where}.min", self.min, f"{where}.max", self.max, "the minimum is above the maximum")


@dataclass(frozen=True)
class MixedPolicyOptions:
    """The algorithm of a recipe. Nested blocks may be given as mappings, as Hydra does."""

    # group
    baseline: Baseline = "union"
    use_std: bool = False
    filter_on: Baseline = "union"  # whose outcomes decide that a group carries no signal
    prefix: PrefixOptions = field(default_factory=PrefixOptions)
    # teacher tokens
    use_off_policy_loss: bool = True
    off_policy_reshape: str = "p_div_p_0.1"
    off_policy_reshape_weight: float = 1.0
    off_policy_reshape_pow_exp: float = 0.5
    off_max_clip: float | None = None
    off_min_clip: float | None = None
    shape_target_ratio: bool = False
    sft_multitask: SFTMultitaskOptions = field(default_factory=SFTMultitaskOptions)
    # the policy's own tokens
    on_policy_reshape: str = "no_reshape"
    on_policy_reshape_weight: float = 1.0
    on_policy_reshape_pow_exp: float = 0.5
    clip_ratio: float = 0.2
    clip_upper_bound: float | None = None
    loss_remove_clip: bool = False
    rollout_correction: RolloutCorrectionOptions = field(default_factory=RolloutCorrectionOptions)
    # all tokens
    all_max_clip: float | None = None
    loss_normaliser: Normaliser = "token-mean"
    adaptive_entropy: EntropyOptions = field(default_factory=EntropyOptions)

    def __post_init__(self) -> None:
        for name, block in _BLOCKS.items():
            value = getattr(self, name)
            if isinstance(value, Mapping):
                object.__setattr__(self, name, build(block, value, name))
            elif not isinstance(value, block):
                raise InputError(f"{name}: got {value!r}, expected a block with the keys {', '.join(keys(block))}")
        choice("", "baseline", self.baseline, BASELINES)
        choice("", "filter_on", self.filter_on, BASELINES)
        choice("", "loss_normaliser", self.loss_normaliser, NORMALISERS)
        for name in ("use_std", "use_off_policy_loss", "shape_target_ratio", "loss_remove_clip"):
            flag("", name, getattr(self, name))
        for name in ("off_policy_reshape", "on_policy_reshape"):
            _reshape(name, getattr(self, name), getattr(self, f"{name}_weight"), getattr(self, f"{name}_pow_exp"))
        number("", "clip_ratio", self.clip_ratio, 0.0, above=True)
        for name in ("clip_upper_bound", "off_max_clip", "all_max_clip"):
            if getattr(self, name) is not None:
                number("", name, getattr(self, name), 0.0, above=True)
        if self.off_min_clip is not None:
            number("", "off_min_clip", self.off_min_clip, -math.inf)
        self._check_combinations()

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], n: int | None = None) -> Self:
        """Build from a plain mapping, such as a resolved Hydra block, and check it for ``n`` rollouts of a prompt.

        Raises:
            InputError: an unknown key (with the nearest known one), or whatever the values contradict.
        """
        options = build(cls, values, "")
        if n is not None:
            options.check_group(n)
        return options

    def check_group(self, n: int) -> None:
        """Check what depends on ``n``, the rollouts of a prompt.

        Raises:
            InputError: more samples with a prefix than samples, or a criterion that no sample can meet.
        """
        if self.prefix.n_prefix > n:
            contradiction("prefix.n_prefix", self.prefix.n_prefix, "rollout.n", n, "a group has only n samples")
        if self.prefix.n_prefix not in (-1, n) or self.prefix.min == 0:
            return
        for name in ("baseline", "filter_on"):
            if getattr(self, name) == "on_policy":
                contradiction(
                    name,
                    "on_policy",
                    "prefix.n_prefix",
                    self.prefix.n_prefix,
                    f"all {n} samples of a group have a prefix, none is on-policy",
                )

    def loss_arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``mixed_policy_token_loss`` that these options decide."""
        names = (
            "clip_upper_bound",
            "off_max_clip",
            "off_min_clip",
            "all_max_clip",
            "off_policy_reshape",
            "off_policy_reshape_weight",
            "off_policy_reshape_pow_exp",
            "on_policy_reshape",
            "on_policy_reshape_weight",
            "on_policy_reshape_pow_exp",
            "shape_target_ratio",
            "loss_remove_clip",
            "use_off_policy_loss",
        )
        return {"cliprange": self.clip_ratio} | {name: getattr(self, name) for name in names}

    def _check_combinations(self) -> None:
        low, high = self.off_min_clip, self.off_max_clip
        if low is not None and high is not None and low > high:
            contradiction("off_min_clip", low, "off_max_clip", high, "the minimum is above the maximum")
        if self.loss_remove_clip and self.clip_upper_bound is not None:
            contradiction("loss_remove_clip", True, "clip_upper_bound", self.clip_upper_bound, "no clip to bound")
        if not self.use_off_policy_loss:
            for name, void in _VOID_WITHOUT_OFF_POLICY_LOSS.items():
                if getattr(self, name) != void:
                    contradiction(
                        "use_off_policy_loss", False, name, getattr(self, name), "teacher tokens have no policy loss"
                    )
            if self.prefix.alpha != 1.0:
                contradiction(
                    "use_off_policy_loss",
                    False,
                    "prefix.alpha",
                    self.prefix.alpha,
                    "teacher tokens have no policy loss",
                )
        if self.sft_multitask.use and self.prefix.n_prefix == 0:
            contradiction("sft_multitask.use", True, "prefix.n_prefix", 0, "no sample has teacher tokens")


_BLOCKS: dict[str, type] = {
    "prefix": PrefixOptions,
    "sft_multitask": SFTMultitaskOptions,
    "rollout_correction": RolloutCorrectionOptions,
    "adaptive_entropy": EntropyOptions,
}
_VOID_WITHOUT_OFF_POLICY_LOSS = {
    "off_policy_reshape": "no_reshape",
    "off_max_clip": None,
    "off_min_clip": None,
    "shape_target_ratio": False,
}


def _reshape(name: str, reshape: object, weight: object, pow_exp: object) -> None:
    try:
        kind = parse_reshape(reshape, name).kind
    except ValueError as error:
        raise InputError(str(error)) from None
    number("", f"{name}_weight", weight, 0.0)
    number("", f"{name}_pow_exp", pow_exp, 0.0, above=True)
    weighted = ("logp", "p_logp") if name == "off_policy_reshape" else ("p_logp",)
    if weight != 1.0 and kind not in weighted:
        contradiction(f"{name}_weight", weight, name, reshape, f"only {' and '.join(weighted)} have a weight")
    if pow_exp != 0.5 and kind != "pow":
        contradiction(f"{name}_pow_exp", pow_exp, name, reshape, "only pow has an exponent")
