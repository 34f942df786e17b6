"""Every option of the algorithm: its key in a recipe's section ``mixed``, its default and what it allows. No torch.

Each class validates itself and is handed whole to the function that it configures. `MixedPolicyOptions` is the whole
section. ``docs/algorithm.md`` explains the options one by one, with their sources.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from core.errors import validated
from training.algorithms.off_policy_schedule import ALWAYS, UNTIL_SOLVED, require_schedule
from training.algorithms.option_conflicts import CONFLICTS, contradiction
from training.algorithms.registry import (
    CORRECTIONS,
    GAMMA,
    GATES,
    LOSS_AGG_MODES,
    ON_POLICY_LOSSES,
    PREFIX_STRATEGIES,
    RESHAPES,
    SFT_WEIGHTS,
    gamma_of,
)

Share = Annotated[float, Field(ge=0.0, le=1.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
Positive = Annotated[float, Field(gt=0.0)]
Baseline = Literal["all_samples", "on_policy"]


class Options(BaseModel):
    """A frozen block of options, which validates itself; unknown keys and values of another type are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __hash__(self) -> int:
        """That of the values; a mapping among them has none of its own."""
        return hash(self.model_dump_json())


class PrefixOptions(Options):
    """The samples of a group that start with part of the target, and its length (``algorithms.schedules.prefix``)."""

    n_prefix: Annotated[int, Field(ge=-1)] = 0  # samples of a group with a prefix; -1: all
    place: Literal["response", "prompt"] = "response"  # what the prefix is part of
    strategy: Annotated[str, AfterValidator(PREFIX_STRATEGIES.require)] = "fixed"
    min: Share = 1.0
    max: Share = 1.0
    steps: Annotated[int, Field(ge=1)] = 300  # length of the schedules that depend on the step
    share: bool = False  # one draw for all samples of a prompt
    std: NotNegative = 0.1  # standard deviation of linear_variance
    alpha: NotNegative = 1.0  # weight of the advantage on off-policy tokens
    beta: NotNegative = 1.0  # weight of the advantage on on-policy tokens

    def samples_of(self, n: int) -> int:
        """Return how many of the ``n`` samples of a group start with a prefix: the first ones."""
        return n if self.n_prefix == -1 else self.n_prefix

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min > self.max:
            raise contradiction("prefix.min", self.min, "prefix.max", self.max, "the minimum is above the maximum")
        if self.strategy == "fixed" and self.share:
            raise contradiction(
                "prefix.strategy", "fixed", "prefix.share", True, "fixed gives each sample its own ratio"
            )
        return self


class RolloutCorrectionOptions(Options):
    """How the mismatch of the rollout engine and the actor is corrected (``training.algorithms.correction``)."""

    type: Annotated[str, AfterValidator(CORRECTIONS.require)] = "none"
    low: NotNegative = 0.5  # lower end of the band in which a ratio is kept or to which it is clamped
    high: NotNegative = 5.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            keys = "rollout_correction.low", "rollout_correction.high"
            raise contradiction(keys[0], self.low, keys[1], self.high, "the band is empty")
        return self


class SFTMultitaskOptions(Options):
    """A supervised loss on off-policy tokens beside the policy loss (``training.algorithms.methods.sft``).

    ``weight`` is read by supervised training (``objective: sft``) as well.
    """

    use: bool = False
    coef: NotNegative = 0.1  # weight of the loss, or the highest weight of its schedule
    weight: Annotated[str, AfterValidator(SFT_WEIGHTS.require)] = "one"  # weight of a token, by its probability
    complement: bool = False  # the policy loss has the weight 1 - that of the supervised loss
    warmup_steps: Annotated[int, Field(ge=0)] = 0  # steps from 0 to coef
    decay_steps: Annotated[int, Field(ge=0)] = 0  # steps from coef to valley; 0: the weight stays coef
    valley: NotNegative = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.valley and not self.decay_steps:
            keys = "sft_multitask.valley", "sft_multitask.decay_steps"
            raise contradiction(keys[0], self.valley, keys[1], 0, "the weight never falls to it")
        for name in ("coef", "valley"):
            if self.complement and getattr(self, name) > 1:
                keys = "sft_multitask.complement", f"sft_multitask.{name}"
                why = "the policy loss would have a weight below 0"
                raise contradiction(keys[0], True, keys[1], getattr(self, name), why)
        if self.use and self.coef == 0:
            raise contradiction("sft_multitask.use", True, "sft_multitask.coef", 0, "the loss would have no weight")
        return self


