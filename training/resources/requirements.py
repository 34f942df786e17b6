"""What a run must have of its nodes: GPUs, logical CPUs of Ray, shared memory and disk. Without it, it is refused.

Ray would wait silently for GPUs and CPUs, and the others would fail late.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from core.errors import InputError
from training.resources.layout import FSDP, GPUS, STORE, Layout
from training.resources.machine import Machine, free_disk
from training.resources.memory import BFLOAT16, GB, OPTIMIZER, PARAMETER, trainable
from training.resources.model_shape import ModelShape

if TYPE_CHECKING:
    from omegaconf import DictConfig

MIB = 2**20
SHARED = 200 * MIB  # memory of NCCL and vLLM for each GPU
TRANSFER = 64  # bytes per token of a step in the TransferQueue: ids, masks, positions, log-probabilities, advantages
SCORE = 8  # bytes of a token that a teacher scores for a divergence: its id and log-probability
# Logical CPUs that verl reserves for each GPU: of the actor, of rollouts that have their own, of supervised training.
BUNDLE, ROLLOUT_BUNDLE, SUPERVISED_BUNDLE = 3, 2, 1


class Requirement(NamedTuple):
    """A number or bytes that a run needs; ``available`` is None where it is unknown. ``remedy`` names keys to set."""

    name: str
    needed: float
    available: float | None
    remedy: str
    unit: float = 1  # of the numbers that are shown; GB: they are bytes

    def __str__(self) -> str:
        needed, available = (f"{(value or 0) / self.unit:,.{int(self.unit > 1)}f}" for value in self[1:3])
        return f"{self.name}: needs {needed} of {available}{' GB' * (self.unit > 1)}: try {self.remedy}"


def check_requirements(config: "DictConfig", machine: Machine, shape: ModelShape, *, saved: int = 0) -> None:
    """Check what the run of a resolved ``config``, with ``saved`` checkpoints, needs of each node of ``machine``.

    Raises:
        InputError: something is missing; the message names the keys to change.
    """
    layout, cuda = Layout(config), config.trainer.device == "cuda"
    needed = [*_of_a_node(config, layout, machine, shape, saved), *(_of_gpus(layout, machine) if cuda else ())]
    missing = [str(one) for one in needed if one.available is not None and one.needed > one.available]
    if missing:
        raise InputError(f"the run does not fit: {'; '.join(missing)}")


def _of_gpus(layout: Layout, machine: Machine) -> list[Requirement]:
    sharing = f"{'rollouts.gpus, ' * bool(layout.rollout_gpus)}{'method.teacher.gpus, ' * bool(layout.teacher_gpus)}"
    remedy = f"{GPUS}, {sharing}or CUDA_VISIBLE_DEVICES"
    tokens = (
        f"actor_rollout_ref.actor.ppo_max_token_len_per_gpu (a sample must fit), {FSDP}.ulysses_sequence_parallel_size"
    )
    return [
        Requirement("GPUs per node", layout.reserved // layout.nodes, len(machine.gpus), remedy),
        Requirement("tokens of a micro-batch on each GPU", layout.least_micro_batch, layout.micro_batch, tokens),
    ]


def _of_a_node(
    config: "DictConfig", layout: Layout, machine: Machine, shape: ModelShape, saved: int
) -> list[Requirement]:
    declared = None if "RAY_ADDRESS" in os.environ else config.ray_kwargs.ray_init.get("num_cpus")  # of a new cluster
    cpus = "ray_kwargs.ray_init.num_cpus (they are logical: more than there are cores is allowed), or fewer GPUs"
    nodes = "nodes with GPUs" if config.trainer.device == "cuda" else "nodes"
    shared = shared_memory(shape, layout, config)
    store = f"{STORE}, or the size that the container gets (docker --shm-size)"
    written = disk(shape, layout, config, saved)
    keep = "run.keep_checkpoints, or another disk for --out"
    return [
        Requirement(nodes, layout.nodes, machine.nodes, "trainer.nnodes"),
        Requirement("CPUs that verl and Ray reserve", logical_cpus(layout, config), declared or machine.cpus, cpus),
        Requirement("/dev/shm", shared, machine.shared_memory, store, GB),
        Requirement("disk of the run's folder", written, machine.disk, keep, GB),
    ]


def object_store(layout: Layout) -> int:
    """Return the size of Ray's object store in bytes: what travels in a step, with room for what is freed late."""
    tokens = layout.sequences * (layout.prompt_length + layout.response_length)
    return int(max(1e9, 4 * (TRANSFER + SCORE * layout.scores) * tokens))


def shared_memory(shape: ModelShape, layout: Layout, config: "DictConfig") -> float:
    """Return the bytes that each node needs in /dev/shm: on GPUs Ray's object store and the share of NCCL and vLLM.

    On a CPU, weights reach vLLM through it, a bucket at a time; Ray's store may lie elsewhere.
    """
    if config.trainer.device == "cpu":
        bucket = config.actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes * MIB
        return layout.gpus * min(bucket, PARAMETER * shape.parameters) if layout.objective == "rl" else 0.0
    store = config.ray_kwargs.ray_init.get("object_store_memory") or object_store(layout)
    return store + layout.gpus * SHARED


def logical_cpus(layout: Layout, config: "DictConfig") -> int:
    """Return the CPUs that Ray must have on each node for the run to start: it would wait for them silently."""
    if layout.objective == "sft":
        return SUPERVISED_BUNDLE * layout.gpus + 1
    units = config.transfer_queue.backend.SimpleStorage.num_data_storage_units
    gpus = BUNDLE * (layout.gpus + layout.teacher_gpus) + ROLLOUT_BUNDLE * layout.rollout_gpus
    return gpus + 2 + -(-units // layout.nodes)


def disk(shape: ModelShape, layout: Layout, config: "DictConfig", saved: int) -> float:
    """Return the bytes of the run's folder: the checkpoints that stay, one that is being written, and the policy.

    ``saved`` checkpoints are there already.
    """
    best = config.trainer.test_freq > 0  # the best validated checkpoint stays, too
    kept = max(1, config.run.keep_checkpoints + 1 + best - saved)
    width = PARAMETER if config.policy_dtype == "float32" else BFLOAT16
    return kept * checkpoint_bytes(shape, layout) + shape.parameters * width


def checkpoint_bytes(shape: ModelShape, layout: Layout) -> float:
    """Return the bytes of a checkpoint: float32 parameters and moments of trained ones, once per copy of the state."""
    copies = layout.devices / layout.shards  # every rank writes its shard
    return copies * (PARAMETER * shape.parameters + layout.optimizers * OPTIMIZER * trainable(shape, layout))


def require_disk(config: "DictConfig") -> None:
    """Raise InputError if the disk of a run has no room for a checkpoint.

    A save that fails halfway would leave ranks that wait for each other.
    """
    folder, shape = Path(config.paths.run), ModelShape.of_folder(Path(config.actor_rollout_ref.model.path))
    needed, free = checkpoint_bytes(shape, Layout(config)), free_disk(folder)
    if free < needed:
        raise InputError(
            f"{folder}: {free / GB:,.1f} GB are free, and a checkpoint takes {needed / GB:,.1f} GB: make room and run "
            "the command again; it resumes from the last checkpoint"
        )
