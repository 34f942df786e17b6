"""The environment of trainings: torch, verl and vLLM from the lock of this version, which uv or pip installs."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from core import PROJECT
from core.errors import InputError, TaskFailed
from core.existing_python import BASE, HARDWARE, TRAIN_PYTHON, build_on_top
from core.machine.driver import installed_driver, require_driver

KINDS = ("cpu", "gpu")
LOCKS = PROJECT / "requirements"
TORCH_INDEX = "TORCH_CPU_INDEX"  # variable: the index of torch's builds for the CPU, where PyPI's are for CUDA
PYTORCH = "https://download.pytorch.org/whl/cpu"


def build_training_environment(
    hardware: str | None = None,
    base: Path | None = None,
    *,
    force: bool = False,
    folder: Path = TRAIN_PYTHON.parents[1],
    python: str = sys.executable,
) -> None:
    """Build the training environment, unless it is up to date.

    Args:
        hardware: ``cpu`` or ``gpu``. Default: what the environment is for already, else ``cpu``.
        base: A Python that has torch, verl and vLLM, on top of which it is built. Default: the present base, if any.
        force: Accept versions in ``base`` that are not supported.
        folder: The environment.
        python: The Python that a lock is installed for.

    Raises:
        InputError: The hardware, its driver, or ``base`` is not supported.
        TaskFailed: A package could not be installed; the messages of the installer are above.
    """
    if hardware is not None and hardware not in KINDS:
        raise InputError(f"hardware {hardware}: expected {' or '.join(KINDS)}")
    if base is None and hardware is None and (recorded := _read(folder / BASE)):
        base = Path(recorded)
    if base is not None:
        stamp = folder / f"installed.{_digest(str(base).encode(), PROJECT / 'pyproject.toml')}"
        if not stamp.exists():
            build_on_top(base.expanduser().absolute(), folder, force=force)
            stamp.touch()
        return
    _build_from_lock(hardware or _read(folder / HARDWARE) or KINDS[0], folder, python)


def _build_from_lock(hardware: str, folder: Path, python: str) -> None:
    lock, torch = LOCKS / f"train-{hardware}.lock", LOCKS / "torch-cpu.txt"
    locks = [lock, torch] if hardware == "cpu" else [lock]
    version = "{}.{}".format(*sys.version_info)
    stamp = folder / f"installed.{hardware}.{version}.{_digest(b'', *locks)}"
    if stamp.exists():
        return

    if hardware == "gpu":
        require_driver(installed_driver())
    sys.stdout.write(f"setup: {folder} (training, {hardware}) takes minutes, and 6 GB or more\n")
    sys.stdout.flush()

    again = _read(folder / HARDWARE) == hardware and (folder / "lib" / f"python{version}").is_dir()
    for old in folder.glob("installed*"):
        old.unlink()
    clear = [] if again else ["--clear"]
    subprocess.run([python, "-m", "venv", *clear, str(folder)], check=True)
    (folder / HARDWARE).write_text(f"{hardware}\n", encoding="utf-8")

    if hardware == "cpu":
        _install_torch(folder, torch)
    _install_lock(folder, lock)
    for site in folder.glob("lib/python*/site-packages"):
        link = site / "luffy_on_dagster.pth"
        link.write_text(f"{PROJECT}\n", encoding="utf-8")
    stamp.touch()


def _install_torch(folder: Path, requirements: Path) -> None:
    """Install torch's build for the CPU from the configured index or PyTorch's, else PyPI's build for CUDA."""
    index = os.environ.get(TORCH_INDEX, PYTORCH)
    for options in ([], ["--retries", "1", "--index-url", index]):
        if _pip(folder, "--no-deps", *options, "-r", str(requirements), quiet=True):
            return
    sys.stdout.write(f"setup: no CPU build of torch at {index}: taking PyPI's, with 5 GB of CUDA packages\n")
    pinned = requirements.read_text(encoding="utf-8").replace("+cpu", "").split()
    if not _pip(folder, *pinned):
        raise TaskFailed(f"pip could not install {' '.join(pinned)}: its messages are above")


def _install_lock(folder: Path, lock: Path) -> None:
    """Install a lock by uv, if it is there and finds every package, else by pip."""
    options = ["--no-deps", "--require-hashes", "-r", str(lock)]
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *options]
        if subprocess.run(command, check=False).returncode == 0:
            return
    if not _pip(folder, *options):
        raise TaskFailed(f"pip could not install {lock}: its messages are above; run the command again to go on")


def _pip(folder: Path, *arguments: str, quiet: bool = False) -> bool:
    command = [folder / "bin" / "python", "-m", "pip", "install", "-qq", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL if quiet else None).returncode == 0


def _digest(start: bytes, *files: Path) -> str:
    return hashlib.sha256(start + b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _read(file: Path) -> str | None:
    return file.read_text(encoding="utf-8").strip() if file.is_file() else None