class GateOptions(Options):
    """RL or supervised training for each prompt, by its successes (``training.algorithms.methods.gate``)."""

    type: Annotated[str, AfterValidator(GATES.require)] = "none"
    gamma: Annotated[int, Field(ge=0)] = 0  # for hard: a prompt gets RL if it has more successes than this

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.gamma and self.type in GATES and self.type != "hard":
            raise contradiction("gate.type", self.type, "gate.gamma", self.gamma, "only hard counts successes")
        return self


class SRFTOptions(Options):
    """Weights by the entropy of each row, and advantages by outcome (``training.algorithms.methods.srft``)."""

    use: bool = False
    sign: Literal["minus", "plus"] = "minus"  # sign of the entropy in the supervised loss's factor exp(+-H)
    solved_weight: Positive = 0.1  # times exp(H): the advantage of a right sample; that of a wrong one is -1


class ReLIFTOptions(Options):
    """Supervised steps on the targets of prompts that the policy does not solve (``methods.relift``)."""

    use: bool = False
    buffer: Annotated[int, Field(ge=1)] = 128  # prompts that one supervised step waits for and learns from


class ReplayOptions(Options):
    """A replay of the policy's own right samples (``training.algorithms.methods.exgrpo``)."""

    use: bool = False
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5  # largest share of a batch's prompts
    start: Share = 0.35  # share of right samples above which it begins


class DistillationOptions(Options):
    """The scores of a teacher for the policy's own tokens (``training.algorithms.methods.distillation``).

    The section ``teacher`` of the configuration says who the teacher is.
    """

    use: bool = False
    coef: Positive = 1.0  # coefficient of log q - log p in the advantage of a token
    max_advantage: Positive | None = None  # bound of abs(log q - log p)
    task_rewards: bool = True  # whether on-policy samples have the group's advantage, too
    sees_target: bool = False  # whether the teacher's prompt holds the target


class LengthPenaltyOptions(Options):
    """DAPO's penalty on long responses (``training.algorithms.advantage``)."""

    use: bool = False
    buffer: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2  # share of the response limit over which it grows
    factor: Positive = 0.5  # penalty at the limit; a right answer has 1 more than a wrong one


class EntropyOptions(Options):
    """The adaptive entropy coefficient (``training.algorithms.schedules.entropy``); ``min`` and ``max`` bound it."""

    use: bool = False
    target: NotNegative = 0.5  # nats per token
    lr: Positive = 0.05  # change of log(coefficient) per step and nat of difference
    min: Positive = 1e-5
    max: Positive = 0.1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min > self.max:
            keys = "adaptive_entropy.min", "adaptive_entropy.max"
            raise contradiction(keys[0], self.min, keys[1], self.max, "the minimum is above the maximum")
        return self


class GroupOptions(Options):
    """Settings of the computations over a group (``training.algorithms.advantage`` and ``group_rejection``)."""

    baseline: Baseline = "all_samples"  # the samples whose scores give the mean and the deviation of a group
    use_std: bool = False  # divide by the deviation
    filter_on: Baseline = "all_samples"  # the samples whose outcomes decide that a group carries no signal


