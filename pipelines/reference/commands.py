"""The page of the command line: `luffy`, and what stands behind its commands."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import typer

from core.cli import COMMAND
from core.code_digest import PROJECT
from core.text.patterns import compile_quick_pattern
from pipelines.cli.luffy import app
from pipelines.reference.markdown import block, code, page, prose, table

WIDTH = "110"
OTHERS = compile_quick_pattern(r"Other commands, each with --help: ([^.]+)\.")
SUBCOMMAND = compile_quick_pattern(r"(?m)^    ([a-z][a-z-]*)(?: |$)")
BEHIND = {"targets": "targets", "train": "training", "evaluate": "evaluation"}


def commands_page() -> str:
    """Every command with its options."""
    commands: dict[str, Any] = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        helps = dict(zip(BEHIND, pool.map(_helps, BEHIND), strict=True))
    sections = [
        f"## luffy {name}\n\n{prose(command.help or '')}\n\n" + ("\n\n".join(helps.get(name) or [_options(command)]))
        for name, command in commands.items()
    ]
    return page(
        "Commands",
        "`make setup` installs the command `luffy`; [Try it](../index.md#try-it) shows how to put it on your path. "
        "Every command has `--help`.",
        *sections,
    )


def _options(command: Any) -> str:
    def name(option: Any) -> str:
        return code(option.metavar if option.param_type_name == "argument" else ", ".join(option.opts))

    def default(option: Any) -> str:
        return "" if option.default in (None, "", False) else code(option.default)

    rows = [(name(option), default(option), prose(option.help)) for option in command.params]
    return table(("option", "default", "meaning"), rows) if rows else ""


def _helps(name: str) -> list[str]:
    """What ``luffy NAME --help`` prints, and the help of its subcommands."""
    first = _help(name)
    more = others[1].split() if (others := OTHERS.search(" ".join(first.split()))) else list(_subcommands(first))
    return [
        block("text", first),
        *(f"### luffy {name} {sub.strip(',')}\n\n{block('text', _help(name, sub.strip(',')))}" for sub in more),
    ]


def _subcommands(text: str) -> Iterator[str]:
    yield from (match[1] for match in SUBCOMMAND.finditer(text))


def _help(name: str, *subcommand: str) -> str:
    python = PROJECT / ".venv-train" / "bin" / "python" if name == "train" else Path(sys.executable)
    environment = {**os.environ, COMMAND: f"luffy {name}", "COLUMNS": WIDTH, "PYTHONPATH": str(PROJECT)}
    command = [str(python), "-m", BEHIND[name], *subcommand, "--help"]
    return subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
