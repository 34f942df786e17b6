"""The needs of a node besides its GPUs: memory, shared memory, logical CPUs of Ray, and disk."""

from typing import TYPE_CHECKING

from training.resources.layout import Layout
from training.resources.memory import BFLOAT16, PARAMETER, checkpoint_bytes, state_bytes, trainable
from training.resources.model_shape import ModelShape

if TYPE_CHECKING:
    from omegaconf import DictConfig

MIB = 2**20
# Memory of each process that verl and Ray start, with a model of no size: measured on a CPU by
# perf/trainings/steps.py --memory at commit 33d82975.
COMMAND, RUNNER, BALANCER, CONTROLLER, RAY = (mib * MIB for mib in (590, 600, 550, 285, 360))
ACTOR, SERVER, ENGINE, AGENT, REWARD, STORAGE = (mib * MIB for mib in (650, 585, 580, 590, 360, 285))
SHARED = 200 * MIB  # memory of NCCL and vLLM for each GPU
CUDA = 2.5e9  # memory of each process with a CUDA context: an estimate
TRANSFER = 64  # bytes per token of a step in the TransferQueue: ids, masks, positions, log-probabilities, advantages
# Logical CPUs that verl reserves for each GPU: of the actor, of rollouts that have their own, of supervised training.
BUNDLE, ROLLOUT_BUNDLE, SUPERVISED_BUNDLE = 3, 2, 1


def processes_memory(layout: Layout, config: "DictConfig", *, cuda: bool) -> float:
    """Return the memory of a node's processes before they hold a model, in bytes."""
    extra = CUDA if cuda else 0.0
    if layout.objective == "sft":
        return COMMAND + RUNNER + RAY + layout.gpus * (ACTOR + extra)
    servers = max(1, layout.engine_gpus // layout.tensor_parallel)
    return (
        COMMAND
        + RUNNER
        + BALANCER
        + CONTROLLER
        + RAY
        + layout.gpus * (ACTOR + extra)
        + servers * SERVER
        + layout.engine_gpus * (ENGINE + extra)
        + layout.rollout_gpus * (ACTOR + extra)  # the worker that receives weights
        + (SERVER + layout.teacher_gpus * (ACTOR + ENGINE + 2 * extra) if layout.teacher_gpus else 0.0)
        + config.actor_rollout_ref.rollout.agent.num_workers * AGENT
        + config.reward.num_workers * REWARD
        + config.transfer_queue.backend.SimpleStorage.num_data_storage_units * STORAGE
    )


def host_memory(
    shape: ModelShape, layout: Layout, config: "DictConfig", *, cuda: bool, teacher: ModelShape | None = None
) -> dict[str, float]:
    """Return the bytes of memory that each node needs, by purpose; ``teacher`` is a model served beside the policy."""
    parts = {"processes": processes_memory(layout, config, cuda=cuda)}
    tokens = layout.sequences * (layout.prompt_length + layout.response_length)
    batches = 1 if config.rollouts == "sync" else config.max_staleness + 1
    parts["samples"] = TRANSFER * tokens * batches if layout.objective == "rl" else 0.0
    if not cuda:  # the state lies in the memory of the node, beside vLLM's weights and cache
        rollout = config.actor_rollout_ref.rollout.engine_kwargs.vllm
        parts["state"] = state_bytes(shape, layout) * layout.gpus / layout.shards
        parts["pinned weights"] = pinned_bytes(shape, layout)
        if layout.objective == "rl":
            parts["vLLM"] = layout.engine_gpus * (
                2 * PARAMETER * shape.parameters + rollout.get("kv_cache_memory_bytes", 0)
            )
        if teacher:
            parts["teacher"] = 2 * PARAMETER * teacher.parameters + rollout.get("kv_cache_memory_bytes", 0)
        return parts
    # The first rank reads the model, and every rank does where embedding and head are one.
    parts["loading"] = PARAMETER * shape.parameters * (layout.gpus if shape.tied else 1)
    share = layout.gpus / layout.shards
    parts["pinned weights"] = pinned_bytes(shape, layout)
    match layout.offload:
        case "always":
            parts["state"] = state_bytes(shape, layout) * share
        case "rollout":
            kept = PARAMETER * trainable(shape, layout)  # the gradients, which are freed
            parts["state"] = (state_bytes(shape, layout) - kept) * share
    if layout.reference:
        parts["reference"] = layout.width * shape.parameters * share
    return parts


def pinned_bytes(shape: ModelShape, layout: Layout) -> float:
    """Return the bytes of two copies of the weights, of the step's start and the present, where both are kept."""
    copies = 2 if layout.rollout_gpus else 0
    return copies * PARAMETER * shape.parameters * layout.gpus / layout.shards


def object_store(layout: Layout) -> int:
    """Return the size of Ray's object store in bytes: what travels in a step, with room for what is freed late."""
    tokens = layout.sequences * (layout.prompt_length + layout.response_length)
    return int(max(1e9, 4 * TRANSFER * tokens))


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


def disk(shape: ModelShape, layout: Layout, config: "DictConfig", saved: int) -> dict[str, float]:
    """Return the bytes of the run's folder: the checkpoints that are kept, one that is being written, and the policy.

    ``saved`` checkpoints are there already.
    """
    best = config.trainer.test_freq > 0  # a validated checkpoint is kept beside the newest
    kept = max(1, config.run.keep_checkpoints + 1 + best - saved)
    return {
        "checkpoints": kept * checkpoint_bytes(shape, layout),
        "policy": shape.parameters * (PARAMETER if config.policy_dtype == "float32" else BFLOAT16),
    }