class LossOptions(Options):
    """The token loss (``training.algorithms.mixed_loss``)."""

    # on-policy tokens
    on_policy_loss: Annotated[str, AfterValidator(ON_POLICY_LOSSES.require)] = "ppo"
    clip_ratio: Positive = 0.2
    clip_upper_bound: Positive | None = None  # the upper clip, where it is not 1 + clip_ratio
    loss_remove_clip: bool = False
    sapo_tau_pos: Positive = 1.0  # steepness of SAPO's gate where A > 0
    sapo_tau_neg: Positive = 1.05  # the same where A <= 0
    on_policy_reshape: Annotated[str, AfterValidator(RESHAPES.require)] = "no_reshape"
    on_policy_reshape_gamma: Positive = GAMMA
    on_policy_reshape_weight: NotNegative = 1.0
    on_policy_reshape_pow_exp: Positive = 0.5
    # off-policy tokens
    use_off_policy_loss: bool = True  # False: they have no policy loss (they may have the supervised one)
    off_policy_reshape: Annotated[str, AfterValidator(RESHAPES.require)] = "no_reshape"
    off_policy_reshape_gamma: Positive = GAMMA
    off_policy_reshape_weight: NotNegative = 1.0
    off_policy_reshape_pow_exp: Positive = 0.5
    off_max_clip: Positive | None = None
    off_min_clip: float | None = None
    use_target_probs: bool = False  # the targets' column target_log_probs is the teacher's phi; False: phi = 1
    # all tokens
    all_max_clip: Positive | None = None  # tokens with a higher probability have no loss

    @model_validator(mode="before")
    @classmethod
    def _split_gamma(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Read the original's spelling: ``p_div_p_0.5`` is ``p_div_p`` with the gamma 0.5."""
        for name in ("on_policy_reshape", "off_policy_reshape"):
            if (gamma := gamma_of(values.get(name))) is not None:
                given = values.get(f"{name}_gamma", GAMMA)
                if given not in (GAMMA, gamma):
                    why = f"the first says {gamma:g}"
                    raise contradiction(name, values[name], f"{name}_gamma", given, why)
                values = {**values, name: "p_div_p", f"{name}_gamma": gamma}
        return values

    @property
    def phi_epsilon(self) -> float:
        """What is added to the recorded probability of an off-policy token (arXiv 2504.14945, equation 5)."""
        return 1e-6


class MixedPolicyOptions(GroupOptions, LossOptions):
    """The algorithm of a recipe: its section ``mixed``, and verl's clip range, which stands in verl's section."""

    loss_agg_mode: Annotated[str, AfterValidator(LOSS_AGG_MODES.require)] = "token-mean"
    regularize_on: Baseline = "all_samples"  # the tokens whose entropy and KL the loss has
    skip_grad_norm: Positive | None = None  # an update with a larger gradient norm is left out
    prefix: PrefixOptions = PrefixOptions()
    # which prompts get the samples with a prefix
    off_policy_schedule: Annotated[str, AfterValidator(require_schedule)] = ALWAYS
    rollout_correction: RolloutCorrectionOptions = RolloutCorrectionOptions()
    sft_multitask: SFTMultitaskOptions = SFTMultitaskOptions()
    gate: GateOptions = GateOptions()
    srft: SRFTOptions = SRFTOptions()
    relift: ReLIFTOptions = ReLIFTOptions()
    replay: ReplayOptions = ReplayOptions()
    length_penalty: LengthPenaltyOptions = LengthPenaltyOptions()
    distillation: DistillationOptions = DistillationOptions()
    adaptive_entropy: EntropyOptions = EntropyOptions()

    @property
    def has_teacher_log_probs(self) -> bool:
        """Whether off-policy tokens come with the probabilities of the policy that wrote them."""
        return self.use_target_probs or self.replay.use

    @property
    def phi_epsilon(self) -> float:
        """Nothing is added in ExGRPO, which records the probabilities of what was sampled (arXiv 2510.02245)."""
        return 0.0 if self.replay.use else super().phi_epsilon

    @property
    def uses_unsolved_prompts(self) -> bool:
        """Whether a group that was never solved has a supervised loss, so that nothing may drop it."""
        return self.sft_multitask.use or self.relift.use

    @property
    def shows_prefix(self) -> bool:
        """Whether some samples are drawn from a prompt that shows the beginning of the target."""
        return self.prefix.place == "prompt" and self.prefix.n_prefix != 0

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], n: int | None = None) -> Self:
        """Build from a plain mapping, such as a resolved section, and check for ``n`` rollouts per prompt.

        Raises:
            InputError: an unknown key (with the nearest that exists), a value that is not allowed, or two values that
                contradict each other.
        """
        options = validated(cls, values, "mixed.")
        if n is not None:
            options.check_group(n)
        return options

    def check_group(self, n: int) -> None:
        """Check what depends on ``n``, the rollouts per prompt.

        Raises:
            InputError: more samples with a prefix than samples, or a criterion that no sample or group can meet.
        """
        n_prefix, without = self.prefix.n_prefix, n - self.prefix.samples_of(n)
        if n_prefix > n:
            raise contradiction("prefix.n_prefix", n_prefix, "rollout.n", n, "a group has only n samples")
        if not without:
            # With a minimum of 0, some groups have no prefix: they can be filtered, but the others have no baseline.
            for name in ("baseline", "filter_on") if self.prefix.min > 0 else ("baseline",):
                if getattr(self, name) == "on_policy":
                    why = f"all {n} samples of a group have a prefix, none is on-policy"
                    raise contradiction(name, "on_policy", "prefix.n_prefix", n_prefix, why)
            if self.off_policy_schedule == UNTIL_SOLVED and self.prefix.min > 0:
                why = "it waits for an on-policy sample that is right, and a group has none"
                raise contradiction("off_policy_schedule", self.off_policy_schedule, "prefix.n_prefix", n_prefix, why)
        if self.shows_prefix and 1 in (n_prefix, n - n_prefix):
            why = "samples with a prefix and those without are two groups, and a group of one teaches nothing"
            raise contradiction("prefix.place", "prompt", "prefix.n_prefix", n_prefix, why)
        if self.replay.use and n < 2:
            raise contradiction("replay.use", True, "rollout.n", n, "one sample of a group is replayed")
        if self.relift.use and not without:
            why = "it counts right on-policy samples, and a group has none"
            raise contradiction("relift.use", True, "prefix.n_prefix", n_prefix, why)
        if self.gate.type != "none":
            if not without:
                why = "the gate counts successes of on-policy samples, and a group has none"
                raise contradiction("gate.type", self.gate.type, "prefix.n_prefix", n_prefix, why)
            if self.gate.gamma >= without:
                why = f"no group has more successes: {without} of its samples are on-policy"
                raise contradiction("gate.gamma", self.gate.gamma, "rollout.n", n, why)

    @property
    def needs_policy_worker(self) -> bool:
        """Whether verl's own worker cannot make the updates (``training.verl_hooks.actor_worker``)."""
        return self.relift.use or self.skip_grad_norm is not None

    @property
    def before_replay(self) -> Self:
        """The options of the updates before replay starts, which have PPO's clip (ExGRPO)."""
        return self.model_copy(update={"loss_remove_clip": False})

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        for first, second, why, holds in CONFLICTS:
            if holds(self):
                changed = {name: type(self)().value(name) for name in (first, second) if not self.is_default(name)}
                defaults = ", ".join(f"{name}={value}" for name, value in changed.items())
                raise contradiction(
                    first, self.value(first), second, self.value(second), f"{why} (by default, {defaults})"
                )
        return self

    def value(self, name: str) -> Any:
        """Return the value of the option ``name``, such as ``prefix.n_prefix``."""
        value: Any = self
        for part in name.split("."):
            value = getattr(value, part)
        return value

    def is_default(self, name: str) -> bool:
        """Return whether the option ``name`` has its default."""
        path, _, option = name.rpartition(".")
        block = self.value(path) if path else self
        return getattr(block, option) == type(block).model_fields[option].default
