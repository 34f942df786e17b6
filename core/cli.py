"""What the project's command lines share: how they end."""

import sys
from collections.abc import Callable

from core.errors import InputError

INTERRUPTED = 130  # what a shell gives for a program that Ctrl-C ended


def exit_status(work: Callable[[], int | None]) -> int:
    """Do ``work`` and return its own status (None: 0), or after Ctrl-C `INTERRUPTED`.

    What went wrong is told in one line on the error stream: 2 for a mistake in the input, 1 for a file or a disk that
    fails.
    """
    try:
        return work() or 0
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"error: {what}{error.strerror or error}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
