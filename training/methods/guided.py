"""Samples that start with a part of the target, and prompts that get them."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import PrivateAttr

from core.errors import InputError
from training.algorithms.guide import ALWAYS, FAILED, UNTIL_SOLVED, Schedule, applies
from training.algorithms.imitation import ImitationLoss, sft_coefficient
from training.algorithms.options import contradiction
from training.algorithms.prefix import AnyPrefix, Fixed, prefix_ratio
from training.algorithms.samples import Samples
from training.algorithms.term import Imitation, Term
from training.later import Tensor
from training.methods.given import Group, Metrics, Prompt, RunValues, Start, Tools
from training.methods.off_policy import Regularized
from training.methods.on_policy import OnPolicy


class Guided(OnPolicy):
    """The first samples of a group start with a part of the target, where ``guide`` applies to the prompt.

    >>> method, prompt = Guided(prefix=Fixed(n=1, min=0.5, max=0.5)), Prompt(1, "p", 0, 0, has_target=True)
    >>> [start.ratio for start in method.plan(prompt, 3)]
    [0.5, 0.0, 0.0]
    """

    prefix: AnyPrefix = Fixed(n=1)
    guide: Schedule = ALWAYS
    targets: Literal["own", "all"] = "own"  # of a problem with several, which the samples of a group share out
    _solved: set[int] = PrivateAttr(default_factory=set)  # prompts that an on-policy sample has solved

    def check(self, run: RunValues) -> None:
        super().check(run)
        prefix, all_of = self.prefix, f"all {run.n} samples of a group have a prefix, none is on-policy"
        if prefix.n > run.n:
            raise contradiction("method.prefix.n", prefix.n, "rollout.n", run.n, "a group has only n samples")
        if prefix.samples_of(run.n) < run.n:
            return
        if self.advantage.baseline == "on_policy":
            raise contradiction("method.advantage.baseline", "on_policy", "method.prefix.n", prefix.n, all_of)
        # With a minimum of 0, some groups have no prefix: they can be filtered, but the others have no baseline.
        if self.filter is not None and self.decide == "on_policy" and prefix.min > 0:
            raise contradiction("method.filter.by", "on_policy", "method.prefix.n", prefix.n, all_of)
        if self.guide == UNTIL_SOLVED and prefix.min > 0:
            why = "it waits for an on-policy sample that is right, and a group has none"
            raise contradiction("method.guide", self.guide, "method.prefix.n", prefix.n, why)
        if self.by_group and not self.shown and prefix.min == 1 and self.guide == ALWAYS and run.target_ratio == 1:
            raise InputError(
                f"method.prefix.n={prefix.n} and actor_rollout_ref.rollout.n={run.n}: all samples of a group are its "
                "whole target and have the same reward, so the group teaches nothing: lower method.prefix.n or raise "
                "actor_rollout_ref.rollout.n, so that the policy writes some samples"
            )

    @property
    def by_prompt(self) -> bool:
        return self.guide == UNTIL_SOLVED or super().by_prompt

    @property
    def all_targets(self) -> bool:
        return self.targets == "all"

    @property
    def shown(self) -> bool:
        """Whether the part of the target stands in the prompt, and not in the response."""
        return False

    @property
    def of_answer(self) -> bool:
        """Whether the part is of what follows the thoughts of the target."""
        return False

    def off_policy_samples(self, n: int) -> int:
        return self.prefix.samples_of(n)

    def plan(self, prompt: Prompt, n: int) -> list[Start]:
        solved = prompt.key in self._solved
        if not prompt.has_target or not applies(self.guide, solved=solved, pass_rate=prompt.pass_rate):
            return [Start()] * n
        return self.starts(prompt, n)

    @property
    def draws_more(self) -> bool:
        return self.guide == FAILED

    def draw_more(self, prompt: Prompt, group: Group, n: int) -> dict[int, Start]:
        if not self.draws_more or not prompt.has_target or group.draws > n or any(group.solved.values()):
            return {}
        return {number: start for number, start in enumerate(self.starts(prompt, n)) if start.ratio}

    def starts(self, prompt: Prompt, n: int) -> list[Start]:
        """Return how each of the ``n`` samples of a prompt starts of which some start with its target."""
        draw = {"n": n, "seed": prompt.seed, "prompt_id": prompt.name}
        ratios = [prefix_ratio(self.prefix, prompt.step, sample_id=sample, **draw) for sample in range(n)]
        return [
            Start(ratio, self.shown, self.of_answer, target=sample % prompt.targets)
            for sample, ratio in enumerate(ratios)
        ]

    def note(self, samples: Samples, tools: Tools) -> Metrics:
        if self.guide == UNTIL_SOLVED:
            keys = samples.rows["prompt_key"].tolist()
            self.see(keys, samples.solved.tolist(), samples.on_policy.tolist())
        return super().note(samples, tools)

    def see(self, prompts: Sequence[int], solved: Sequence[bool], on_policy: Sequence[bool]) -> None:
        rows = zip(prompts, solved, on_policy, strict=True)
        self._solved.update(prompt for prompt, right, alone in rows if right and alone)

    def state(self) -> dict[str, Any]:
        return super().state() | {"solved": sorted(self._solved)}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._solved = set(state["solved"])


class Imitating(Guided, Regularized):
    """Off-policy tokens have a supervised loss, where there is one."""

    imitation: ImitationLoss | None = None

    @property
    def by_group(self) -> bool:
        return super().by_group and self.imitation is None

    def keeps(self, *, solved: bool, off_policy: bool) -> bool:
        return self.imitation is not None and off_policy and not solved

    def terms(self) -> list[Term]:
        return super().terms() if self.imitation is None else [*super().terms(), self.imitates(self.imitation)]

    def imitates(self, imitation: ImitationLoss) -> Imitation:
        """Return the term of the supervised loss."""
        return Imitation(weight=imitation.weight)

    def coefficients(self, step: int) -> dict[str, float]:
        coefficients = super().coefficients(step)
        return (
            coefficients
            if self.imitation is None
            else coefficients | {"sft_loss": sft_coefficient(self.imitation, step)}
        )

    def weights(self, samples: Samples, metrics: Metrics) -> dict[str, Tensor]:
        weights = super().weights(samples, metrics)
        if self.imitation is not None:
            weights["imitation"] = (samples.mask & samples.off_policy_mask) * 1.0
        return weights
