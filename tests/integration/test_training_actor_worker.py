"""The actor's worker on verl's real engine: updates that are left out, and the optimizer of supervised updates."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

os.environ["VERL_USE_EXTERNAL_MODULES"] = "training.platforms.every_process"  # before verl is imported

from engine_ranks import batch, build, loss

from training.verl_hooks.actor_worker import PolicyTrainingWorker, gradient_norm, skipping_above


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyTrainingWorker]:
    """A worker around an engine, without the actor of Ray that verl puts it into."""
    meet = tmp_path_factory.mktemp("rank") / "meet"
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=0, world_size=1)
    made = PolicyTrainingWorker.__new__(PolicyTrainingWorker)
    made.engine = build(meet.parent, use_remove_padding=False)
    made.__dict__.update(_rank=0, _world_size=1)
    yield made
    dist.destroy_process_group()


def weights(worker: PolicyTrainingWorker) -> torch.Tensor:
    return torch.cat([parameter.full_tensor().detach().flatten() for parameter in worker.engine.module.parameters()])  # pyright: ignore[reportAttributeAccessIssue]


def backward(worker: PolicyTrainingWorker) -> None:
    worker.engine.optimizer_zero_grad()
    data = batch(0, 1, packed=False, fused=False)
    worker.engine.forward_backward_batch(data, loss, forward_only=False)


def test_an_update_with_a_larger_gradient_norm_is_left_out(worker: PolicyTrainingWorker) -> None:
    with worker.engine.train_mode():
        backward(worker)
        norm, before = gradient_norm(worker.engine.module), weights(worker)
        with skipping_above(worker.engine, 0.9 * norm):
            assert worker.engine.optimizer_step() == pytest.approx(norm)
        assert torch.equal(weights(worker), before)
        backward(worker)
        with skipping_above(worker.engine, 1.1 * norm):
            assert worker.engine.optimizer_step() == pytest.approx(norm)
        assert not torch.equal(weights(worker), before)
    assert "optimizer_step" not in vars(worker.engine)


def test_supervised_updates_have_moments_of_their_own(worker: PolicyTrainingWorker, tmp_path: Path) -> None:
    policys = worker.engine.optimizer
    with worker.engine.train_mode():
        backward(worker)
        worker.engine.optimizer_step()
        moments = {key: {name: value.clone() for name, value in state.items()} for key, state in policys.state.items()}
        before, limit = weights(worker), worker.engine.optimizer_config.clip_grad
        backward(worker)
        norm = gradient_norm(worker.engine.module)
        with worker._sft_optimizer(norm / 2):
            worker.engine.optimizer_step()
            assert gradient_norm(worker.engine.module) == pytest.approx(norm / 2, rel=1e-4)
            assert worker.engine.lr_scheduler_step() == pytest.approx(1e-3)
    assert (worker.engine.optimizer, worker.engine.optimizer_config.clip_grad) == (policys, limit)
    assert not torch.equal(weights(worker), before)
    for key, state in policys.state.items():
        assert all(torch.equal(value, moments[key][name]) for name, value in state.items())
    assert worker.sft_optimizer is not None
    assert {float(state["step"]) for state in worker.sft_optimizer.state.values()} == {1.0}
