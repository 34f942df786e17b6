"""ReLIFT: supervised steps on what the policy does not solve."""

from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from training.algorithms.groups import outcomes_by_group
from training.algorithms.on_policy import AnyOnPolicyLoss, Ppo
from training.algorithms.options import Positive
from training.algorithms.samples import Samples
from training.algorithms.term import EntropyBonus, Imitation, Loss
from training.later import torch
from training.methods.given import Metrics, Tools
from training.methods.on_policy import OnPolicy

SUPERVISED = "supervised"  # the loss of an update on targets alone


class Relift(OnPolicy):
    """ReLIFT (arXiv 2506.07527): GRPO, and now and then a supervised step on the targets of unsolved prompts."""

    second_optimizer = True

    on_policy: AnyOnPolicyLoss = Ppo(clip=None)
    buffer: Annotated[int, Field(ge=1)] = 128  # prompts that one supervised step waits for and learns from
    # Of the supervised step: 1.0 is published for an eighth of the mean gradient, of 8 ranks that accumulate over 32
    # micro-batches and have 4.
    clip_grad: Positive = 8.0
    # Prompts of which no on-policy sample was right, the newest first. One that is drawn again is in it twice, as in
    # the published implementation.
    _unsolved: list[int] = PrivateAttr(default_factory=list)

    @property
    def by_prompt(self) -> bool:
        return True

    @property
    def by_group(self) -> bool:
        return False

    def keeps(self, *, solved: bool, off_policy: bool) -> bool:
        return not solved

    def losses(self) -> dict[str, Loss]:
        return super().losses() | {SUPERVISED: Loss((Imitation(), EntropyBonus()), "token-mean")}

    def note(self, samples: Samples, tools: Tools) -> Metrics:
        keys = samples.rows["prompt_key"]
        able = samples.sampled & torch.tensor(list(map(tools.has_target, keys.tolist())))
        rows = samples.solved[able].tolist(), keys[able].tolist(), samples.on_policy[able].tolist()
        _, outcomes = outcomes_by_group(*rows)
        self._unsolved[:0] = [prompt for prompt, own in outcomes.items() if own and not any(own)]
        return super().note(samples, tools)

    def after_update(self, tools: Tools) -> Metrics:
        metrics: Metrics = {}
        if len(self._unsolved) >= self.buffer:
            prompts = self._unsolved[: self.buffer]
            self._unsolved = self._unsolved[self.buffer :]
            coefficients = {"sft_loss": 1.0, "entropy_loss": -self._entropy_coef}
            figures = tools.supervised_update(prompts, SUPERVISED, coefficients, self.clip_grad)
            metrics = {f"relift/{name}": value for name, value in {**figures, "targets": float(len(prompts))}.items()}
        return metrics | {"relift/waiting": float(len(self._unsolved))}

    def state(self) -> dict[str, Any]:
        return super().state() | {"unsolved": self._unsolved}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._unsolved = list(state["unsolved"])
