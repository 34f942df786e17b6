"""What a machine needs, for `luffy doctor` and for `luffy train preflight`.

Only the standard library is imported here, because the doctor also runs where an environment is missing or broken.
"""

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from core import INSTALLED, PROJECT
from core.errors import InputError
from core.existing_python import check_imports, examine, is_locked
from core.machine.driver import LEAST
from core.machine.package_lock import differences, summary

# Where a check is made: in any Python, because an environment may be missing (`luffy doctor`), or in the training
# environment (`luffy train preflight`), and there for all hardware profiles or for those with GPUs.
HOST, MACHINE, MACHINE_GPU = "host", "machine", "machine with GPUs"
PYTHONS = ((3, 11), (3, 12))
GB = 1e9
SETUP_DISK = {"cpu": 8 * GB, "gpu": 16 * GB}  # both environments, and a demo
LEAST_MEMORY, LEAST_DISK = 8 * GB, 2 * GB  # what the embedded model needs
WRITTEN = 256 << 20  # bytes
SLOWEST = 20e6  # bytes per second: a 7B model's checkpoint would take more than an hour
# Packed sequences on the device against each of them alone: forward, and the gradient of the weights.
KERNEL = """
import sys, torch
from transformers import AutoModelForCausalLM
def run(kernel, ids, positions):
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16, attn_implementation=kernel).cuda()
    logits = model(ids.cuda()[None], position_ids=positions.cuda()[None], use_cache=False).logits[0].float()
    logits.log_softmax(-1).amax(-1).sum().backward()
    return logits.detach(), model.model.layers[0].mlp.up_proj.weight.grad.float()
torch.manual_seed(0)
parts = [torch.randint(5, 250, (length,)) for length in (130, 300, 70)]
where = [torch.arange(len(part)) for part in parts]
packed, gradient = run(sys.argv[2], torch.cat(parts), torch.cat(where))
alone = [run("eager", part, place) for part, place in zip(parts, where)]
logits, other = torch.cat([one for one, _ in alone]), sum(one for _, one in alone)
print("apart", ((packed - logits).abs().mean() / logits.abs().mean()).item())
print("gradients apart", ((gradient - other).norm() / other.norm()).item())
"""
APART = 0.05  # of bfloat16 numbers


@dataclass(frozen=True)
class Examination:
    """What is examined: a hardware profile, a folder on the disk of the runs, the training interpreter, a port."""

    hardware: str
    out: Path
    python: Path = Path(sys.executable)
    port: int = 3000

    @property
    def kind(self) -> str:
        """The kind of training environment that the hardware needs, as ``luffy setup --hardware`` calls it."""
        return "cpu" if self.hardware == "cpu" else "gpu"


class Check(NamedTuple):
    """A check: ``test`` returns what it saw, or raises an InputError; ``remedy`` says what to do then."""

    name: str
    when: tuple[str, ...]
    test: Callable[[Examination], str]
    remedy: str


def run_checks(checks: Iterable[Check], examination: Examination) -> list[str]:
    """Run all of them and print a line for each; the names of those that failed."""
    failed: list[str] = []
    for check in checks:
        started = time.monotonic()
        try:
            line = f"ok    {check.name}: {check.test(examination)}"
        except InputError as error:
            line = f"FAIL  {check.name}: {error}: {check.remedy.format(kind=examination.kind)}"
            failed.append(check.name)
        seconds = time.monotonic() - started
        sys.stdout.write(f"{line}{f' ({seconds:.0f} s)' if seconds > 1 else ''}\n")
        sys.stdout.flush()
    return failed


def _python(_: Examination) -> str:
    if sys.version_info[:2] not in PYTHONS:
        raise InputError(f"{sys.executable} is Python {sys.version.split()[0]}, expected 3.11 or 3.12")
    return f"{sys.version.split()[0]} at {sys.executable}"


def _headers(_: Examination) -> str:
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.is_file():
        raise InputError(f"no {header}")
    return str(header)


def _compiler(_: Examination) -> str:
    compiler = os.environ.get("CC") or next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)
    if compiler is None:
        raise InputError("no C compiler (CC, gcc, cc, clang), with which Triton compiles kernels")
    return compiler


def _orchestration(_: Examination) -> str:
    return sys.prefix if INSTALLED else _environment(PROJECT / ".venv", "orchestration.lock")


def _packages(examination: Examination) -> str:
    python = examination.python
    if is_locked(python):
        return _environment(python.parents[1], f"train-{examination.kind}.lock")
    versions = examine(python)
    if python == Path(sys.executable):
        check_imports(python)
    return f"{python} has {versions}"


def _environment(folder: Path, lock: str) -> str:
    sites = list(folder.glob("lib/python*/site-packages"))
    if not sites:
        raise InputError(f"no {folder.name}")
    if different := differences(PROJECT / "requirements" / lock, [str(sites[0])]):
        raise InputError(summary(different))
    return f"{folder.name} is as {lock} says"


