"""What the small command lines of this package share."""

import sys
from collections.abc import Callable

from evaluation.errors import InputError


def exit_status(work: Callable[[], None]) -> int:
    """Do ``work``; 0, or 2 for a mistake in the input, which is then told in one line on the error stream."""
    try:
        work()
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0
