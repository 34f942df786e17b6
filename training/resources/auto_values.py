"""Choose the values of the ``auto`` keys of a configuration from the machine and the model of a run."""

from collections.abc import Collection
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from core.errors import InputError
from core.machine.processor import LARGE, compute_dtype
from training.config.run import OFFLOADS, SEPARATE
from training.config.teacher_settings import has_server, teacher_gpus, top_tokens
from training.config.to_verl import set_precision
from training.resources.attention import AUTO, choose_attention, installed_kernels
from training.resources.layout import GPUS, STORE, Layout
from training.resources.machine import Machine
from training.resources.memory import BFLOAT16, USABLE, WEIGHTS_SHARE, generation_memory, training_memory
from training.resources.model_shape import ModelShape
from training.resources.requirements import BUNDLE, object_store

WORKERS = 8  # most workers of a kind
CORES = {  # for each worker of a kind
    "actor_rollout_ref.rollout.agent.num_workers": 3,
    "reward.num_workers": 4,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 8,
}
PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}
TEACHER_GPUS = "method.teacher.gpus"
TEACHER_PARALLEL = "distillation.teacher_models.teacher_model.inference.tensor_model_parallel_size"
TENSOR_PARALLEL = "actor_rollout_ref.rollout.tensor_model_parallel_size"


