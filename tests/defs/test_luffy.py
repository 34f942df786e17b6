"""The command `luffy`: its help, its completion, and that it reaches the programs behind it from anywhere."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from pipelines.cli.luffy import app, profiles, recipes

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = typer.main.get_command(app).commands
PASSED_ON = {"targets", "train", "evaluate"}
PACKAGES = ("assets", "core", "evaluation", "grading", "pipelines", "targets", "training")


@pytest.fixture
def luffy(tmp_path: Path):
    """Runs the copy that `make setup` leaves in a project called by another path, through a link on PATH."""
    project = tmp_path / "a project"
    environment = project / ".venv" / "bin"
    environment.mkdir(parents=True)
    shutil.copy(ROOT / "pipelines" / "cli" / "luffy.sh", environment / "luffy")
    python = environment / "python"
    python.write_text(f'#!/bin/sh\nexec {ROOT}/.venv/bin/python "$@"\n')
    python.chmod(0o755)
    for package in PACKAGES:
        (project / package).symlink_to(ROOT / package)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "luffy").symlink_to(environment / "luffy")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LUFFY", "DAGSTER", "PYTHONPATH"))}

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        storage = str(tmp_path / "storage")
        settings = {"LUFFY__STORAGE__ROOT": storage, "DAGSTER_HOME": str(tmp_path / "home"), "COLUMNS": "100"}
        environment = {**kept, **settings, **variables, "PATH": path}
        command = ["luffy", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return run


def test_every_command_and_option_says_what_it_does():
    for name, command in COMMANDS.items():
        assert command.help and command.help.rstrip().endswith((".", "`.")), name
        for parameter in command.params:
            assert getattr(parameter, "help", None), (name, parameter.name)


def test_the_commands_have_the_words_of_make():
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(COMMANDS) - targets == {*PASSED_ON, "champion"}


def test_without_a_command_it_prints_its_help(luffy):
    alone, asked = luffy(), luffy("--help")
    assert alone.returncode == asked.returncode == 0
    assert alone.stdout == asked.stdout
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", alone.stdout), name


def test_the_programs_behind_it_call_themselves_luffy(luffy):
    helped = luffy("targets", "--help")
    assert helped.returncode == 0
    assert helped.stdout.startswith("usage: luffy targets ")
    refused = luffy("targets", "--nothing")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: ") and "; see luffy targets --help" in refused.stderr
    refused = luffy("targets", "browse")
    assert (
        refused.stderr == "error: the following arguments are required: OUT, --out; see luffy targets browse --help\n"
    )
    shown = luffy("champion")
    assert shown.returncode == 0, shown.stderr
    assert "there is no champion" in shown.stdout


def test_the_shell_completes_commands_profiles_and_recipes(luffy):
    def completed(line: str) -> set[str]:
        words = line.split(" ")
        variables = {"_LUFFY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        return set(luffy(**variables).stdout.split())

    assert completed("luffy ") == set(COMMANDS)
    assert completed("luffy pro") == {"promote"}
    assert completed("luffy run --profile ") == set(profiles()) >= {"embedded", "paper"}
    assert completed("luffy experiments luffy_re") == {name for name in recipes() if name.startswith("luffy_re")}
