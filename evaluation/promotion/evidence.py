"""The evidence that one model answers the problems of a suite better than another, however long one has looked at it.

An e-value is the wealth of a gambler who bets that the policy scores higher than its opponent, at odds that are fair or
worse while it does not. Such a wealth exceeds ``1 / level`` with a probability of at most ``level``, at any time at
which one may look (Ville's inequality; Waudby-Smith and Ramdas, arXiv 2010.09686). Every function takes counts of equal
differences with any number of leading dimensions, so that a simulation decides thousands of times at once.

The bet on a set of answers is the same for all of them. So what is tested is the mean over the problems, whatever the
differences of single problems are: for differences ``d_i`` of mean 0 or less, ``prod(1 + bet * d_i)`` is at most 1 in
expectation, by the inequality of means, and by Maclaurin's for answers to problems drawn without replacement.
"""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import NDArray

BETS = (1 / 24, 1 / 8, 0.4, 0.9)  # the gambler divides the first stake among these shares of wealth
OPTIMISM = 1.0  # standard errors by which the rest of the answers may be better before sampling is given up


def log_wealths(values: "NDArray", counts: "NDArray") -> "NDArray":
    """Return the logarithm of the wealth that each of `BETS` has made of 1.

    Args:
        values: shape (..., v); differences, of at least -1.
        counts: shape (..., v); how many answers have each of them.

    Returns:
        Shape (..., bets).
    """
    import numpy as np

    return (counts[..., None] * np.log1p(values[..., None] * BETS)).sum(axis=-2)


def log_evidence(wealths: "NDArray") -> "NDArray":
    """Return the logarithm of the e-value: the mean wealth of all bets.

    >>> import numpy as np
    >>> float(log_evidence(log_wealths(np.array([-1.0, 0.0, 1.0]), np.array([4, 90, 26]))).round(2))
    6.48
    """
    import numpy as np

    most = wealths.max(axis=-1)
    return most + np.log(np.exp(wealths - most[..., None]).mean(axis=-1))


def answers_needed(wealths: "NDArray", answers: "NDArray", level: "NDArray") -> "NDArray":
    """Return how many answers the e-value needs in all to reach ``1 / level``, if the rest are like those so far.

    Infinite where no bet has won anything yet.
    """
    import numpy as np

    best = (wealths / np.asarray(answers)[..., None]).max(axis=-1)
    with np.errstate(divide="ignore"):
        return np.where(best > 0, (math.log(len(BETS)) - np.log(level)) / np.maximum(best, 0), np.inf)


def can_be_shown(
    wealths: "NDArray", answers: "NDArray", squares: "NDArray", level: "NDArray", budget: int
) -> "NDArray":
    """Return whether ``budget`` answers reach an e-value of ``1 / level`` if the rest are `OPTIMISM` errors better.

    Giving up here costs some power and no validity: the rule may end at any time.

    Args:
        squares: the mean square of the differences so far.
    """
    import numpy as np

    answers, rest = np.asarray(answers), budget - np.asarray(answers)
    luck = OPTIMISM * np.sqrt(np.asarray(squares) / answers)
    most = wealths * (budget / answers)[..., None] + np.multiply.outer(rest * luck, BETS)
    return log_evidence(most) >= -np.log(level)
