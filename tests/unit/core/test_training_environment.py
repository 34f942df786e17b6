"""Which training environment is built, and how: a program stands in for Python and says what it is asked."""

import shutil
import sys
from pathlib import Path

import pytest

from core import training_environment
from core.errors import InputError, TaskFailed
from core.training_environment import build_training_environment

VERSION = "{}.{}".format(*sys.version_info)
# `-m venv [--clear] FOLDER` makes a folder with a copy of itself; NO_TORCH and NO_LOCK are the statuses of pip.
PYTHON = f"""#!/bin/sh
echo "$@" | sed -E 's/pip install.* -r .*requirements./pip install /' >>"$LOG"
case "$*" in *torch-cpu.txt*) exit ${{NO_TORCH-0}};; *.lock*) exit ${{NO_LOCK-0}};; esac
[ "$2" = venv ] || exit 0
for folder; do :; done
[ "$3" != --clear ] || rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib/python{VERSION}/site-packages" && cp "$0" "$folder/bin/python"
"""
CPU = ["-m pip install torch-cpu.txt", "-m pip install train-cpu.lock"]
GPU = ["-m pip install train-gpu.lock"]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Builds an environment in a folder of the test; returns what the Pythons were asked to do."""
    locks = shutil.copytree(training_environment.LOCKS, tmp_path / "requirements")
    monkeypatch.setattr(training_environment, "LOCKS", locks)
    monkeypatch.setattr(training_environment, "installed_driver", lambda: "")
    log, python, folder = tmp_path / "log", tmp_path / "python", tmp_path / "env"
    python.write_text(PYTHON)
    python.chmod(0o755)
    monkeypatch.setenv("LOG", str(log))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    def run(hardware: str | None = None) -> list[str]:
        log.write_text("")
        build_training_environment(hardware, folder=folder, python=str(python))
        return log.read_text().replace(f"{folder}", "ENV").splitlines()

    return run


def test_a_lock_is_installed_once_and_again_when_it_has_changed(build, tmp_path):
    assert build() == ["-m venv --clear ENV", *CPU]
    (link,) = (tmp_path / "env").rglob("luffy_on_dagster.pth")
    assert Path(link.read_text().strip(), "core", "training_environment.py").is_file()
    assert build() == []
    with (tmp_path / "requirements" / "train-cpu.lock").open("a") as lock:
        lock.write("# changed\n")
    assert build() == ["-m venv ENV", *CPU]


def test_the_hardware_stays_until_another_one_is_asked_for(build, tmp_path):
    build()
    assert build("gpu") == ["-m venv --clear ENV", *GPU]
    assert build() == []
    next((tmp_path / "env").glob("installed.gpu.*")).unlink()  # an installation that was interrupted
    assert build() == ["-m venv ENV", *GPU]
    assert build("cpu") == ["-m venv --clear ENV", *CPU]


def test_an_environment_of_another_python_is_made_anew(build, tmp_path):
    build()
    (tmp_path / "env" / "lib" / f"python{VERSION}").rename(tmp_path / "env" / "lib" / "python3.10")
    for stamp in (tmp_path / "env").glob("installed*"):
        stamp.unlink()
    assert build()[0] == "-m venv --clear ENV"


@pytest.mark.parametrize(("status", "more"), [("0", []), ("1", CPU[1:])])
def test_uv_installs_a_lock_where_it_is_there_and_pip_what_it_does_not_find(build, tmp_path, status, more):
    (tmp_path / "bin").mkdir()
    uv = tmp_path / "bin" / "uv"
    uv.write_text(f'#!/bin/sh\necho "uv $1 $2" >>"$LOG"\nexit {status}\n')
    uv.chmod(0o755)
    assert build()[1:] == [CPU[0], "uv pip install", *more]


def test_without_a_cpu_build_of_torch_the_one_of_pypi_is_taken(build, monkeypatch):
    monkeypatch.setenv("NO_TORCH", "1")
    lines = build()
    version = (training_environment.LOCKS / "torch-cpu.txt").read_text().strip().removesuffix("+cpu")
    assert lines[1:3] == CPU[:1] * 2 and lines[3].endswith(f" {version}")


def test_an_installation_that_fails_is_no_environment(build, monkeypatch):
    monkeypatch.setenv("NO_LOCK", "1")
    with pytest.raises(TaskFailed, match=r"pip could not install .*train-cpu\.lock"):
        build()
    monkeypatch.delenv("NO_LOCK")
    assert build() == ["-m venv ENV", *CPU]


def test_a_python_that_has_torch_stays_the_base(build, tmp_path, monkeypatch):
    built: list[Path] = []

    def build_on_top(base: Path, folder: Path, *, force: bool) -> None:
        built.append(base)
        folder.mkdir()
        (folder / "on-top-of").write_text(f"{base}\n")

    monkeypatch.setattr(training_environment, "build_on_top", build_on_top)
    build_training_environment(base=Path("/opt/python"), folder=tmp_path / "env")
    assert build() == [] and built == [Path("/opt/python")]
    assert build("cpu")[-2:] == CPU


def test_unknown_hardware_and_an_old_driver_are_refused(build, monkeypatch):
    with pytest.raises(InputError, match="hardware tpu: expected cpu or gpu"):
        build("tpu")
    monkeypatch.setattr(training_environment, "installed_driver", lambda: "550.54.15")
    with pytest.raises(InputError, match=r"the NVIDIA driver is 550\.54\.15, and CUDA 13\.0"):
        build("gpu")