def resolve_auto(
    config: DictConfig,
    machine: Machine,
    shape: ModelShape,
    installed: Collection[str] | None = None,
    *,
    teacher: ModelShape | None = None,
) -> None:
    """Give every ``auto`` key of ``config`` its value.

    Args:
        installed: attention kernels; by default this interpreter's.
        teacher: the shape of a teacher that verl serves with the policy.

    Raises:
        InputError: there is no GPU, or a key has an unknown value.
    """
    with open_dict(config):
        if config.trainer.n_gpus_per_node == AUTO and not machine.gpus:
            raise InputError(
                f"{GPUS}=auto: no GPU is here (nvidia-smi, CUDA_VISIBLE_DEVICES): install the driver, say how many "
                "there are, or take the hardware profile cpu"
            )
        if machine.gpus and machine.gpu_memory is None and config.trainer.device == "cuda":
            _refuse_unknown(config, machine)
        if has_server(config):
            _fill(config, TEACHER_GPUS, _teacher_gpus(config, machine, teacher))
            gpus = config.method.teacher.gpus
            share = config.method.teacher.gpu_memory_utilization
            parallel = gpus if teacher is None else _fewest(teacher, gpus, share, machine)
            OmegaConf.update(config, TEACHER_PARALLEL, parallel)
        share = config.actor_rollout_ref.rollout.gpu_memory_utilization
        _fill(config, TENSOR_PARALLEL, _fewest(shape, max(1, _engine_gpus(config, machine)), share, machine))
        if config.rollouts == SEPARATE:
            _share_out(config, machine)
        elsewhere = config.rollout_gpus if config.rollouts == SEPARATE else 0
        _fill(config, GPUS, _actor_gpus(config, len(machine.gpus) - elsewhere - teacher_gpus(config)))
        gpus = int(config.trainer.n_gpus_per_node)
        if gpus < 1:
            raise InputError(
                f"method.teacher.gpus={config.method.teacher.gpus} leaves none of the {len(machine.gpus)} GPUs of a "
                "node to the actor: lower it, put the teacher behind an endpoint, or take a machine with more"
            )
        if config.trainer.device == "cpu":
            slots = config.ray_kwargs.ray_init  # Ray is told of as many as the run asks it for
            slots.num_gpus = max(slots.num_gpus, gpus + elsewhere + teacher_gpus(config))
        _fill(config, "actor_rollout_ref.rollout.n_gpus_per_node", gpus)
        cores = max(0, (machine.cpus or 0) - BUNDLE * gpus)
        for key, each in CORES.items():
            _fill(config, key, max(1, min(WORKERS, cores // each)))
        if config.trainer.device == "cpu":
            _processor(config, machine, shape)
        if config.rollout_precision == AUTO:
            config.rollout_precision = config.get("compute", "bfloat16")
            set_precision(config, config.rollout_precision)
        config.attention = choose_attention(
            config.attention,
            gpus=machine.gpus if config.trainer.device == "cuda" else (),
            head_dim=shape.head_dim,
            packed=config.actor_rollout_ref.model.use_remove_padding,
            sequence_parallel=config.actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size,
            installed=installed_kernels() if installed is None else installed,
        )
        config.actor_rollout_ref.model.override_config.attn_implementation = config.attention
        _offload(config, machine, shape)
        _fill(config, STORE, object_store(Layout(config)))


def _refuse_unknown(config: DictConfig, machine: Machine) -> None:
    """Raise InputError for ``auto`` keys that follow from a card of which nothing is known."""
    set_by = {TENSOR_PARALLEL: TENSOR_PARALLEL, "attention": "machine.attention", "offload": "machine.offload"}
    if keys := [name for key, name in set_by.items() if OmegaConf.select(config, key) == AUTO]:
        raise InputError(
            f"{', '.join(keys)}=auto: nothing is known of the kind of GPU ({machine.gpus[0].name}) "
            "that the cluster has: set the keys as docs/gpu.md says for your card"
        )


def _fewest(shape: ModelShape, gpus: int, utilization: float, machine: Machine) -> int:
    """Return the GPUs that share a model's weights: as few as leave room for keys and values, or all that can."""
    if (memory := machine.gpu_memory) is None:
        return 1
    possible = [n for n in range(1, gpus + 1) if gpus % n == 0 and shape.heads % n == 0]
    share = WEIGHTS_SHARE * utilization * memory
    return next((n for n in possible if BFLOAT16 * shape.parameters / n <= share), possible[-1])


def _teacher_gpus(config: DictConfig, machine: Machine, teacher: ModelShape | None) -> int:
    """Return a teacher's GPUs on each node: what the actor leaves if its number is auto too, or as few as hold it."""
    actor, there = config.trainer.n_gpus_per_node, len(machine.gpus)
    if config.trainer.device == "cpu" or teacher is None:
        return 1
    if actor == AUTO and config.rollouts != SEPARATE:
        return max(1, there - _actor_gpus(config, there - 1))
    return _fewest(teacher, there, config.method.teacher.gpu_memory_utilization, machine)


def _actor_gpus(config: DictConfig, most: int) -> int:
    """Return the actor's GPUs on each node: ``most``, or with a teacher as many as share a batch evenly."""
    samples = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    if not has_server(config):
        return most
    return next((n for n in range(most, 0, -1) if samples % (n * config.trainer.nnodes) == 0), most)


def _engine_gpus(config: DictConfig, machine: Machine) -> int:
    """Return the number of GPUs of a node on which vLLM generates."""
    actor, there = config.trainer.n_gpus_per_node, len(machine.gpus) - teacher_gpus(config)
    if config.rollouts != SEPARATE:
        return _actor_gpus(config, there) if actor == AUTO else actor
    if config.rollout_gpus != AUTO:
        return config.rollout_gpus
    if config.trainer.device == "cpu":
        return actor
    return there // 2 if actor == AUTO else there - actor


def _share_out(config: DictConfig, machine: Machine) -> None:
    """Give rollouts that have GPUs of their own their number per node; on a CPU these are slots that Ray is told of."""
    rollout, actor = config.actor_rollout_ref.rollout, config.trainer.n_gpus_per_node
    engine = rollout.tensor_model_parallel_size
    if config.rollout_gpus == AUTO:
        gpus = _engine_gpus(config, machine)
        config.rollout_gpus = gpus - gpus % engine
    left = len(machine.gpus) - config.rollout_gpus - teacher_gpus(config)
    if config.rollout_gpus < 1 or config.rollout_gpus % engine or (actor == AUTO and left < 1):
        raise InputError(
            f"rollouts.type={SEPARATE}: rollouts.gpus={config.rollout_gpus} of the {len(machine.gpus)} GPUs of a node: "
            f"expected a multiple of actor_rollout_ref.rollout.tensor_model_parallel_size={engine} that leaves some to "
            f"the actor ({GPUS}={actor}). Set them, or share the GPUs with rollouts.type=colocate_async"
        )
    rollout.nnodes, rollout.n_gpus_per_node = config.trainer.nnodes, config.rollout_gpus


def _fill(config: DictConfig, key: str, value: Any) -> None:
    """Set ``key`` to ``value`` if it is ``auto``."""
    if OmegaConf.select(config, key) == AUTO:
        OmegaConf.update(config, key, value)


def _processor(config: DictConfig, machine: Machine, shape: ModelShape) -> None:
    """Say how actor and vLLM compute on a CPU: a large model packed, on all cores, in what the processor multiplies
    fastest; a small one padded, on one core and in float32, with the same numbers on every machine."""
    large = shape.parameters >= LARGE
    hidden = ["use_fused_kernels"] if top_tokens(config) else []  # a divergence reads the logits
    for key in ("use_remove_padding", "use_fused_kernels"):
        _fill(config, f"actor_rollout_ref.model.{key}", large and key not in hidden)
        config.actor_rollout_ref.actor[key] = config.actor_rollout_ref.model[key]  # verl's reference to it is resolved
    at_once = config.trainer.n_gpus_per_node * (1 if config.rollouts == "sync" else 2)  # processes that compute
    _fill(config, "threads", max(1, (machine.cpus or 1) // at_once) if large else 1)
    _fill(config, "compute", compute_dtype(shape.parameters, bfloat16=machine.bfloat16))
    config.environment.OMP_NUM_THREADS = config.threads
    for role in ("actor", "ref"):
        config.actor_rollout_ref[role].fsdp_config.mixed_precision.param_dtype = PRECISIONS[config.compute]


def _offload(config: DictConfig, machine: Machine, shape: ModelShape) -> None:
    section = config.actor_rollout_ref.actor.fsdp_config
    offloads = OFFLOADS if config.offload == AUTO else (config.offload,)
    if section.fsdp_size == AUTO:  # a copy of the state per node, if it stays on the GPUs; else one in all
        per_node = [(OFFLOADS[0], config.trainer.n_gpus_per_node)] if OFFLOADS[0] in offloads else []
        ways = [*per_node, *((offload, -1) for offload in offloads)]
    else:
        ways = [(offload, section.fsdp_size) for offload in offloads]
    fitting = (way for way in ways if _fits(config, way[0], way[1], machine, shape))
    config.offload, section.fsdp_size = next(fitting, ways[-1])
    _fill(config, "actor_rollout_ref.ref.fsdp_config.fsdp_size", section.fsdp_size)
    section.param_offload = section.optimizer_offload = config.offload == "rollout"
    section.offload_policy = config.offload == "always"
    if section.offload_policy and config.trainer.device == "cuda" and machine.cpus:
        # The processors update Adam's state, on one thread per rank unless Ray finds another number.
        config.environment.OMP_NUM_THREADS = max(1, machine.cpus // config.trainer.n_gpus_per_node)


def _fits(config: DictConfig, offload: str, shards: int, machine: Machine, shape: ModelShape) -> bool:
    """Return whether every GPU has the memory for a way to keep the actor's state."""
    if (memory := machine.gpu_memory) is None:
        return True
    section = config.actor_rollout_ref.actor.fsdp_config
    config.offload, section.fsdp_size = offload, shards
    layout = Layout(config)
    peaks = [sum(training_memory(shape, layout).values())]
    if layout.objective == "rl":
        peaks.append(sum(generation_memory(shape, layout, memory).values()))
    return max(peaks) <= USABLE * memory
