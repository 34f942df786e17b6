"""Ctrl-C at moments when Python cannot raise it: while it imports a program, and where it drops exceptions.

``python -m core.machine.interruptible PACKAGE ARGUMENT ...`` runs the program of a package.
"""

import os
import runpy
import signal
import sys
import threading
from types import FrameType

INTERRUPTED = 130  # the status that a shell gives a program that Ctrl-C ended
REPEAT_SECONDS = 0.1  # until a lost interrupt comes again


def leave_on_interrupt() -> None:
    """Let Ctrl-C end this process in one line, until `raise_interrupts`: for a program that Python still imports.

    Nothing is under way then, and an exception in the middle of an import may become any other one.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a job in the background ignores it
        signal.signal(signal.SIGINT, _leave)


def raise_interrupts() -> None:
    """Make sure that Ctrl-C interrupts this process, and the processes that it forks, at any moment.

    Python drops an exception that is raised where nothing can catch it: while it collects garbage or ends an import. If
    that is the interrupt of a signal, the program gets SIGINT again.
    """
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    report = sys.unraisablehook

    def hook(lost: "sys.UnraisableHookArgs", /) -> None:
        if issubclass(lost.exc_type, (Exception, GeneratorExit, SystemExit)):
            report(lost)
            return
        again = threading.Timer(REPEAT_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    sys.unraisablehook = hook


def run_package(package: str) -> None:
    """Run the program of ``package`` with the arguments of this process, as ``python -m`` does."""
    leave_on_interrupt()
    runpy.run_module(package, run_name="__main__", alter_sys=True)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    os.write(sys.stderr.fileno(), b"interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    from core.machine import interruptible  # the module that the program imports, too, and not this copy of it

    interruptible.run_package(sys.argv.pop(1))
