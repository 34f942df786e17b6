"""Which environments make builds, and what its targets call."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Stands in for Python: `-m venv [--clear] FOLDER` makes a folder with a copy of itself, `-c` says its version, and pip
# says what it installs.
PYTHON = """#!/bin/sh
[ "$1" != -c ] || { echo "${VERSION-3.11}"; exit 0; }
echo "$@" | sed -E 's/pip install.* (-r|--editable) /pip install /' >>"$LOG"
[ "$2" = venv ] || exit 0
for folder; do :; done
[ "$3" != --clear ] || rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib/python${VERSION-3.11}" && cp "$0" "$folder/bin/python"
"""


@pytest.fixture
def make(tmp_path: Path):
    """Runs make in a copy of the project's build files; returns what the Pythons were asked to do."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    log = tmp_path / "log"

    def run(*arguments: str, **variables: str) -> list[str]:
        log.write_text("")
        environment = {"PATH": os.environ["PATH"], "LOG": str(log), **variables}
        command = ["make", "-s", "-C", str(tmp_path), f"PYTHON={python}", "UV=", *arguments]
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return log.read_text().splitlines()

    return run


PROJECT = "-m pip install ."
ORCHESTRATION = ["-m pip install requirements/orchestration.lock", PROJECT]
SETUP = "-m pipelines.cli.luffy setup"


def test_a_second_setup_leaves_orchestration_and_a_changed_lock_is_installed(make, tmp_path):
    assert make("setup") == ["-m venv --clear .venv", *ORCHESTRATION, SETUP]
    assert make("setup") == [SETUP]
    with (tmp_path / "requirements" / "orchestration.lock").open("a") as lock:
        lock.write("# changed\n")
    assert make("setup") == ["-m venv .venv", *ORCHESTRATION, SETUP]


def test_what_is_packed_is_installed_without_an_index_checked_and_imported(make):
    wheels = "-m pip install -qq --disable-pip-version-check --no-deps --no-index wheels/*.whl"
    checks = ["-m pip check", "-m pytest tests/gpu_lock -q -k import"]
    assert make("rehearse", "WHEELS=wheels") == ["-m venv --system-site-packages var/rehearsal", wheels, *checks]


def test_another_python_builds_the_environment_anew(make):
    make("setup")
    assert make("setup", VERSION="3.12") == ["-m venv --clear .venv", *ORCHESTRATION, SETUP]


def test_the_choice_of_the_training_environment_is_passed_on(make):
    make("setup")
    assert make("setup", "HARDWARE=gpu") == [f"{SETUP} --hardware=gpu"]
    assert make("setup", "TRAIN_PYTHON=/opt/python", "FORCE=1") == [f"{SETUP} --on=/opt/python --force"]


def test_uv_installs_the_locks_where_it_is_there_and_pip_what_it_does_not_find(make, tmp_path):
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\necho "uv $@" | sed "s/pip install.* -r/pip install/" >>"$LOG"\nexit $STATUS\n')
    uv.chmod(0o755)
    by_uv = f"uv pip install {ORCHESTRATION[0].split()[-1]}"
    assert make("setup", f"UV={uv}", STATUS="0")[1:3] == [by_uv, PROJECT]
    shutil.rmtree(tmp_path / ".venv")
    assert make("setup", f"UV={uv}", STATUS="1")[1:4] == [by_uv, *ORCHESTRATION]


def test_a_version_that_pyenv_has_and_has_not_switched_on_is_found(make, tmp_path):
    shim, pyenv = tmp_path / "bin" / "python3.12", tmp_path / "bin" / "pyenv"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2\nexit 127\n")
    pyenv.write_text(f'#!/bin/sh\n[ "$*" = "whence --path python3.12" ] && echo {tmp_path}/python\n')
    for file in (shim, pyenv):
        file.chmod(0o755)
    path = f"{shim.parent}:{os.environ['PATH']}"
    assert make("setup", "PYTHON=python3.12", PATH=path, VERSION="3.12")[0] == "-m venv --clear .venv"
    assert (tmp_path / ".venv" / "lib" / "python3.12").is_dir()


def test_a_python_that_is_not_supported_is_refused(make, tmp_path):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        make("setup", VERSION="3.10")
    assert "expected Python 3.11 or 3.12" in refused.value.stderr
    assert not (tmp_path / ".venv").exists()


# What the make that runs these tests hands down.
OUTER_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "SELECT")


@cache
def stamp() -> str:
    command = ["make", "-s", "PYTHON=false", "--eval", "stamp: ; @echo $(ORCHESTRATION_STAMP)", "stamp"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def make_here(
    orchestration: str, training: str, *arguments: str, env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs make in the project itself, with two commands in the place of the Pythons of its environments."""
    built = ["-o", stamp(), "-o", "training-environment"]  # as if both environments were up to date
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


@pytest.mark.parametrize(
    ("target", "parts", "quick", "failing"),
    [("test", 4, 4, "orchestration"), ("test-all", 4, 0, "training"), ("test-unit", 2, 0, "")],
)
def test_a_part_of_the_tests_that_fails_keeps_no_other_from_running(target, parts, quick, failing):
    pythons = (f"sh -c 'echo $$@; exit {int(name == failing)}' sh" for name in ("orchestration", "training"))
    done = make_here(*pythons, target)
    said = [line for line in done.stdout.splitlines() if line.startswith("-m pytest tests")]
    assert len(said) == parts
    assert sum(line.endswith("-m not slow") for line in said) == quick
    assert (done.returncode != 0) == bool(failing), done.stderr
