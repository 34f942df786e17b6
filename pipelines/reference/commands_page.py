"""Generate the page of the command line: `luffy`, and the applications behind its commands."""

from typing import Any

import typer

from core.commands import add_default
from evaluation.__main__ import app as evaluation
from pipelines.cli.luffy import app
from pipelines.cli.train import Train
from pipelines.reference.page_markdown import code, page, prose, table
from targets.__main__ import app as targets
from training.__main__ import app as training


def commands_page() -> str:
    """Generate the page with every command and its options."""
    add_default(training, Train)
    behind = {
        "targets": _commands("targets", targets),
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
    """Return the options of an application itself, then its commands with theirs."""
    group = _group(application)
    sections = [
        f"### luffy {name} {sub}\n\n{prose(command.help or '')}\n\n{_options(command)}"
        for sub, command in group.commands.items()
    ]
    return "\n\n".join([part for part in (_options(group), *sections) if part])


def _options(command: Any) -> str:
    def name(option: Any) -> str:
        return code(option.metavar if option.param_type_name == "argument" else ", ".join(option.opts))

    rows = [(name(option), prose(option.help)) for option in command.params if option.name != "help"]
    return table(("option", "meaning"), rows) if rows else ""
