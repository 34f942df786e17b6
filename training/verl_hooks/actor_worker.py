"""The actor's worker for recipes that skip updates or have a separate optimizer for supervised updates."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from tensordict import TensorDict
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LambdaLR
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id
from verl.utils.fsdp_utils import fsdp2_clip_grad_norm_, load_fsdp_optimizer, offload_fsdp_optimizer
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker


class PolicyTrainingWorker(TrainingWorker):
    """verl's worker with three additions that a batch can ask for.

    ``reads_logits``: the loss is called with the logits, too.
    ``skip_grad_norm``: an update with a larger gradient norm is left out, as one that is not finite is.
    ``sft_clip_grad``: a second optimizer with moments of its own and a constant learning rate makes the update, and the
    norm of the gradient is held to this. It is in the checkpoint.
    """

    engine: Any  # FSDP's engine; verl declares the parts that every engine has
    sft_optimizer: torch.optim.Optimizer | None = None

    def train_batch(self, data: TensorDict) -> TensorDict:
        with ExitStack() as stack:
            if limit := cast("float | None", tu.get_non_tensor_data(data, "skip_grad_norm", None)):
                stack.enter_context(skipping_above(self.engine, limit))
            if clip_grad := cast("float | None", tu.get_non_tensor_data(data, "sft_clip_grad", None)):
                stack.enter_context(self._sft_optimizer(clip_grad))
            if tu.get_non_tensor_data(data, "reads_logits", False):
                tu.assign_non_tensor(data, distillation_use_topk=True)  # so verl calls it
            return super().train_batch(data)

    @contextmanager
    def _sft_optimizer(self, clip_grad: float) -> Iterator[None]:
        engine = self.engine
        optimizer = self._built_sft_optimizer()
        policys = engine.optimizer, engine.lr_scheduler, engine.optimizer_config.clip_grad
        if engine._is_offload_optimizer:
            load_fsdp_optimizer(optimizer, get_device_id())
        engine.optimizer = optimizer
        engine.lr_scheduler = LambdaLR(optimizer, lambda _: 1.0)
        engine.optimizer_config.clip_grad = clip_grad
        try:
            yield
        finally:
            engine.optimizer, engine.lr_scheduler, engine.optimizer_config.clip_grad = policys
            if engine._is_offload_optimizer:
                offload_fsdp_optimizer(optimizer)

    def _built_sft_optimizer(self) -> torch.optim.Optimizer:
        if self.sft_optimizer is None:
            self.sft_optimizer = cast("torch.optim.Optimizer", self.engine._build_optimizer(self.engine.module))
        return self.sft_optimizer

    def _sft_file(self, folder: str) -> Path:
        return Path(folder) / f"sft_optim_world_size_{self.world_size}_rank_{self.rank}.pt"

    def save_checkpoint(self, local_path: str, *arguments: Any, **options: Any) -> None:
        super().save_checkpoint(local_path, *arguments, **options)
        if self.sft_optimizer is not None:
            torch.save(self.sft_optimizer.state_dict(), self._sft_file(local_path))

    def load_checkpoint(self, local_path: str, *arguments: Any, **options: Any) -> None:
        super().load_checkpoint(local_path, *arguments, **options)
        if (file := self._sft_file(local_path)).exists():
            self._built_sft_optimizer().load_state_dict(torch.load(file, weights_only=True))


class PolicyWorker(ActorRolloutRefWorker):
    """verl's worker of actor and vLLM, with an actor that is a `PolicyTrainingWorker`."""

    actor_worker_cls = PolicyTrainingWorker


@contextmanager
def skipping_above(engine: Any, limit: float) -> Iterator[None]:
    """Let ``engine`` leave out an update with a gradient norm above ``limit``; it reports the norm all the same."""
    engine.optimizer_step = partial(_step_up_to, engine, limit)  # verl has no hook between the norm and the step
    try:
        yield
    finally:
        del engine.optimizer_step


def _step_up_to(engine: Any, limit: float) -> float:
    norm = gradient_norm(engine.module)
    if norm > limit:
        engine.optimizer_zero_grad()
        return norm
    return type(engine).optimizer_step(engine)


def gradient_norm(module: torch.nn.Module) -> float:
    """Return the norm of all gradients over all ranks, which it leaves as they are."""
    if isinstance(module, FullyShardedDataParallel):
        norm = module.clip_grad_norm_(torch.inf)
    else:
        norm = fsdp2_clip_grad_norm_(module.parameters(), max_norm=torch.inf)
    return (norm.full_tensor() if isinstance(norm, DTensor) else norm).item()
