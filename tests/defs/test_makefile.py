"""Which environments make builds, and what its targets call."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Stands in for Python: `-m venv [--clear] FOLDER` makes a folder with a copy of itself, and pip says what it installs.
PYTHON = """#!/bin/sh
echo "$@" | sed 's/pip install.* -r /pip install /' >>"$LOG"
[ "$2" = venv ] || exit 0
for folder; do :; done
[ "$3" != --clear ] || rm -rf "$folder"
mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python"
"""


@pytest.fixture
def make(tmp_path: Path):
    """Runs make in a copy of the project's build files; returns what the Pythons were asked to do."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "pipelines" / "cli").mkdir(parents=True)
    shutil.copy(ROOT / "pipelines" / "cli" / "luffy.sh", tmp_path / "pipelines" / "cli")
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    log = tmp_path / "log"

    def run(*arguments: str, **variables: str) -> list[str]:
        log.write_text("")
        environment = {"PATH": os.environ["PATH"], "LOG": str(log), **variables}
        command = ["make", "-s", "-C", str(tmp_path), f"PYTHON={python}", *arguments]
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return log.read_text().splitlines()

    return run


TRAIN_CPU = ["-m pip install requirements/torch-cpu.txt", "-m pip install requirements/train-cpu.lock"]


def test_a_second_setup_does_nothing_and_a_changed_lock_is_installed(make, tmp_path):
    first = make("setup")
    assert first[:2] == ["-m venv .venv", "-m pip install requirements/orchestration.lock"]
    assert first[2:] == ["-m venv --clear .venv-train", *TRAIN_CPU]
    assert os.access(tmp_path / ".venv" / "bin" / "luffy", os.X_OK)
    assert make("setup") == []
    with (tmp_path / "requirements" / "train-cpu.lock").open("a") as lock:
        lock.write("# changed\n")
    assert make("setup") == ["-m venv .venv-train", *TRAIN_CPU]


def test_the_environment_for_gpus_replaces_the_one_for_the_cpu_and_stays(make, tmp_path):
    make("setup")
    gpu = "-m pip install requirements/train-gpu.lock"
    assert make("setup", "HARDWARE=gpu") == ["-m venv --clear .venv-train", gpu]
    assert make("setup") == []
    with (tmp_path / "requirements" / "train-gpu.lock").open("a") as lock:
        lock.write("# changed\n")
    (tmp_path / "requirements" / "train-cpu.lock").write_text("# changed, too\n")
    assert make("setup") == ["-m venv .venv-train", gpu]
    assert make("setup", "HARDWARE=cpu") == ["-m venv --clear .venv-train", *TRAIN_CPU]


def test_an_installation_that_was_interrupted_is_taken_up_for_the_same_hardware(make, tmp_path):
    make("setup", "HARDWARE=gpu")
    next((tmp_path / ".venv-train").glob("installed.gpu.*")).unlink()
    assert make("setup") == ["-m venv .venv-train", "-m pip install requirements/train-gpu.lock"]


def test_unknown_hardware_is_refused(make):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        make("setup", "HARDWARE=tpu")
    assert "error: HARDWARE=tpu: expected cpu or gpu" in refused.value.stderr


# What the make that runs these tests hands down.
OUTER_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "SELECT")


@cache
def stamps() -> list[str]:
    return subprocess.run(
        ["make", "-s", "--eval", "stamps: ; @echo $(ORCHESTRATION_STAMP) $(TRAINING_STAMP)", "stamps"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def make_here(
    orchestration: str, training: str, *arguments: str, env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs make in the project itself, with two commands in the place of the Pythons of its environments."""
    built = [argument for stamp in stamps() for argument in ("-o", stamp)]  # as if both environments were up to date
    command = ["make", "-s", *built, "PYTHON=false", f"ORCHESTRATION={orchestration}", f"TRAINING={training}"]
    environment = {name: value for name, value in (env or os.environ).items() if name not in OUTER_MAKE}
    return subprocess.run(
        [*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("target", "command"), [("demo", "demo"), ("ui", "ui --port 3001")])
def test_everyday_targets_are_commands_of_luffy(target, command):
    """In the project itself, with a program that only says how it is called."""
    python = "sh -c 'echo $$@ profile=$$LUFFY_PROFILE' sh"
    done = make_here(python, python, target, "PORT=3001", env={**os.environ, "LUFFY_PROFILE": "small"})
    done.check_returncode()
    assert done.stdout.splitlines() == [f"-m pipelines.cli.luffy {command} profile=small"]


@pytest.mark.parametrize(("target", "parts", "quick"), [("test", 6, 4), ("test-all", 6, 0), ("test-unit", 2, 0)])
@pytest.mark.parametrize("failing", ["", "orchestration", "training"])
def test_a_part_of_the_tests_that_fails_keeps_no_other_from_running(target, parts, quick, failing):
    pythons = (f"sh -c 'echo $$@; exit {int(name == failing)}' sh" for name in ("orchestration", "training"))
    done = make_here(*pythons, target)
    said = [line for line in done.stdout.splitlines() if line.startswith("-m pytest tests")]
    assert len(said) == parts
    assert sum(line.endswith("-m not slow") for line in said) == quick
    assert (done.returncode != 0) == bool(failing), done.stderr
