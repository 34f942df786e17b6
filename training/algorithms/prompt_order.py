"""The order in which a run sees its prompts: `data.order`. No torch."""

from collections.abc import Sequence

from core.files import digest_bytes

SHUFFLE, EASY_FIRST = "shuffle", "easy_first"
ORDERS = (SHUFFLE, EASY_FIRST)


def easy_first(pass_rates: Sequence[float], batch: int, seed: int) -> list[int]:
    """Return the rows by falling pass rate, equal ones by ``seed``, cut to whole batches.

    What fills no batch is drawn by ``seed`` from all rows: otherwise no epoch would ever see the hardest ones.

    >>> easy_first([0.0, 1.0, 0.5, 0.25], batch=2, seed=0)
    [1, 2, 3, 0]
    >>> len(easy_first([0.0, 1.0, 0.5, 0.25], batch=3, seed=0))
    3

    Args:
        pass_rates: For each row, the share of the base model's samples that solve its problem.
    """
    drawn = [digest_bytes(f"{seed}/{row}".encode()) for row in range(len(pass_rates))]
    rows = sorted(range(len(pass_rates)), key=drawn.__getitem__)[: len(pass_rates) // batch * batch]
    return sorted(rows, key=lambda row: -pass_rates[row])
