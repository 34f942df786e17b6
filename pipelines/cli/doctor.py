"""``make doctor``: what this machine lacks for the project, one line per check, then `training`'s preflight.

It runs on any Python with the standard library alone, because it also looks at environments that do not work.
"""

import argparse
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from core.machine.package_lock import differences, summary

PROJECT = Path(__file__).resolve().parents[2]
PYTHON = (3, 11)
LEAST_DISK = {"cpu": 8e9, "gpu": 16e9}  # bytes: both environments, and a demo


class MissingRequirement(Exception):
    """A check failed; the message says what to do."""


def python() -> str:
    if sys.version_info[:2] != PYTHON:
        raise MissingRequirement(
            f"{sys.executable} is {sys.version.split()[0]}: install Python 3.11, or make doctor PYTHON=path"
        )
    return f"{sys.version.split()[0]} at {sys.executable}"


def headers() -> str:
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.is_file():
        raise MissingRequirement(f"no {header}: install python3.11-dev (Debian) or python3.11-devel (Fedora)")
    return str(header)


def compiler() -> str:
    found = next((path for name in ("gcc", "cc", "clang") if (path := shutil.which(name))), None)
    if found is None:
        raise MissingRequirement("no C compiler (gcc, cc, clang): install gcc; Triton compiles kernels with it on GPUs")
    return found


def environment(folder: str, lock: str, command: str) -> str:
    """The packages of an environment against its lock."""
    site = PROJECT / folder / "lib" / f"python{PYTHON[0]}.{PYTHON[1]}" / "site-packages"
    if not site.is_dir():
        raise MissingRequirement(f"no {folder}: run {command}")
    if different := differences(PROJECT / "requirements" / lock, [str(site)]):
        raise MissingRequirement(f"{summary(different)}: run rm -rf {folder} and {command}")
    return f"{folder} is as {lock} says"


def disk(hardware: str) -> str:
    free, least = shutil.disk_usage(PROJECT).free, LEAST_DISK["cpu" if hardware == "cpu" else "gpu"]
    if free < least:
        raise MissingRequirement(f"{free / 1e9:.1f} GB are free at {PROJECT}, expected {least / 1e9:.0f}: make room")
    return f"{free / 1e9:.0f} GB free"


def port(number: int) -> str:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError as error:
            raise MissingRequirement(
                f"{number}: {error.strerror}: stop what listens there, or make ui PORT=another"
            ) from error
    return f"{number} is free for the UI"


def chromium() -> str:
    """The browser of the UI tests; nothing else needs it."""
    code = "from playwright.sync_api import sync_playwright as s\nwith s() as p: print(p.chromium.executable_path)"
    done = subprocess.run([str(PROJECT / ".venv/bin/python"), "-c", code], capture_output=True, text=True, check=False)
    found = shutil.which("chromium") or shutil.which("google-chrome")
    path = Path(done.stdout.strip()) if done.returncode == 0 else None
    if path is not None and path.is_file():
        return str(path)
    return found or "none (only the UI tests need it): .venv/bin/playwright install chromium"


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make doctor", description="Say what this machine lacks.")
    parser.add_argument("--hardware", default="cpu", help="hardware profile that the preflight tries (%(default)s)")
    parser.add_argument("--port", type=int, default=3000, help="port of the UI (%(default)s)")
    parser.add_argument("--machine-only", action="store_true", help="do not train")
    arguments = parser.parse_args(given)
    kind = "cpu" if arguments.hardware == "cpu" else "gpu"
    checks: dict[str, Callable[[], str]] = {
        "python": python,
        "headers": headers,
        "compiler": compiler,
        "orchestration": lambda: environment(".venv", "orchestration.lock", "make setup"),
        "training": lambda: environment(".venv-train", f"train-{kind}.lock", f"make setup HARDWARE={kind}"),
        "disk": lambda: disk(arguments.hardware),
        "port": lambda: port(arguments.port),
        "chromium": chromium,
    }
    failed: list[str] = []
    for name, look in checks.items():
        try:
            line = f"ok    {name}: {look()}"
        except MissingRequirement as error:
            failed.append(name)
            line = f"FAIL  {name}: {error}"
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    if "training" in failed or "python" in failed:
        sys.stdout.write("the training environment was not tried\n")
        return 1
    command = [str(PROJECT / ".venv-train/bin/python"), "-m", "training", "preflight"]
    command += ["--hardware", arguments.hardware, *(["--machine-only"] if arguments.machine_only else [])]
    return subprocess.run(command, cwd=PROJECT, check=False).returncode or (1 if failed else 0)


if __name__ == "__main__":
    sys.exit(main())
