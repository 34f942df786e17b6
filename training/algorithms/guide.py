"""Choose the prompts whose groups get off-policy samples: `method.guide`. No torch."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator

from core.text.patterns import compile_full_match

ALWAYS, UNTIL_SOLVED, FAILED = "always", "until_solved", "failed"
BELOW = compile_full_match(r"pass_rate\s*<\s*(\d+(?:\.\d*)?|\.\d+)")


def parse_schedule(rule: str) -> float | None:
    """Return the bound of ``pass_rate<x``; None for the rules that need no pass rates.

    >>> parse_schedule("pass_rate<0.5"), parse_schedule("always")
    (0.5, None)

    Raises:
        ValueError: ``rule`` is none, or no pass rate is below its bound, or all of them are.
    """
    if rule in (ALWAYS, UNTIL_SOLVED, FAILED):
        return None
    match = BELOW(rule)
    if match is None or not 0 < float(match[1]) <= 1:
        raise ValueError(
            f"got {rule!r:.80}, expected {ALWAYS}, {UNTIL_SOLVED}, {FAILED} or pass_rate<x with x above 0 and at most 1"
        )
    return float(match[1])


def require_schedule(rule: str) -> str:
    """Return ``rule``; ValueError unless `parse_schedule` can read it."""
    parse_schedule(rule)
    return rule


Schedule = Annotated[str, AfterValidator(require_schedule)]


class OffPolicySchedule:
    """Decides for each prompt that is drawn whether its group has off-policy samples; the others have none.

    ``always``: each has them. ``pass_rate<x``: those that the base model solved in less than the share x of its
    samples. ``until_solved``: those of which no on-policy sample was right so far. ``failed``: none before the samples
    of the step are graded; if all of them are wrong, the first ones are replaced (AMPO, arXiv 2510.02227).

    >>> schedule = OffPolicySchedule("until_solved")
    >>> schedule.solve([7, 7, 8, 8], [True, False, True, False], [False, True, False, True])  # by the target alone
    >>> schedule.solve([9, 9], [True, True], [False, True])
    >>> schedule.applies(7), schedule.applies(8), schedule.applies(9)
    (True, True, False)

    Prompts are named by whole numbers. ``solved``, those that an on-policy sample solved, is the state of a run.
    """

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.below = parse_schedule(rule)
        self.solved: set[int] = set()

    @property
    def depends(self) -> bool:
        """Whether the rule depends on the prompt."""
        return self.rule not in (ALWAYS, FAILED)

    def applies(self, prompt: int, pass_rate: float | None = None) -> bool:
        """Return whether the group of ``prompt`` gets off-policy samples."""
        if self.rule == FAILED:
            return False
        if self.below is None:
            return prompt not in self.solved
        if pass_rate is None:
            raise ValueError(f"{self.rule}: a prompt without a pass rate")
        return pass_rate < self.below

    def solve(self, prompts: Sequence[int], solved: Sequence[bool], on_policy: Sequence[bool]) -> None:
        """Remember the prompts that an on-policy sample solved, for ``until_solved``.

        Args:
            prompts: of each sample.
            solved: whether its answer is right.
            on_policy: whether the policy sampled all of it.
        """
        if self.rule == UNTIL_SOLVED:
            rows = zip(prompts, solved, on_policy, strict=True)
            self.solved.update(prompt for prompt, right, sampled in rows if right and sampled)
