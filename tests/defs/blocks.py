"""The command blocks of the README and the pages of docs/, and how each is tried.

A block of ``sh`` or ``console`` is executed by the quick tests, unless a comment before it, which readers do not see,
says otherwise and why:

- ``<!-- nightly: WHY -->``: it takes minutes, so that only the slow tests execute it
- ``<!-- checked: WHY -->``: its programs, targets, profiles and options must exist, but nothing is executed
- ``<!-- not executed: WHY -->``
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from pathlib import Path

import typer

from pipelines.cli.luffy import app as luffy_app
from research.__main__ import app as research_app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "deploy/README.md")
# What makes the files of another page comes first: training.md prepares the targets of asynchronous.md.
FIRST = ("docs/tutorial.md", "docs/training.md")
LANGUAGES = {"sh", "console", "text", "yaml", "python"}
COMMANDS = {"sh", "console"}
EXECUTED, NIGHTLY, CHECKED, NOT_EXECUTED = "executed", "nightly", "checked", "not executed"
FENCE = re.compile(r"^( *)```(\S*) *\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"<!-- (nightly|checked|not executed): (\S.*) -->\s*\Z")
VARIABLE = re.compile(r"[A-Za-z_]\w*=")
PACKAGES = {"training": "train", "evaluation": "evaluate", "targets": "targets", "research": "research"}  # of luffy
STAMPS = "stamps: ; @echo $(ORCHESTRATION_STAMP) $(TRAINING_STAMP)"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    how: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def lines(self) -> Iterator[list[str]]:
        """The words of each command; a comment or an empty line is none."""
        for line in self.text.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def pages() -> list[str]:
    """The pages with command blocks, in the order in which they are tried."""
    docs = sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "docs").rglob("*.md"))
    return [*FIRST, *PAGES, *(page for page in docs if page not in FIRST)]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of ``page``."""
    return list(parse(page, (ROOT / page).read_text(encoding="utf-8")))


def parse(page: str, text: str) -> Iterator[Block]:
    """The fenced blocks of ``text``; ValueError for one whose language does not say whether it is a command."""
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        language = match[2]
        if language not in LANGUAGES:
            raise ValueError(f"{page}:{line}: a block of {language!r}, expected one of {', '.join(sorted(LANGUAGES))}")
        marker = MARKER.search(text[: match.start()])
        if marker and language not in COMMANDS:
            raise ValueError(f"{page}:{line}: a block of {language} is not executed, so it needs no marker")
        how = marker[1] if marker else EXECUTED if language in COMMANDS else NOT_EXECUTED
        yield Block(page, line, language, match[3], how)


