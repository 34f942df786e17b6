"""Conventions of the project's command lines: help, exit statuses and error messages."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from core import PROJECT
from core.errors import InputError, TaskFailed
from core.machine.interruptible import INTERRUPTED, raise_interrupts
from core.machine.jsonl_tail import FAILED, send_event

if TYPE_CHECKING:
    import typer

COMMAND = "LUFFY_COMMAND"  # variable: how the user called the program, where another program passed the call on
# Controls but newline and tab; halves of a surrogate pair, which cannot be written; line separators; and what turns the
# direction of the text around it.
CODES = (
    *(code for code in range(0x20) if chr(code) not in "\n\t"),
    *range(0x7F, 0xA0),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
)
ESCAPES = {code: ascii(chr(code))[1:-1] for code in CODES}


def printable(text: str) -> str:
    """Return ``text`` with its control characters written as escapes; newlines and tabs stay.

    >>> printable("\\x1b[2J 2\\u00d7\\u202e3")
    '\\\\x1b[2J 2×\\\\u202e3'
    """
    return text.translate(ESCAPES)


def say(text: object) -> None:
    """Print a line of results, which may quote data, so that nothing in it is a command to the terminal."""
    sys.stdout.write(f"{printable(str(text))}\n")


def private_files() -> None:
    """Make the files of this process and its children readable only by our user: outputs, logs and tokens."""
    os.umask(0o077)


def exit_status(work: Callable[[], int | None]) -> int:
    """Do ``work`` and return the exit status: its result (None: 0), or `INTERRUPTED` after Ctrl-C.

    Only our user can read what ``work`` writes. An error is one line on the error stream, and an event for what
    follows this process; the status is 2 for a mistake in the input and 1 for a file or disk that fails.
    """
    private_files()
    _forget_current_folder()
    raise_interrupts()
    try:
        return work() or 0
    except InputError as error:
        return _failed(str(error), 2)
    except TaskFailed as error:
        return _failed(str(error), 1)
    except OSError as error:
        what = f"{error.filename2 or error.filename}: " if error.filename else ""  # the second one is written
        wrong_path = isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError)
        advice = "; give another path" if wrong_path else ""
        return _failed(f"{what}{error.strerror or error}{advice}", 2 if wrong_path else 1)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        send_event({"event": FAILED, "message": f"{type(error).__name__}: {error}"})
        raise


def _failed(message: str, status: int) -> int:
    """Tell an error; its exit status."""
    send_event({"event": FAILED, "message": message})
    sys.stderr.write(printable(f"error: {message}\n"))
    return status


def _forget_current_folder() -> None:
    """Drop the current folder, which ``python -m`` puts first, from Python's path: no process that we start has it."""
    with suppress(OSError):  # the folder is gone
        if sys.path[0] == os.getcwd() != str(PROJECT):
            del sys.path[0]


def new_app(help_text: str, *, add_completion: bool = False, epilog: str | None = None) -> "typer.Typer":
    """Return a typer application with the conventions of this project."""
    import typer

    return typer.Typer(
        help=help_text,
        epilog=epilog,
        add_completion=add_completion,
        rich_markup_mode=None,  # its tables leave half of a line for the help of an option
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def run_app(app: "typer.Typer", arguments: Sequence[str], program: str) -> int:
    """Run the command that ``arguments`` name; its exit status.

    Raises:
        InputError: a mistake in the command line; the message names the command with the right help.
    """
    import typer

    name = os.environ.pop(COMMAND, program)
    try:
        return app(list(arguments), prog_name=name, standalone_mode=False) or 0
    except typer.TyperException as error:
        text = " ".join(error.format_message().split()).rstrip(".")
        context = getattr(error, "ctx", None)
        raise InputError(f"{text}; see {context.command_path if context else name} --help") from None


def run_command(command: Callable[..., None], arguments: Sequence[str] | None, program: str) -> int:
    """Run a program that is one typer command, by default with the arguments of this process; its exit status."""
    app = new_app("")
    app.command()(command)
    return exit_status(lambda: run_app(app, sys.argv[1:] if arguments is None else arguments, program))


def examples(*lines: str) -> str:
    """Return the end of a help text: commands that work as they stand."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in lines)]) if lines else ""


def refuse_options_before(context: "typer.Context") -> None:
    """Raise InputError if options of a program stand before its command, which would not read them."""
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if (source := context.get_parameter_source(str(parameter.name))) and source.name == "COMMANDLINE"
    ]
    if given:
        command = f"{context.command_path} {context.invoked_subcommand}"
        raise InputError(f"{', '.join(given)}: leave out what stands before the command; see {command} --help")
