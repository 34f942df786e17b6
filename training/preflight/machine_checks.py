"""Check a machine: packages, compiler, driver, attention kernel, memory and disk."""

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

from core.code_digest import PROJECT
from core.errors import InputError
from core.machine.package_lock import differences, summary
from training.embedded_model.resolve_model import SHIPPED
from training.preflight.checks import Check
from training.resources.attention import AUTO, choose_attention, installed_kernels
from training.resources.machine import available_memory, free_disk, visible_gpus
from training.resources.model_shape import ModelShape

GB = 1e9
LEAST_MEMORY, LEAST_DISK = 8 * GB, 2 * GB  # for the embedded model
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


def machine_checks(hardware: str, out: Path) -> Iterator[Check]:
    """The checks for a hardware profile and a run below ``out``."""
    cuda = hardware != "cpu"
    yield Check("python", _python)
    yield Check("packages", lambda: _packages("gpu" if cuda else "cpu"))
    if cuda:
        yield Check("compiler", _compiler)
        yield Check("driver", _driver)
        yield Check("attention kernel", _attention)
    yield Check("memory", _memory)
    yield Check("disk", lambda: _disk(out))


def _python() -> str:
    if sys.version_info[:2] != (3, 11):
        raise InputError(f"{sys.executable} is Python {sys.version.split()[0]}, expected 3.11: run make setup again")
    return f"{sys.version.split()[0]} at {sys.executable}"


def _packages(kind: str) -> str:
    lock = PROJECT / "requirements" / f"train-{kind}.lock"
    if different := differences(lock):
        raise InputError(f"{summary(different)}: run make setup HARDWARE={kind}")
    return f"as requirements/{lock.name} says"


def _compiler() -> str:
    """Check that there is a C compiler, with which Triton compiles its kernels at their first launch."""
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.is_file():
        raise InputError(f"no {header}: install the headers of Python 3.11 (python3.11-dev), which Triton needs")
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        raise InputError("no C compiler (CC, gcc, cc, clang), which Triton needs: install gcc")
    return f"{compiler}, {header}"


def _driver() -> str:
    gpus = visible_gpus()
    if not gpus:
        raise InputError("no GPU (nvidia-smi, CUDA_VISIBLE_DEVICES): install the driver, or take --hardware cpu")
    done = _python_code("import torch; print(torch.version.cuda, torch.cuda.is_available(), torch.cuda.device_count())")
    version, available, count = done.split()
    if available != "True" or int(count) != len(gpus):
        raise InputError(
            f"the driver {gpus[0].driver} lists {len(gpus)} GPUs, and torch for CUDA {version} can use {count}: "
            "install a driver that is new enough for it"
        )
    memory = min(gpu.memory or 0 for gpu in gpus)
    return f"{len(gpus)} x {gpus[0].name} with {memory / GB:.0f} GB, driver {gpus[0].driver}, CUDA {version}"


def _attention() -> str:
    shape = ModelShape.of_folder(SHIPPED)
    kernel = choose_attention(
        AUTO, gpus=visible_gpus(), head_dim=shape.head_dim, sequence_parallel=1, installed=installed_kernels()
    )
    numbers = [float(line.split()[-1]) for line in _python_code(KERNEL, str(SHIPPED), kernel).splitlines()[-2:]]
    if max(numbers) > APART:
        raise InputError(f"{kernel} is {max(numbers):.1%} off what it should compute: set attention=sdpa")
    return f"{kernel}, packed sequences within {max(numbers):.1%} of each alone"


def _memory() -> str:
    if (free := available_memory()) < LEAST_MEMORY:
        raise InputError(f"{free / GB:.1f} GB are free, the smallest training needs {LEAST_MEMORY / GB:.0f}: free some")
    return f"{free / GB:.0f} GB free"


def _disk(folder: Path) -> str:
    """Free space, and the speed at which a file gets onto the disk."""
    if (free := free_disk(folder)) < LEAST_DISK:
        raise InputError(f"{folder}: {free / GB:.1f} GB are free, expected {LEAST_DISK / GB:.0f}: give another --out")
    block = os.urandom(1 << 20)
    file = folder / ".speed"
    started = time.monotonic()
    try:
        with file.open("wb") as stream:
            for _ in range(WRITTEN // len(block)):
                stream.write(block)
            stream.flush()
            os.fsync(stream.fileno())
    finally:
        file.unlink(missing_ok=True)
    speed = WRITTEN / (time.monotonic() - started)
    if speed < SLOWEST:
        raise InputError(f"{folder}: {speed / 1e6:.0f} MB/s, too slow for checkpoints: give --out on another disk")
    return f"{free / GB:.0f} GB free, {speed / 1e6:.0f} MB/s"


def _python_code(code: str, *arguments: str) -> str:
    """Return the output of ``code`` in a separate process; InputError with its last words if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise InputError(f"{done.stderr.strip().splitlines()[-1]}: run make setup HARDWARE=gpu, or see that message")
    return done.stdout
