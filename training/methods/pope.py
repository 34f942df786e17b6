"""POPE: some samples see the beginning of the target in their prompt."""

from typing import Literal

from training.algorithms.guide import Schedule
from training.algorithms.options import contradiction
from training.algorithms.prefix import AnyPrefix, Random
from training.methods.given import RunValues
from training.methods.guided import Guided


class Pope(Guided):
    """POPE (arXiv 2601.18779): of a hard prompt, some samples continue a beginning, and are a group of their own."""

    prefix: AnyPrefix = Random(n=4, min=0.0, max=0.5, share=True)
    guide: Schedule = "pass_rate<0.125"
    place: Literal["prompt", "response"] = "prompt"  # what the beginning of the target is part of

    @property
    def shown(self) -> bool:
        return self.place == "prompt"

    def check(self, run: RunValues) -> None:
        super().check(run)
        if not self.shown:
            return
        if 1 in (self.prefix.n, run.n - self.prefix.n):
            why = "samples with a prefix and those without are two groups, and a group of one teaches nothing"
            raise contradiction("method.prefix.n", self.prefix.n, "rollout.n", run.n, why)
        if self.advantage.baseline == "on_policy":
            why = "samples with a prefix are a group of their own, and none of them is on-policy"
            raise contradiction("method.place", "prompt", "method.advantage.baseline", "on_policy", why)

    def fields(self) -> list[str]:
        return [*super().fields(), *(["guided"] if self.shown else [])]
