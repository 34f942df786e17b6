"""Conventions of the project's command lines: numbers, exit statuses and error messages."""

import argparse
import math
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from core.errors import InputError, TaskFailed
from core.machine.processes import die_with_parent

INTERRUPTED = 130  # the status that a shell gives a program that Ctrl-C ended
PARENT = "LUFFY_PARENT"  # variable: the id of the process with which a program ends, where it is not for itself
COMMAND = "LUFFY_COMMAND"  # variable: how the user called the program, where another program passed the call on


def private_files() -> None:
    """Make the files of this process and its children readable only by our user: outputs, logs and tokens."""
    os.umask(0o077)


def exit_status(work: Callable[[], int | None]) -> int:
    """Do ``work`` and return the exit status: its result (None: 0), or `INTERRUPTED` after Ctrl-C.

    A process whose parent is that of the variable `PARENT` gets TERM when its parent ends. Only our user can read what
    ``work`` writes. An error is one line on the error stream; the status is 2 for a mistake
    in the input and 1 for a file or disk that fails.
    """
    private_files()
    if parent := os.environ.pop(PARENT, None):
        die_with_parent(int(parent))
    try:
        return work() or 0
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except TaskFailed as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except (IsADirectoryError, NotADirectoryError, FileExistsError) as error:
        sys.stderr.write(f"error: {error.filename2 or error.filename}: {error.strerror}; give another path\n")
        return 2
    except OSError as error:
        what = f"{error.filename2 or error.filename}: " if error.filename else ""  # the second one is written
        sys.stderr.write(f"error: {what}{error.strerror or error}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others: one line, status 2. Use it within `exit_status`.

    A program's own parser has a ``prog``, ``python -m MODULE [COMMAND]``, and takes the name that `COMMAND` gives
    ``python -m MODULE``.
    """

    def __init__(self, *, prog: str | None = None, **options: Any) -> None:
        if prog and (given := os.environ.pop(COMMAND, None)):
            prog = " ".join([given, *prog.split()[3:]])
        super().__init__(prog=prog, **options)

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help")


def number(
    kind: type[int] | type[float], least: float = -math.inf, most: float = math.inf, *, above: float = -math.inf
) -> Callable[[str], float]:
    """The ``type`` of an option that takes a finite number from ``least`` to ``most``, and greater than ``above``."""
    limits = [f"above {above:g}"] if above > -math.inf else [f"from {least:g}"] if least > -math.inf else []
    limits += [f"up to {most:g}"] if most < math.inf else []
    expected = " ".join([f"a {'whole ' if kind is int else ''}number", *limits])

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if math.isfinite(value) and least <= value <= most and value > above:
            return value
        raise argparse.ArgumentTypeError(f"got {text[:80]!r}, expected {expected}")

    return parse


COUNT = number(int, 1)
PORT = number(int, 1, 65535)
SECONDS = number(float, above=0)
SEED = number(int, 0, 2**63 - 1)
