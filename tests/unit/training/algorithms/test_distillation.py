"""The scores of a teacher: numbers by hand, verl's own loss, and what must hold for any batch."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from verl.trainer.distillation.losses import distillation_loss  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402
from verl.utils.config import omega_conf_to_dataclass  # noqa: E402
from verl.workers.config import DistillationConfig, DistillationLossConfig  # noqa: E402

from training.algorithms.on_policy import Ppo  # noqa: E402
from training.algorithms.policy import mixed_policy_token_loss  # noqa: E402
from training.algorithms.teacher import Teacher, teacher_advantage  # noqa: E402

USE = Teacher()
LENGTH = 3
VALUES = st.lists(st.floats(-6.0, 0.0), min_size=2 * LENGTH, max_size=2 * LENGTH)


@settings(max_examples=60, deadline=None)
@given(VALUES, VALUES, st.lists(st.booleans(), min_size=2 * LENGTH, max_size=2 * LENGTH), st.floats(0.1, 3.0))
def test_the_advantage_is_bounded_and_only_of_scored_tokens(own, teachers, scored, bound) -> None:
    log_prob, teacher = (torch.tensor(values).view(2, LENGTH) for values in (own, teachers))
    mask = torch.tensor(scored).view(2, LENGTH)
    advantage = teacher_advantage(log_prob, teacher, mask, Teacher(max_advantage=bound))
    assert not advantage[~mask].any()
    assert advantage.abs().max() <= bound + 1e-6
    assert torch.equal(advantage.sign()[mask], (teacher - log_prob).sign()[mask])
    # The scores of a teacher that agrees on every token say nothing.
    assert not teacher_advantage(log_prob, log_prob, mask, USE).any()
    # What stands at the other tokens has no influence, even when it is not finite.
    broken = torch.where(mask, teacher, torch.nan)
    assert torch.equal(teacher_advantage(log_prob, broken, mask, USE), teacher_advantage(log_prob, teacher, mask, USE))


@settings(max_examples=40, deadline=None)
@given(VALUES, VALUES)
def test_the_first_update_is_that_of_verl(own, teachers) -> None:
    """verl's k1 with its policy gradient: the policy has not moved, so that its ratio is 1."""
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]], dtype=torch.bool)
    old, teacher = (torch.tensor(values, dtype=torch.float64).view(2, LENGTH) for values in (own, teachers))
    losses, gradients = [], []
    for ours in (True, False):
        log_prob = old.clone().requires_grad_()
        if ours:
            advantages = teacher_advantage(old, teacher, mask, USE)
            options = Ppo(clip=None)
            values, _ = mixed_policy_token_loss(old, log_prob, advantages, mask, torch.zeros_like(mask), options, None)
            loss = values.sum() / mask.sum()
        else:
            loss = verls_loss(old, log_prob, teacher, mask)
        loss.backward()
        losses.append(loss.detach())
        gradients.append(log_prob.grad)
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients)


def verls_loss(old, log_prob, teacher, mask):
    """Its prompt has one token; the log-probability of a token stands where the token before it does."""
    lengths = mask.sum(-1).tolist()

    def rows(values):
        ends = torch.zeros(1, dtype=torch.float64)
        joined = [torch.cat([row[:count], ends]) for row, count in zip(values, lengths, strict=True)]
        return torch.nested.as_nested_tensor(joined, layout=torch.jagged)

    section = {
        "_target_": "verl.workers.config.FSDPActorConfig",
        "strategy": "fsdp2",
        "rollout_n": 1,
        "ppo_micro_batch_size_per_gpu": 1,
        "optim": {"_target_": "verl.workers.config.FSDPOptimizerConfig", "lr": 1e-6},
    }
    chosen = {"loss_mode": "k1", "use_policy_gradient": True, "use_task_rewards": False, "loss_max_clamp": None}
    config = DistillationConfig(distillation_loss=DistillationLossConfig(**chosen))
    data = tu.get_tensordict(
        {
            "prompts": torch.nested.as_nested_tensor([torch.ones(1), torch.ones(1)], layout=torch.jagged),
            "responses": torch.nested.as_nested_tensor([torch.ones(n) for n in lengths], layout=torch.jagged),
            "response_mask": mask.double(),
            "old_log_probs": old,
            "teacher_logprobs": rows(teacher),
        },
        {"dp_size": 1, "batch_num_tokens": int(mask.sum()), "global_batch_size": 2},
    )
    actor = omega_conf_to_dataclass(OmegaConf.create(section))
    loss, _ = distillation_loss(actor, config, {"log_probs": rows(log_prob)}, data)
    return loss
