"""Choose the prompts that get off-policy samples in their groups: `method.guide`. No torch."""

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


def applies(rule: str, *, solved: bool = False, pass_rate: float | None = None) -> bool:
    """Return whether the group of a prompt has off-policy samples before any of it is graded.

    ``always``: each has them. ``pass_rate<x``: those that the base model solved in less than the share x of its
    samples. ``until_solved``: prompts without a right on-policy sample so far. ``failed``: none before the samples
    of the step are graded; if all of them are wrong, the first ones are replaced (AMPO, arXiv 2510.02227).

    >>> applies("until_solved"), applies("until_solved", solved=True), applies("pass_rate<0.5", pass_rate=0.25)
    (True, False, True)

    Args:
        solved: whether an on-policy sample of the prompt was right.
    """
    if (below := parse_schedule(rule)) is None:
        return rule == ALWAYS or (rule == UNTIL_SOLVED and not solved)
    if pass_rate is None:
        raise ValueError(f"{rule}: a prompt without a pass rate")
    return pass_rate < below
