"""The nodes that a run would use: their GPUs, cores, memory, shared memory, and the disk of the run's folder.

`CARDS` has what is known of GPUs that are not here.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from core.errors import InputError
from core.machine.driver import require_driver
from core.machine.processor import multiplies_bfloat16

NODE_SECONDS = 60.0  # time for a node of a cluster that just started to appear
SHARED_MEMORY = Path("/dev/shm")
QUERY = ("name", "memory.total", "compute_cap", "driver_version", "uuid")


@dataclass(frozen=True)
class Gpu:
    """One GPU. ``memory`` in bytes, None if unknown; ``capability`` as CUDA counts it, (0, 0) if unknown."""

    name: str
    memory: float | None
    capability: tuple[int, int] = (0, 0)
    driver: str = ""


# Bytes as the driver reports them. The first whose name is part of the driver's name counts.
CARDS = (
    Gpu("B200", 191.5e9, (10, 0)),
    Gpu("GH200", 102.6e9, (9, 0)),
    Gpu("H200", 150.1e9, (9, 0)),
    Gpu("H100 PCIe", 85.5e9, (9, 0)),
    Gpu("H100", 85.5e9, (9, 0)),
    Gpu("H800", 85.5e9, (9, 0)),
    Gpu("A100-SXM4-40GB", 42.4e9, (8, 0)),
    Gpu("A100", 85.1e9, (8, 0)),
    Gpu("L40S", 47.7e9, (8, 9)),
    Gpu("L4", 23.7e9, (8, 9)),
    Gpu("A10G", 23.7e9, (8, 6)),
    Gpu("RTX 4090", 25.4e9, (8, 9)),
)


def card_of(name: str) -> Gpu | None:
    """Return the card that ``name`` contains, or None."""
    return next((card for card in CARDS if card.name.lower() in name.lower()), None)


@dataclass(frozen=True)
class Machine:
    """The smallest of the nodes; ``disk`` is what is free where the run's folder lies. Bytes; None is unknown."""

    nodes: int
    gpus: tuple[Gpu, ...]
    cpus: int | None
    memory: float | None
    shared_memory: float | None
    disk: float
    bfloat16: bool = False  # the processors multiply matrices of it

    @property
    def gpu_memory(self) -> float | None:
        """Bytes of the smallest GPU; None if it is unknown."""
        return min((gpu.memory for gpu in self.gpus if gpu.memory), default=None)


def visible_gpus(environment: Mapping[str, str] = os.environ) -> tuple[Gpu, ...]:
    """Return the GPUs of this machine that ``CUDA_VISIBLE_DEVICES`` leaves to us; () without a driver.

    Raises:
        InputError: the driver is there, and does not work or is too old.
    """
    command = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if command is None:
        return ()
    done = subprocess.run(
        [command, f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise InputError(f"nvidia-smi failed with status {done.returncode} ({said[0]}): repair the driver")
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = [name.strip() for name in chosen.split(",") if name.strip()]
        by_name = {str(number): row for number, row in enumerate(rows)}
        picked = [by_name.get(name) or next((row for row in rows if row[4].startswith(name)), None) for name in names]
        if None in picked:
            raise InputError(f"CUDA_VISIBLE_DEVICES={chosen}: this machine has {len(rows)} GPUs: name some of them")
        rows = [row for row in picked if row]
    if rows:
        require_driver(rows[0][3], environment)
    gpus = []
    for name, mebibytes, capability, driver, _ in rows:
        major, minor = map(int, capability.split("."))
        gpus.append(Gpu(name, float(mebibytes) * 2**20, (major, minor), driver))
    return tuple(gpus)


def free_disk(folder: Path) -> float:
    """Return the bytes that are free where ``folder`` lies or will lie."""
    existing = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    return shutil.disk_usage(existing).free


def available_memory() -> float:
    """Return the bytes of memory that may still be used: on the machine, or in our control group if that has less."""
    free: float = psutil.virtual_memory().available
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        if Path(limit).is_file() and (text := Path(limit).read_text(encoding="utf-8").strip()) != "max":
            free = min(free, float(text) - float(Path(used).read_text(encoding="utf-8")))
    return free


def ray_cluster(folder: Path) -> Machine:
    """Return the nodes of the Ray cluster of ``RAY_ADDRESS``, as it declares them.

    Ray does not say how much shared memory is free, nor the memory of a GPU, which then is as its kind has.

    Raises:
        InputError: no node of it is alive.
    """
    alive = _alive_nodes()
    with_gpus = [resources for resources in alive if resources.get("GPU")]
    smallest: dict[str, Any] = min(with_gpus or alive, key=lambda resources: resources.get("GPU", 0))
    kinds = [name.removeprefix("accelerator_type:") for name in smallest if name.startswith("accelerator_type:")]
    gpu = (card_of(kinds[0]) if kinds else None) or Gpu(kinds[0] if kinds else "GPU", None)
    return Machine(
        nodes=len(with_gpus or alive),
        gpus=(gpu,) * int(smallest.get("GPU", 0)),
        cpus=int(smallest.get("CPU", 0)),
        memory=float(smallest.get("memory", 0)),
        shared_memory=None,
        disk=free_disk(folder),
    )


def _alive_nodes() -> list[dict[str, Any]]:
    """Return the resources of each living node; the dashboard of a cluster that just started answers before that."""
    from ray.util.state import list_nodes

    deadline = time.monotonic() + NODE_SECONDS
    while True:
        if alive := [node.resources_total for node in list_nodes(detail=True) if node.state == "ALIVE"]:
            return alive
        if time.monotonic() > deadline:
            raise InputError(
                f"RAY_ADDRESS={os.environ['RAY_ADDRESS']}: no node of the cluster is alive; start its nodes"
            )
        time.sleep(1)


def machine_of(folder: Path) -> Machine:
    """Return what a training in ``folder`` may use: the cluster of ``RAY_ADDRESS``, or what is free on this machine."""
    if "RAY_ADDRESS" in os.environ:
        return ray_cluster(folder)
    return Machine(
        nodes=1,
        gpus=visible_gpus(),
        cpus=len(os.sched_getaffinity(0)),
        memory=available_memory(),
        shared_memory=shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else None,
        disk=free_disk(folder),
        bfloat16=multiplies_bfloat16(),
    )
