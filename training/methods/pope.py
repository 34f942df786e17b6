"""POPE: some samples see the beginning of the target in their prompt."""

from typing import Literal

from training.algorithms.guide import Schedule
from training.algorithms.options import contradiction
from training.algorithms.prefix import AnyPrefix, Random
from training.methods.given import RunValues
from training.methods.guided import Guided


class Pope(Guided):
    """POPE (arXiv 2601.18779): of a hard prompt, some samples continue a beginning, and are a group of their own.

    QuestA (arXiv 2507.13266): all samples see the beginning of the ``answer`` that follows the thoughts of the target.
    """

    prefix: AnyPrefix = Random(n=4, min=0.0, max=0.5, share=True)
    guide: Schedule = "pass_rate<0.125"
    place: Literal["prompt", "response"] = "prompt"  # what the beginning of the target is part of
    of: Literal["target", "answer"] = "target"  # what it is the beginning of; answer: what follows the thoughts

    @property
    def shown(self) -> bool:
        return self.place == "prompt"

    @property
    def of_answer(self) -> bool:
        return self.of == "answer"

    def check(self, run: RunValues) -> None:
        super().check(run)
        if not self.shown:
            if self.of_answer:
                why = "a response starts with its thoughts"
                raise contradiction("method.of", "answer", "method.place", self.place, why)
            return
        if 1 in (self.prefix.n, run.n - self.prefix.n):
            why = "samples with a prefix and those without are two groups, and a group of one teaches nothing"
            raise contradiction("method.prefix.n", self.prefix.n, "rollout.n", run.n, why)
        if self.advantage.baseline == "on_policy":
            why = "samples with a prefix form a separate group, and none of them is on-policy"
            raise contradiction("method.place", "prompt", "method.advantage.baseline", "on_policy", why)

    def fields(self) -> list[str]:
        return [*super().fields(), *(["guided"] if self.shown else [])]
