"""The NVIDIA driver that the GPU lock needs, and the one of this machine."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from core.errors import InputError

LEAST = 580  # of CUDA 13.0, which the packages of requirements/train-gpu.lock are built for


def require_driver(version: str, environment: Mapping[str, str] = os.environ) -> None:
    """Raise InputError if a driver is older than `LEAST` and no newer libcuda is on LD_LIBRARY_PATH.

    Args:
        version: Of the driver, such as "535.183.01"; "" if it is unknown.
        environment: The variables of the process that will use it.
    """
    majors = [version.split(".")[0]]
    for folder in filter(None, environment.get("LD_LIBRARY_PATH", "").split(":")):
        if Path(folder).is_dir():
            majors += [file.name.split(".")[2] for file in Path(folder).glob("libcuda.so.*.*")]
    majors = [text for text in majors if text.isdecimal()]
    if version and max(map(int, majors), default=LEAST) < LEAST:
        raise InputError(
            f"the NVIDIA driver is {version}, and CUDA 13.0 of requirements/train-gpu.lock needs {LEAST} or newer: "
            "update the driver, or install NVIDIA's package cuda-compat-13-0 and put its folder on LD_LIBRARY_PATH"
        )


def installed_driver(environment: Mapping[str, str] = os.environ) -> str:
    """Return the version of this machine's driver; "" without one, as on a node that only builds."""
    command = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if command is None:
        return ""
    query = [command, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=60)
    return next(iter(done.stdout.split()), "") if done.returncode == 0 else ""