class Sandbox:
    """A copy of the project with the real environments, in which a user's shell runs one block after the other."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        ignored = shutil.ignore_patterns(".venv*", "var", ".git", "__pycache__", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, self.project, ignore=ignored)
        for name in (".venv", ".venv-train"):
            (self.project / name).mkdir()
            for child in (ROOT / name).iterdir():
                (self.project / name / child.name).symlink_to(child)
        self.home = folder / "home"
        self.home.mkdir()
        self.state = folder / "variables"
        kept = {key: os.environ[key] for key in ("LANG", "TMPDIR") if key in os.environ}
        kept["PYTHONPATH"] = str(self.project)  # before the checkout that the environments link to
        kept["PATH"] = f"{self.project / '.venv/bin'}:{os.environ['PATH']}"  # as the README says
        self.environment = {**kept, "HOME": str(self.home), "SHELL": "/bin/bash", "COLUMNS": "120", "TERM": "dumb"}
        for stamp in self._make("--eval", STAMPS, "stamps").stdout.split():
            (self.project / stamp).touch()

    def _make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "-s", *arguments]
        return subprocess.run(
            command, cwd=self.project, env=self.environment, capture_output=True, text=True, check=False
        )

    def execute(self, block: Block) -> None:
        """Run ``block`` as a user would; AssertionError if it fails or does not print what a console shows."""
        if block.language == "console":
            for command, expected in _sessions(block.text):
                self._expect(block, command, expected)
        elif (done := self._bash(f"set -euo pipefail\n{block.text}")).returncode:
            raise AssertionError(f"{block}: exit status {done.returncode}\n{done.stdout[-3000:]}")

    def _expect(self, block: Block, command: str, expected: list[str]) -> None:
        shown = [line.rstrip() for line in self._bash(command).stdout.splitlines()]
        if not same(shown, expected):
            text = "\n".join(shown)
            raise AssertionError(f"{block}: $ {command}\nprinted something else than the page shows:\n{text}")

    def _bash(self, text: str) -> subprocess.CompletedProcess[str]:
        """The folder and the variables of a block are those of the next one; stderr is part of the output."""
        before = f'source {shlex.quote(str(self.state))}\ncd "$PWD"\n' if self.state.exists() else ""
        after = f"trap 'status=$?; export -p >{shlex.quote(str(self.state))}; exit $status' EXIT\n"
        return subprocess.run(
            ["bash", "-c", f"{before}{after}exec 2>&1\n{text}"],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=3000,  # of the longest, on a busy machine
        )

    def forget(self) -> None:
        """Begin a new shell, as for another page."""
        self.state.unlink(missing_ok=True)

    def check(self, block: Block) -> None:
        """Look at every command of ``block`` without running it; AssertionError for what does not exist."""
        for words in block.lines():
            while words and VARIABLE.match(words[0]):
                self._check_variable(block, words.pop(0))
            match words:
                case ["export", *assignments]:
                    for assignment in assignments:
                        self._check_variable(block, assignment)
                case ["make", *arguments]:
                    done = self._make("-n", *arguments)
                    assert done.returncode == 0, f"{block}: {done.stderr}"
                    for argument in arguments:
                        self._check_variable(block, argument)
                case ["luffy", *arguments]:
                    _check_options(block, words)
                    for option, value in pairwise(arguments):
                        if option == "--profile" and not value.endswith(".yaml"):
                            self._check_variable(block, f"LUFFY_PROFILE={value}")
                        if option == "--set" and arguments[:2] != ["train", "compose"]:
                            key = value.partition("=")[0].replace(".", "__").upper()
                            self._check_variable(block, f"LUFFY__{key}=")
                case [python, "-m", module, *arguments] if Path(python).name == "python":
                    _check_options(block, ["luffy", PACKAGES[module], *arguments])
                case _:
                    raise AssertionError(f"{block}: {shlex.join(words)} cannot be checked: mark it 'not executed'")

    def _check_variable(self, block: Block, assignment: str) -> None:
        from core.plugins.config_files import PROFILES, config_names
        from core.settings import PREFIX, PROFILE
        from pipelines.reference.settings_pages import leaves
        from pipelines.settings import Settings

        name, _, value = assignment.partition("=")
        if name == PROFILE:
            assert value in config_names(PROFILES), f"{block}: there is no profile {value}"
        if name.startswith(PREFIX):
            key = name.removeprefix(PREFIX).lower().replace("__", ".")
            keys = dict(leaves(Settings))
            known = key in keys or any(key.startswith(f"{name}.") for name in ("training.config", "catalog.owners"))
            assert known, f"{block}: there is no setting {key}"


def command_lines() -> Iterator[tuple[str, typer.Context]]:
    """Every command, those of the packages too, with the context of its help."""
    research = typer.Context(typer.main.get_command(research_app), info_name="luffy research")
    pending = [
        (typer.Context(typer.main.get_command(luffy_app), info_name="luffy"), "luffy"),
        (research, "luffy research"),
    ]
    while pending:
        context, line = pending.pop()
        yield line, context
        for name, command in getattr(context.command, "commands", {}).items():
            inner = command.make_context(name, [], parent=context, resilient_parsing=True)
            pending.append((inner, f"{line} {name}"))


@cache
def options() -> dict[str, set[str]]:
    """The options of each command."""
    found: dict[str, set[str]] = {}
    for line, context in command_lines():
        params = context.command.params
        found.setdefault(line, {"--help"}).update(name for one in params for name in (*one.opts, *one.secondary_opts))
    return found


def _check_options(block: Block, words: list[str]) -> None:
    line, *arguments = words
    while arguments and f"{line} {arguments[0]}" in options():
        line = f"{line} {arguments.pop(0)}"
    for argument in arguments:
        if argument.startswith("--"):
            option = argument.partition("=")[0]
            assert option in options()[line], f"{block}: {line} has no option {option}"


def _sessions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, with the lines that it prints."""
    for session in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, *printed = session.rstrip().split("\n")
        yield command, printed


def same(shown: list[str], expected: list[str]) -> bool:
    """Whether ``shown`` is what a page has, where ``…`` in a line stands for any text, and a line ``…`` for any lines.

    >>> same(["a 1.5 s", "b", "c", "d"], ["a … s", "…", "d"])
    True
    """
    if not expected:
        return not shown
    if expected[0].strip() == "…":
        return any(same(shown[index:], expected[1:]) for index in range(len(shown) + 1))
    escaped = re.sub(r"([*?[])", r"[\1]", expected[0].rstrip()).replace("…", "*")
    return bool(shown) and fnmatchcase(shown[0], escaped) and same(shown[1:], expected[1:])
