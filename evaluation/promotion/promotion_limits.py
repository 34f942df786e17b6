"""What a new champion may be worse in, and the chance of a false promotion that a line of champions may spend."""

from dataclasses import dataclass

from pydantic import Field

from core.settings import Section

PACE = 50  # the number of decisions without a promotion that spend half of the error rate


class PromotionLimits(Section):
    """The section promotion: when a new policy becomes the champion."""

    max_ood_drop: float = Field(
        default=0.05, ge=0, le=1, description="Maximum loss on an out-of-domain benchmark, as a share of the samples."
    )
    max_truncated: float = Field(
        default=0.25, ge=0, le=1, description="Maximum share of samples cut at the token limit."
    )
    error_rate: float = Field(
        default=0.05, gt=0, lt=1, description="The chance of any false promotion, over all decisions together."
    )


@dataclass(frozen=True)
class ErrorBudget:
    """The error rate that ``tests`` comparisons have left.

    A comparison spends its level: it promotes a policy that is not better with at most that probability, whatever
    happened before. A promotion gives its level back: if it is true it was no error, and if it is false the one error
    that the rate is about has happened (online fallback; Tian and Ramdas, arXiv 1910.04900).

    >>> ErrorBudget(left=0.05, tests=0).level
    0.000980392156862745
    """

    left: float
    tests: int

    @property
    def level(self) -> float:
        """The level of the next comparison. All levels together are the error rate, however many there will be."""
        return self.left / (PACE + self.tests + 1)

    def after(self, level: float, *, promoted: bool) -> "ErrorBudget":
        """Return the budget after a comparison at ``level``."""
        return ErrorBudget(self.left if promoted else self.left - level, self.tests + 1)
