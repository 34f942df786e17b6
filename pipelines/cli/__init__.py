"""The commands behind `luffy` and make."""

from core.machine.interruptible import leave_on_interrupt


def run() -> None:
    """The console script ``luffy``: import the application and run it."""
    leave_on_interrupt()
    from pipelines.cli.luffy import run_program

    run_program()
