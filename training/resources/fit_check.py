"""Compare the needs of a run with the machine, report both, and refuse a run that cannot fit."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.files import read_json
from training.extensions import extension
from training.resources.host import disk, host_memory, logical_cpus, shared_memory
from training.resources.layout import FSDP, GPUS, STORE, Layout
from training.resources.machine import Machine, card_of, free_disk
from training.resources.memory import (
    USABLE,
    cache_bytes,
    checkpoint_bytes,
    generation_memory,
    teacher_memory,
    teacher_server,
    token_bytes,
    training_memory,
)
from training.resources.model_shape import ModelShape

if TYPE_CHECKING:
    from omegaconf import DictConfig

PLAN = "plan.json"
FORCE = "run.force_fit=true"
GB = 1e9


@dataclass(frozen=True)
class Need:
    """One thing that a run needs; ``available`` is None where it is unknown. ``remedy`` names the keys to try."""

    name: str
    needed: float
    available: float | None
    remedy: str
    parts: Mapping[str, float] = field(default_factory=dict)
    unit: str = "bytes"  # or "count"

    @property
    def fits(self) -> bool:
        return self.available is None or self.needed <= self.available

    def __str__(self) -> str:
        available = "an unknown amount" if self.available is None else self._show(self.available)
        parts = ", ".join(f"{name} {self._show(part)}" for name, part in self.parts.items() if part >= 0.05 * GB)
        return f"{self.name}: needs {self._show(self.needed)} of {available}" + (f" ({parts})" if parts else "")

    def _show(self, value: float) -> str:
        return f"{value / GB:,.1f} GB" if self.unit == "bytes" else f"{value:,.0f}"


def needs(
    config: "DictConfig", machine: Machine, shape: ModelShape, *, saved: int = 0, teacher: ModelShape | None = None
) -> list[Need]:
    """Return what the run of a resolved ``config``, with ``saved`` checkpoints, needs of each node of ``machine``.

    ``teacher``: that of a model which verl serves beside the policy.
    """
    layout, cuda = Layout.of(config), config.trainer.device == "cuda"
    result = [Need("nodes with GPUs" if cuda else "nodes", layout.nodes, machine.nodes, "trainer.nnodes", unit="count")]
    if cuda:
        result += _gpu_needs(layout, machine, shape)
        result += _teacher_needs(layout, machine, teacher) if teacher else []
    declared = None if config.run.backend == "ray" else config.ray_kwargs.ray_init.get("num_cpus")  # of a new cluster
    parts = host_memory(shape, layout, config, cuda=cuda, teacher=teacher)
    spend = disk(shape, layout, config, saved)
    result += [
        Need(
            "CPUs that verl and Ray reserve",
            logical_cpus(layout, config),
            declared or machine.cpus,
            "ray_kwargs.ray_init.num_cpus (they are logical: more than there are cores is allowed), or fewer GPUs",
            unit="count",
        ),
        Need(
            "memory of the node",
            sum(parts.values()),
            machine.memory,
            "the numbers of workers (actor_rollout_ref.rollout.agent.num_workers, reward.num_workers), a smaller "
            "model, or more nodes",
            parts,
        ),
        Need(
            "/dev/shm",
            shared_memory(shape, layout, config),
            machine.shared_memory,
            f"{STORE}, or the size that the container gets (docker --shm-size)",
        ),
        Need(
            "disk of the run's folder",
            sum(spend.values()),
            machine.disk,
            "run.keep_checkpoints, or another disk for --out",
            spend,
        ),
    ]
    return result


def _gpu_needs(layout: Layout, machine: Machine, shape: ModelShape) -> list[Need]:
    memory = machine.gpu_memory
    usable = USABLE * memory if memory else None
    training = training_memory(shape, layout)
    result = [
        Need(
            "GPUs per node",
            layout.gpus + layout.rollout_gpus + layout.teacher_gpus,
            len(machine.gpus),
            f"{GPUS}, {'rollout_gpus, ' if layout.rollout_gpus else ''}"
            f"{'teacher.gpus, a teacher behind an endpoint, ' if layout.teacher_gpus else ''}or CUDA_VISIBLE_DEVICES",
            unit="count",
        ),
        Need(
            "each GPU while it trains",
            sum(training.values()),
            usable,
            "offload=always, actor_rollout_ref.model.lora_rank=64, a smaller "
            f"actor_rollout_ref.actor.ppo_max_token_len_per_gpu (not below {layout.least_micro_batch} tokens), "
            f"more GPUs ({GPUS})",
            training,
        ),
    ]
    if layout.objective == "rl" and memory:
        result += _generation_needs(layout, shape, memory)
    if layout.micro_batch < layout.least_micro_batch:
        result.append(
            Need(
                "tokens of a micro-batch on each GPU",
                layout.least_micro_batch,
                layout.micro_batch,
                f"actor_rollout_ref.actor.ppo_max_token_len_per_gpu (a sample must fit), {FSDP}."
                "ulysses_sequence_parallel_size",
                unit="count",
            )
        )
    return result


def _generation_needs(layout: Layout, shape: ModelShape, memory: float) -> list[Need]:
    """Return the needs of vLLM on each GPU, whose ``memory`` is in bytes."""
    generation = generation_memory(shape, layout, memory)
    return [
        Need(
            "each GPU while vLLM generates",
            sum(generation.values()),
            USABLE * memory,
            "a lower actor_rollout_ref.rollout.gpu_memory_utilization, or offload=rollout",
            generation,
        ),
        Need(
            "vLLM's cache for one sample of full length",
            token_bytes(shape, layout) * (layout.prompt_length + layout.response_length),
            max(0.0, cache_bytes(shape, layout, memory)),
            "a higher actor_rollout_ref.rollout.gpu_memory_utilization or tensor_model_parallel_size, or a "
            "lower data.max_response_length",
        ),
    ]


def _teacher_needs(layout: Layout, machine: Machine, teacher: ModelShape) -> list[Need]:
    if (memory := machine.gpu_memory) is None:
        return []
    server, whole = teacher_server(teacher, layout), teacher_memory(teacher, layout, memory)
    return [
        Need(
            "vLLM's share of each GPU of the teacher",
            sum(server.values()),
            layout.teacher_utilization * memory,
            "a higher teacher.gpus or teacher.gpu_memory_utilization, or a teacher behind an endpoint",
            server,
        ),
        Need(
            "each GPU of the teacher",
            sum(whole.values()),
            USABLE * memory,
            "a lower teacher.gpu_memory_utilization or data.max_response_length",
            whole,
        ),
    ]


def check_fit(
    config: "DictConfig",
    machine: Machine,
    shape: ModelShape,
    say: Callable[[str], None],
    *,
    saved: int = 0,
    teacher: ModelShape | None = None,
) -> dict[str, Any]:
    """Report the needs of the run and the available resources; return the plan, a JSON object.

    Raises:
        InputError: something does not fit, and ``run.force_fit`` is not set. The message names the keys to change.
    """
    layout, wanted = Layout.of(config), needs(config, machine, shape, saved=saved, teacher=teacher)
    for need in wanted:
        say(str(need))
    card = card_of(machine.gpus[0].name) if machine.gpus and config.trainer.device == "cuda" else None
    plan: dict[str, Any] = {
        "shape": asdict(shape),
        "layout": asdict(layout),
        "card": card.name if card else None,
        "checkpoint_bytes": checkpoint_bytes(shape, layout),
        "needs": [{"name": need.name, "needed": need.needed, "available": need.available} for need in wanted],
    }
    if card:
        longest = {"prompt": float(layout.prompt_length), "response": float(layout.response_length)}
        prediction = extension("predict")(shape, layout, card, **longest, generated=1.0)
        plan["longest_step"] = asdict(prediction)
        phases = ", ".join(f"{name} {seconds:,.0f} s" for name, seconds in prediction.seconds.items())
        say(f"a step takes about {sum(prediction.seconds.values()):,.0f} s if all samples have full length ({phases})")
    missing = [need for need in wanted if not need.fits]
    if missing and not config.run.force_fit:
        reasons = "; ".join(f"{need}: try {need.remedy}" for need in missing)
        raise InputError(f"the run does not fit: {reasons}. {FORCE} starts it all the same")
    for need in missing:
        say(f"does not fit, and {FORCE}: {need.name}")
    return plan


def require_disk(folder: Path) -> None:
    """Raise InputError if the disk of the run in ``folder`` has no room for a checkpoint.

    A save that fails halfway would leave ranks that wait for each other.
    """
    needed, free = read_json(folder / PLAN)["checkpoint_bytes"], free_disk(folder)
    if free < needed:
        raise InputError(
            f"{folder}: {free / GB:,.1f} GB are free, and a checkpoint takes {needed / GB:,.1f} GB: make room and run "
            "the command again; it resumes from the last checkpoint"
        )
