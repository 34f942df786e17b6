"""Share the samples of a step out over its updates, after verl has shared them out over the ranks."""

from collections.abc import Sequence
from typing import Any

import torch
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions


def order_of_updates(lengths: Sequence[int], ranks: int, rows: int) -> list[int]:
    """An order in which every rank has about as much to compute as the others in each update, not only in all of them.

    A rank takes its samples from the front, ``rows`` per update, and the others wait for the slowest.

    >>> order_of_updates([9, 8, 2, 1, 9, 1, 8, 2], ranks=2, rows=2)  # updates of 17 and 3 tokens, and of 10 twice
    [0, 3, 1, 2, 4, 5, 6, 7]

    Args:
        lengths: tokens of each sample; those of a rank are neighbours.
        ranks: that share the samples evenly.
        rows: samples of an update on each rank.
    """
    share = len(lengths) // ranks
    updates, work = share // rows, calculate_workload(torch.tensor(lengths))
    order: list[int] = []
    for first in range(0, len(lengths), share):
        of_rank = work[first : first + share].tolist()
        partitions: Any = get_seqlen_balanced_partitions(of_rank, k_partitions=updates, equal_size=True)
        for update in partitions:
            order += [first + row for row in update]
    return order
