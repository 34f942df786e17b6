"""The layout of a run over its GPUs: the keys of the configuration that decide memory and speed.

`training.resources.auto_values` chooses those that are ``auto``.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from training.config.method_keys import of_run
from training.config.run import SEPARATE
from training.config.teacher_settings import has_server, shown_share, shown_tokens, teacher_gpus

if TYPE_CHECKING:
    from omegaconf import DictConfig  # the orchestration reads plans, too, and has no OmegaConf

GPUS = "trainer.n_gpus_per_node"
FSDP = "actor_rollout_ref.actor.fsdp_config"
STORE = "ray_kwargs.ray_init.object_store_memory"


@dataclass(frozen=True)
class Layout:
    """The keys of the layout, under short names."""

    objective: str
    nodes: int
    gpus: int  # per node
    shards: int  # GPUs that share one copy of the state
    sequence_parallel: int
    tensor_parallel: int
    micro_batch: int  # tokens per GPU
    offload: str
    fused: bool
    packed: bool
    checkpointing: bool
    attention: str
    utilization: float
    lora_rank: int
    full_precision: bool  # computes in float32
    prompts: int
    samples: int  # per prompt
    prompt_length: int
    response_length: int
    rollout_gpus: int = 0  # per node, of rollouts that have GPUs of their own
    optimizers: int = 1  # supervised updates beside those of the policy have their own
    teacher_gpus: int = 0  # per node
    teacher_parallel: int = 1  # of them, that share its weights
    teacher_utilization: float = 0.0

    @property
    def least_micro_batch(self) -> int:
        """Tokens per GPU of a micro-batch with one sample of full length, which the GPUs of Ulysses share."""
        return -(-(self.prompt_length + self.response_length) // self.sequence_parallel)

    @property
    def sequences(self) -> int:
        """Samples of one step."""
        return self.prompts * self.samples

    @property
    def devices(self) -> int:
        """GPUs of the actor."""
        return self.nodes * self.gpus

    @property
    def reserved(self) -> int:
        """Devices that the run holds: those of the actor, and of rollouts and a teacher that have their own."""
        return self.nodes * (self.gpus + self.rollout_gpus + self.teacher_gpus)

    @property
    def width(self) -> int:
        """Bytes per number in computations."""
        return 4 if self.full_precision else 2

    @classmethod
    def of(cls, config: "DictConfig") -> "Layout":
        """Return the layout of a configuration whose ``auto`` keys have their values."""
        actor, rollout, model = (config.actor_rollout_ref[name] for name in ("actor", "rollout", "model"))
        devices, size = config.trainer.nnodes * config.trainer.n_gpus_per_node, actor.fsdp_config.fsdp_size
        rollouts = config.objective == "rl"
        precision = actor.fsdp_config.get("mixed_precision")
        return cls(
            objective=config.objective,
            nodes=config.trainer.nnodes,
            gpus=config.trainer.n_gpus_per_node,
            shards=devices if size <= 0 else min(size, devices),
            sequence_parallel=actor.fsdp_config.ulysses_sequence_parallel_size,
            tensor_parallel=rollout.tensor_model_parallel_size,
            micro_batch=actor.ppo_max_token_len_per_gpu,
            offload=config.offload,
            fused=bool(model.use_fused_kernels),
            packed=bool(model.use_remove_padding),
            checkpointing=bool(model.enable_gradient_checkpointing),
            attention=config.attention,
            utilization=rollout.gpu_memory_utilization,
            lora_rank=model.lora_rank,
            full_precision=bool(precision) and precision.param_dtype == "fp32",
            prompts=config.data.train_batch_size,
            samples=rollout.n if rollouts else 1,
            prompt_length=_prompt_length(config),
            response_length=config.data.max_response_length,
            rollout_gpus=config.rollout_gpus if config.rollouts == SEPARATE else 0,
            optimizers=2 if of_run(config).second_optimizer else 1,
            teacher_gpus=teacher_gpus(config) if rollouts else 0,
            teacher_parallel=config.distillation.teacher_models.teacher_model.inference.tensor_model_parallel_size,
            teacher_utilization=config.method.teacher.gpu_memory_utilization if has_server(config) else 0.0,
        )


def _prompt_length(config: "DictConfig") -> int:
    """Return the most tokens of a prompt, with the beginning of the target where it shows one."""
    longest, share = config.data.max_prompt_length, shown_share(config)
    return longest + shown_tokens(config, share) if share else longest
