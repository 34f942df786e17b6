"""The layout of a run over its GPUs: the keys of the configuration that decide memory and speed, under short names.

`training.resources.auto_values` chooses those that are ``auto``.
"""

from typing import TYPE_CHECKING

from training.config.method_keys import of_run
from training.config.run import SEPARATE
from training.config.teacher_settings import has_server, shown_share, shown_tokens, teacher_gpus, top_tokens

if TYPE_CHECKING:
    from omegaconf import DictConfig  # the orchestration reads plans, too, and has no OmegaConf

GPUS = "trainer.n_gpus_per_node"
FSDP = "actor_rollout_ref.actor.fsdp_config"
STORE = "ray_kwargs.ray_init.object_store_memory"


class Layout:
    """The layout of a configuration with values for its ``auto`` keys. GPUs are per node, lengths are in tokens."""

    def __init__(self, config: "DictConfig") -> None:
        actor, rollout, model = (config.actor_rollout_ref[name] for name in ("actor", "rollout", "model"))
        self.objective: str = config.objective
        rollouts = self.objective == "rl"
        self.nodes: int = config.trainer.nnodes
        self.gpus: int = config.trainer.n_gpus_per_node  # of the actor
        self.devices = self.nodes * self.gpus  # of the actor, on all nodes
        size = actor.fsdp_config.fsdp_size
        self.shards: int = self.devices if size <= 0 else min(size, self.devices)  # GPUs that share a copy of the state
        self.tensor_parallel: int = rollout.tensor_model_parallel_size
        self.micro_batch: int = actor.ppo_max_token_len_per_gpu  # tokens per GPU
        self.offload: str = config.offload
        self.fused = bool(model.use_fused_kernels)
        self.packed = bool(model.use_remove_padding)
        self.scores = top_tokens(config)  # of each token, for a divergence
        self.checkpointing = bool(model.enable_gradient_checkpointing)
        self.attention: str = config.attention
        self.utilization: float = rollout.gpu_memory_utilization
        self.lora_rank: int = model.lora_rank
        precision = actor.fsdp_config.get("mixed_precision")
        self.width = 4 if precision and precision.param_dtype == "fp32" else 2  # bytes per number in computations
        self.sequences: int = config.data.train_batch_size * (rollout.n if rollouts else 1)  # samples of one step
        share = shown_share(config)  # of the target, which the prompt shows
        self.prompt_length: int = config.data.max_prompt_length + (shown_tokens(config, share) if share else 0)
        self.response_length: int = config.data.max_response_length
        # Of a micro-batch with one sample of full length, which the GPUs of Ulysses share.
        longest = self.prompt_length + self.response_length
        self.least_micro_batch = -(-longest // actor.fsdp_config.ulysses_sequence_parallel_size)
        self.optimizers = 2 if of_run(config).second_optimizer else 1  # supervised updates may have their own
        self.rollout_gpus: int = config.rollout_gpus if config.rollouts == SEPARATE else 0  # of rollouts alone
        self.teacher_gpus = teacher_gpus(config) if rollouts else 0
        server = config.distillation.teacher_models.teacher_model.inference
        self.teacher_parallel: int = server.tensor_model_parallel_size  # of them, that share its weights
        self.teacher_utilization: float = config.method.teacher.gpu_memory_utilization if has_server(config) else 0.0
        self.reserved = self.nodes * (self.gpus + self.rollout_gpus + self.teacher_gpus)  # devices that the run holds
