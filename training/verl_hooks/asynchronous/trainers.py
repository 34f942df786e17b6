"""verl's two asynchronous trainers with the step of `training.verl_hooks.trainer` (mixed-policy GRPO)."""

import time
from typing import Any

import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import PPOTrainerColocateAsync, PPOTrainerSeparateAsync, register_trainer

from training.verl_hooks.actor_worker import PolicyTrainingWorker
from training.verl_hooks.asynchronous.vllm_client import ResumingClient
from training.verl_hooks.batch import sample_of
from training.verl_hooks.replay_buffer import AsyncGroupBuffer
from training.verl_hooks.trainer import MixedPolicy


class AsynchronousPolicy(MixedPolicy):
    """Samples are drawn ``max_staleness`` batches ahead, and continue when the weights change."""

    buffer = AsyncGroupBuffer
    replay_buffer: AsyncGroupBuffer

    def __init__(self, config: Any):
        self.ahead = config.max_staleness
        super().__init__(config)

    def get_llm_client(self) -> ResumingClient:
        manager = self._rollout_server_managers()[-1]
        rollout = self.config.actor_rollout_ref.rollout
        requests = max(1, rollout.max_num_seqs * len(manager.get_replicas()) // rollout.agent.num_workers)
        return manager.get_client(client_cls=ResumingClient, requests=requests)

    def _setup(self) -> None:
        super()._setup()
        self.replay_buffer.require_servers = self._require_servers

    def _require_servers(self) -> None:
        """Raise Ray's error, which names the process, if a server of vLLM is gone."""
        ray.get([handle.__ray_ready__.remote() for handle in self._rollout_server_managers()[-1].server_handles])

    def on_train_begin(self) -> None:
        remaining = self.total_training_steps - self.global_steps + 1
        self._add_async_warmup_batches(min(self.ahead, remaining))

    def _add_batch_to_generate(self) -> None:
        if self.global_steps + self.ahead <= self.total_training_steps:  # no step would train on a later batch
            super()._add_batch_to_generate()

    def _next_train_batch(self, num_prompts: int | None = None) -> TensorDict:
        """verl's; each prompt with the number of the batch that it is drawn for, which decides its seed and plan."""
        batch = super()._next_train_batch(num_prompts)
        batch["batch_number"] = torch.tensor(self._batch_numbers(len(batch)))
        self.dispatched += len(batch)
        return batch

    def _batch_numbers(self, prompts: int) -> list[int]:
        places = range(self.dispatched, self.dispatched + prompts)
        return [place // self.config.data.train_batch_size + 1 for place in places]

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        # A step is saved before its own samples leave the queue; their prompts have left it, so nobody asks for them.
        entries = (tq.kv_list("train") or {}).get("train", {})
        waiting = {key for key, tag in entries.items() if tag.get("is_prompt", False)}
        if trained := [key for key in entries if key not in waiting and sample_of(key)[0] not in waiting]:
            tq.kv_clear(keys=trained, partition_id="train")


@register_trainer("mixed_colocate_async")
class ColocatedTrainer(AsynchronousPolicy, PPOTrainerColocateAsync):
    """vLLM and the actor take turns on the same devices; an update interrupts the samples that are not finished."""

    trainer_mode = property(lambda self: "colocate_async", lambda self, _: None)


@register_trainer("mixed_separate_async")
class SeparateTrainer(AsynchronousPolicy, PPOTrainerSeparateAsync):
    """vLLM has its own devices, and samples while the actor learns."""

    trainer_mode = property(lambda self: "separate_async", lambda self, _: None)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        self.role_worker_mapping[Role.Actor] = ray.remote(PinningActorWorker)

    def on_step_begin(self) -> None:
        super().on_step_begin()
        self._read_at = time.monotonic()
        self._busy_at = self._busy_seconds()

    def _busy_seconds(self) -> float:
        return ray.get(self._rollout_server_managers()[-1].global_load_balancer.busy_seconds.remote())

    def _rollouts_idle(self, timing_raw: dict[str, float]) -> float:
        # Requests wait at vLLM while it gets weights.
        busy = self._busy_seconds() - self._busy_at - timing_raw["update_weights"]
        return min(1.0, max(0.0, 1.0 - busy / (time.monotonic() - self._read_at)))


class PinningActorWorker(DetachActorWorker):
    """verl's worker, with its copy of the weights that a step starts from on a CPU, too.

    verl's ``tensor.cpu()`` is the tensor itself where the weights lie in the memory of the node, and the next update
    would change what should be compared with.
    """

    actor_worker_cls = PolicyTrainingWorker

    @property
    def copy_handler(self) -> Any:
        save = super().copy_handler

        def copy(model: torch.nn.Module) -> Any:
            state, spec = save(model)
            if next(model.parameters()).device.type == "cpu":
                state = {name: (tensor.clone(), sharding) for name, (tensor, sharding) in state.items()}
            return state, spec

        return copy
