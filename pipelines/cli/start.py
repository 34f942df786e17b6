"""The console script ``luffy``: Ctrl-C ends it in one line while Python still imports what it needs.

Nothing is under way then, and an exception in the middle of an import may become any other one.
"""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130  # as in `core.cli`, which imports too much


def run() -> None:
    """Import the application and run it; its own handling of Ctrl-C begins there."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a background job is not
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
    from pipelines.cli.luffy import run_program

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_program()


def _leave(_signal: int, _frame: FrameType | None) -> None:
    os.write(sys.stderr.fileno(), b"interrupted\n")
    os._exit(INTERRUPTED)
