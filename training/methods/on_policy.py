"""GRPO on the policy's own samples, which a teacher can score, and the choice of their prompts."""

from typing import Any

from pydantic import PrivateAttr

from training.algorithms.derived_seeds import stable_hash
from training.algorithms.divergence import Divergence
from training.algorithms.options import contradiction
from training.algorithms.prompt_choice import Belief, Thompson
from training.algorithms.samples import Samples
from training.algorithms.teacher import Teacher, extrapolated, teacher_advantage
from training.algorithms.tensors import fit_width
from training.algorithms.term import Term
from training.later import Tensor, torch
from training.methods.given import Metrics, RunValues, Tools
from training.methods.rollouts import Rollouts


class OnPolicy(Rollouts):
    """GRPO (arXiv 2402.03300): the advantage of a sample is its distance from the mean of its group."""

    teacher: Teacher | None = None
    divergence: Divergence | None = None  # from the teacher, in the place of its score of the sampled token
    prompts: Thompson | None = None  # which prompts the next batch has
    _beliefs: dict[int, Belief] = PrivateAttr(default_factory=dict)  # of the prompts that were seen

    def check(self, run: RunValues) -> None:
        super().check(run)
        if self.prompts is not None and run.rollouts != "sync":
            why = "a batch depends on the outcomes of the previous batch"
            raise contradiction("method.prompts", "set", "rollouts.type", run.rollouts, why)
        if self.divergence is not None:
            self._check_divergence(run)
        if self.teacher is None:
            return
        if self.draws_more:
            raise contradiction(
                "method.teacher", "set", "method.guide", "failed", "it scores samples before the others"
            )
        if self.teacher.scale != 1 and self.reference is None:
            why = "the scale belongs to a distance from the reference policy: method.reference={coef: 0.0}"
            raise contradiction("method.teacher.scale", self.teacher.scale, "method.reference", None, why)
        alone = {"use_std": self.advantage.use_std, "length_penalty": self.length_penalty, "reward_kl": self.reward_kl}
        if not self.has_outcomes and (name := next((name for name, value in alone.items() if value), None)):
            why = "the teacher's scores alone are the advantage"
            raise contradiction(f"method.{name}", alone[name], "method.teacher.task_rewards", False, why)
        self.teacher.check(run.rollouts, run.temperature)
        if self.filter is not None and not self.by_group:
            why = "the teacher has a signal for groups of one outcome, too"
            raise contradiction("method.teacher", "set", "method.filter", "set", why)

    def _check_divergence(self, run: RunValues) -> None:
        """Raise InputError where there is no distance, or what would change a score has none to change."""
        if self.teacher is None:
            raise contradiction("method.divergence", "set", "method.teacher", None, "it is the distance from a teacher")
        for name, unread in {"max_advantage": None, "scale": 1.0}.items():
            if (value := getattr(self.teacher, name)) != unread:
                why = "the divergence takes the place of the score that it changes"
                raise contradiction(f"method.teacher.{name}", value, "method.divergence", "set", why)
        if run.hides_logits:
            why = "no logits reach the loss with it"
            raise contradiction("method.divergence", "set", run.hides_logits, True, why)

    @property
    def by_group(self) -> bool:
        return self.teacher is None

    @property
    def has_outcomes(self) -> bool:
        """Whether the outcome of a sample is part of an advantage."""
        return self.teacher is None or self.teacher.task_rewards

    @property
    def by_prompt(self) -> bool:
        return self.prompts is not None

    @property
    def chooses(self) -> bool:
        return self.prompts is not None

    def choose(self, tools: Tools, prompts: int) -> list[int]:
        if self.prompts is None:
            return []
        return self.prompts.draw(
            tools.prompts(), self._beliefs, prompts, stable_hash(tools.seed, tools.global_steps, "prompts")
        )

    def note(self, samples: Samples, tools: Tools) -> Metrics:
        for rows in samples.groups() if self.prompts is not None else ():
            own = [bool(samples.solved[row]) for row in rows if samples.on_policy[row]]
            prompt = int(samples.rows["prompt_key"][rows[0]])
            assert self.prompts is not None
            self._beliefs[prompt] = self.prompts.after(self._beliefs.get(prompt, (1.0, 1.0)), sum(own), len(own))
        return super().note(samples, tools)

    def state(self) -> dict[str, Any]:
        return super().state() | {"beliefs": [[prompt, *belief] for prompt, belief in sorted(self._beliefs.items())]}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._beliefs = {prompt: (a, b) for prompt, a, b in state["beliefs"]}

    def fields(self) -> list[str]:
        return [] if self.teacher is None else [self._scores]

    @property
    def _scores(self) -> str:
        """The field of what the teacher says of a token, which is NaN where it had nothing to see."""
        return "teacher_log_probs" if self.divergence is None else "teacher_mass"

    def terms(self) -> list[Term]:
        return super().terms() if self.divergence is None else [*super().terms(), self.divergence]

    def coefficients(self, step: int) -> dict[str, float]:
        coefficients = super().coefficients(step)
        if self.divergence is not None and self.teacher is not None:
            coefficients[self.divergence.name] = self.teacher.coef
        return coefficients

    def advantages(self, samples: Samples, scores: Tensor, step: int, metrics: Metrics) -> Tensor:
        advantages = super().advantages(samples, scores, step, metrics)
        if self.teacher is None:
            return advantages
        mask = samples.mask
        old = samples.rows["old_log_probs"]
        teacher = fit_width(samples.rows[self._scores], mask.shape[1])
        scored = mask & ~samples.off_policy_mask
        if not self.teacher.task_rewards:
            advantages = torch.where(scored, 0.0, advantages)
        scored &= ~teacher.isnan()  # of a sample for which the teacher had nothing to see
        if self.divergence is not None:
            # The divergence is a term of the loss, and no advantage.
            # Its teacher has scored other tokens than the sampled one.
            if scored.any():
                metrics["distillation/mass"] = float(teacher[scored].mean())
            return advantages
        if self.teacher.scale != 1:
            reference = fit_width(samples.rows["ref_log_prob"], mask.shape[1])
            teacher = torch.where(scored, extrapolated(teacher, reference, self.teacher.scale), 0.0)
        if scored.any():
            metrics["distillation/kl"] = float((old - teacher)[scored].mean())
        return self.taught(advantages, old, teacher, scored, step)

    def weights(self, samples: Samples, metrics: Metrics) -> dict[str, Tensor]:
        weights = super().weights(samples, metrics)
        if self.teacher is None or self.teacher.task_rewards or "policy" not in weights:
            return weights
        teacher = fit_width(samples.rows[self._scores], samples.mask.shape[1])
        return weights | {"policy": weights["policy"] * ~teacher.isnan()}

    def taught(self, advantages: Tensor, log_prob: Tensor, teacher: Tensor, scored: Tensor, step: int) -> Tensor:
        """Return the advantages with what a teacher says of the ``scored`` tokens; arguments as `teacher_advantage`."""
        assert self.teacher is not None
        return advantages + teacher_advantage(log_prob, teacher, scored, self.teacher)
