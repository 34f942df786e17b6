"""Replace this process by a program of the training interpreter."""

import os
from collections.abc import Sequence
from typing import NoReturn

from core.cli import COMMAND
from core.plugins.user_code import python_path
from core.settings import Section, load
from core.shared_settings import InterpreterSettings


class _Sections(Section):
    interpreter: InterpreterSettings = InterpreterSettings()


def interpreter() -> InterpreterSettings:
    """Return the settings of the interpreter in the current folder."""
    return load(_Sections).interpreter


def start_program(
    name: str, package: str, arguments: Sequence[str], settings: InterpreterSettings | None = None
) -> NoReturn:
    """Become ``python -m package``, which calls itself ``luffy name``."""
    python = (settings or interpreter()).executable()
    os.environ |= {COMMAND: f"luffy {name}", "PYTHONPATH": python_path()}
    program = ["-P", "-m", "core.machine.interruptible", package]  # -P: not what the current folder calls so
    os.execv(python, [str(python), *program, *arguments])
