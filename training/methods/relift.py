"""ReLIFT: supervised steps on what the policy does not solve."""

from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from training.algorithms.on_policy import AnyOnPolicyLoss, Ppo
from training.algorithms.options import Positive
from training.algorithms.samples import Samples
from training.algorithms.term import EntropyBonus, Imitation, Loss
from training.algorithms.unsolved import UnsolvedPrompts
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
    _unsolved: UnsolvedPrompts = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._unsolved = UnsolvedPrompts(self.buffer)

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
        self._unsolved.add(samples.solved[able].tolist(), keys[able].tolist(), samples.on_policy[able].tolist())
        return super().note(samples, tools)

    def after_update(self, tools: Tools) -> Metrics:
        metrics: Metrics = {}
        if prompts := self._unsolved.take():
            coefficients = {"sft_loss": 1.0, "entropy_loss": -self._entropy_coef}
            figures = tools.supervised_update(prompts, SUPERVISED, coefficients, self.clip_grad)
            metrics = {f"relift/{name}": value for name, value in {**figures, "targets": float(len(prompts))}.items()}
        return metrics | {"relift/waiting": float(len(self._unsolved.prompts))}

    def state(self) -> dict[str, Any]:
        return super().state() | {"unsolved": self._unsolved.prompts}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._unsolved.prompts = list(state["unsolved"])
