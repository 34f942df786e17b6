"""Generate the page of the command line: `luffy`, and the programs behind its commands."""

import os
import subprocess
import sys
from typing import Any

import typer

from core.cli import COMMAND
from core.code_digest import PROJECT
from core.text.patterns import compile_quick_pattern
from evaluation.__main__ import app as evaluation
from pipelines.cli.luffy import app
from pipelines.reference.markdown import block, code, page, prose, table
from training.__main__ import app as training

WIDTH = "110"
OTHERS = compile_quick_pattern(r"Other commands, each with --help: ([^.]+)\.")


def commands_page() -> str:
    """Every command with its options."""
    behind = {
        "targets": _targets(),
        "train": _commands("train", training),
        "evaluate": _commands("evaluate", evaluation),
    }
    sections = [
        f"## luffy {name}\n\n{prose(command.help or '')}\n\n{behind.get(name) or _options(command)}"
        for name, command in _group(app).commands.items()
    ]
    return page(
        "Commands",
        "`make setup` installs the command `luffy`; [Try it](../index.md#try-it) shows how to put it on your path. "
        "Every command has `--help`.",
        *sections,
    )


def _group(application: typer.Typer) -> Any:
    return typer.main.get_command(application)


def _commands(name: str, application: typer.Typer) -> str:
    """The options of an application itself, and its commands with theirs."""
    group = _group(application)
    sections = [
        f"### luffy {name} {sub}\n\n{prose(command.help or '')}\n\n{_options(command)}"
        for sub, command in group.commands.items()
    ]
    return "\n\n".join([part for part in (_options(group), *sections) if part])


def _options(command: Any) -> str:
    def name(option: Any) -> str:
        return code(option.metavar if option.param_type_name == "argument" else ", ".join(option.opts))

    def default(option: Any) -> str:
        return "" if option.default in (None, "", False) else code(option.default)

    rows = [
        (name(option), default(option), prose(option.help.replace("\\[", "[")))
        for option in command.params
        if option.name != "help"
    ]
    return table(("option", "default", "meaning"), rows) if rows else ""


def _targets() -> str:
    """What ``luffy targets --help`` prints, and the help of its other commands."""
    first = _help()
    others = OTHERS.search(" ".join(first.split()))
    more = others[1].replace(",", "").split() if others else []
    sections = [f"### luffy targets {sub}\n\n{block('text', _help(sub))}" for sub in more]
    return "\n\n".join([block("text", first), *sections])


def _help(*subcommand: str) -> str:
    environment = {**os.environ, COMMAND: "luffy targets", "COLUMNS": WIDTH, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "targets", *subcommand, "--help"]
    return subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