def _project_disk(examination: Examination) -> str:
    free, least = shutil.disk_usage(PROJECT).free, SETUP_DISK[examination.kind]
    if free < least:
        raise InputError(f"{free / GB:.1f} GB are free at {PROJECT}, expected {least / GB:.0f}")
    return f"{free / GB:.0f} GB free"


def _port(examination: Examination) -> str:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", examination.port))
        except OSError as error:
            raise InputError(f"{examination.port}: {error.strerror}") from error
    return f"{examination.port} is free for the UI"


def _driver(_: Examination) -> str:
    from training.resources.machine import visible_gpus

    gpus = visible_gpus()
    if not gpus:
        raise InputError("no GPU (nvidia-smi, CUDA_VISIBLE_DEVICES)")
    done = _python_code("import torch; print(torch.version.cuda, torch.cuda.is_available(), torch.cuda.device_count())")
    version, available, count = done.split()
    if available != "True" or int(count) != len(gpus):
        raise InputError(
            f"the driver {gpus[0].driver} lists {len(gpus)} GPUs, and torch for CUDA {version} can use {count}"
        )
    memory = min(gpu.memory or 0 for gpu in gpus)
    return f"{len(gpus)} x {gpus[0].name} with {memory / GB:.0f} GB, driver {gpus[0].driver}, CUDA {version}"


def _attention(_: Examination) -> str:
    from core.model.base_model import SHIPPED
    from training.resources.attention import AUTO, choose_attention, installed_kernels
    from training.resources.machine import visible_gpus
    from training.resources.model_shape import ModelShape

    shape = ModelShape.of_folder(SHIPPED)
    kernel = choose_attention(
        AUTO, gpus=visible_gpus(), head_dim=shape.head_dim, sequence_parallel=1, installed=installed_kernels()
    )
    numbers = [float(line.split()[-1]) for line in _python_code(KERNEL, str(SHIPPED), kernel).splitlines()[-2:]]
    if max(numbers) > APART:
        raise InputError(f"{kernel} is {max(numbers):.1%} off what it should compute")
    return f"{kernel}, packed sequences within {max(numbers):.1%} of each alone"


def _memory(_: Examination) -> str:
    from training.resources.machine import available_memory

    if (free := available_memory()) < LEAST_MEMORY:
        raise InputError(f"{free / GB:.1f} GB are free, the smallest training needs {LEAST_MEMORY / GB:.0f}")
    return f"{free / GB:.0f} GB free"


def _run_disk(examination: Examination) -> str:
    from training.resources.machine import free_disk

    folder = examination.out
    if (free := free_disk(folder)) < LEAST_DISK:
        raise InputError(f"{folder}: {free / GB:.1f} GB are free, expected {LEAST_DISK / GB:.0f}")
    file, content = folder / ".speed", os.urandom(WRITTEN)
    started = time.monotonic()
    try:
        with file.open("wb") as stream:
            stream.write(content)
            os.fsync(stream.fileno())
    finally:
        file.unlink(missing_ok=True)
    speed = WRITTEN / (time.monotonic() - started)
    if speed < SLOWEST:
        raise InputError(f"{folder}: {speed / 1e6:.0f} MB/s, too slow for checkpoints")
    return f"{free / GB:.0f} GB free, {speed / 1e6:.0f} MB/s"


def _python_code(code: str, *arguments: str) -> str:
    """Return the output of ``code`` in a separate process; InputError with its last words if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise InputError(done.stderr.strip().splitlines()[-1])
    return done.stdout


SETUP = "luffy setup --hardware {kind}"
CHECKS = (
    Check("python", (HOST, MACHINE), _python, "install Python 3.11 or 3.12 and run make setup PYTHON=path"),
    Check("headers", (HOST, MACHINE_GPU), _headers, "install python3-dev (Debian) or python3-devel (Fedora)"),
    Check("compiler", (HOST, MACHINE_GPU), _compiler, "install gcc"),
    Check("orchestration", (HOST,), _orchestration, "run rm -rf .venv and make setup"),
    Check("training", (HOST,), _packages, f"remove it and run {SETUP}, or choose another Python"),
    Check("disk", (HOST,), _project_disk, "make room"),
    Check("port", (HOST,), _port, "stop what listens there, or run luffy ui --port with another"),
    Check("packages", (MACHINE,), _packages, f"run {SETUP}"),
    Check("driver", (MACHINE_GPU,), _driver, f"install a driver of version {LEAST} or newer, or take --hardware cpu"),
    Check("attention kernel", (MACHINE_GPU,), _attention, f"set machine.attention=sdpa, or run {SETUP}"),
    Check("memory", (MACHINE,), _memory, "free some"),
    Check("disk", (MACHINE,), _run_disk, "give --out on another disk"),
)


def checks_of(*when: str) -> list[Check]:
    """Return the checks that are made at any of these places."""
    return [check for check in CHECKS if set(when) & set(check.when)]
