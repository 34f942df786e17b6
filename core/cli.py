"""How the command lines of the project end: exit status and error message."""

import os
import sys
from collections.abc import Callable

from core.errors import InputError

INTERRUPTED = 130  # the status that a shell gives a program that Ctrl-C ended


def private_files() -> None:
    """Let only our user read what this process and its children write: outputs, logs and tokens."""
    os.umask(0o077)


def exit_status(work: Callable[[], int | None]) -> int:
    """Do ``work`` and return the exit status: its result (None: 0), or `INTERRUPTED` after Ctrl-C.

    Only our user can read what ``work`` writes. An error is one line on the error stream; the status is 2 for a mistake
    in the input and 1 for a file or disk that fails.
    """
    private_files()
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
