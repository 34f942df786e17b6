"""The methods beside LUFFY: numbers worked out by hand, verl's own functions, and what must hold for any batch."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from verl.trainer.ppo.core_algos import get_policy_loss_fn  # noqa: E402
from verl.utils.config import omega_conf_to_dataclass  # noqa: E402

from training.algorithms.advantage import LengthPenalty, length_penalty  # noqa: E402
from training.algorithms.aggregate import BatchSize, agg_loss  # noqa: E402
from training.algorithms.gate import HardGate, SoftGate, group_gate  # noqa: E402
from training.algorithms.imitation import sft_token_loss, sft_weight  # noqa: E402
from training.algorithms.off_policy import NoReshape, OffPolicyRatio, PDivP  # noqa: E402
from training.algorithms.on_policy import (  # noqa: E402
    Cispo,
    Clip,
    Dppo,
    Gmpo,
    Gspo,
    Ppo,
    Sapo,
)
from training.algorithms.policy import mixed_policy_token_loss  # noqa: E402
from training.algorithms.samples import Samples  # noqa: E402
from training.algorithms.srft import (  # noqa: E402
    row_entropy,
)
from training.methods.relift import Relift  # noqa: E402

CISPO = Cispo()
GSPO = Gspo(clip=Clip(low=3e-4, high=4e-4))


def test_gspo_takes_its_mean_over_on_policy_tokens():
    """The first token is the target's: its log-probability of -9 says nothing about how far the policy has moved."""
    log_prob = torch.tensor([[-9.0, -1.0, -2.0]], dtype=torch.float64)
    old = torch.tensor([[0.0, -1.5, -2.0]], dtype=torch.float64)
    mask, off = torch.ones(1, 3, dtype=torch.bool), torch.tensor([[True, False, False]])
    tensors = old, log_prob, torch.ones(1, 3, dtype=torch.float64), mask, off
    losses, _ = mixed_policy_token_loss(*tensors, Gspo(clip=None), OffPolicyRatio())
    assert losses[0].tolist() == pytest.approx([-math.exp(-9), -math.exp(0.25), -math.exp(0.25)])


ROWS = st.lists(st.floats(-4.0, 0.0), min_size=8, max_size=8)
SAPO = Sapo()
VERL = {  # their names, where they are not ours
    "vanilla": Ppo(),
    "cispo": CISPO,
    "gspo": GSPO,
    "geo_mean": Gmpo(clip=Clip(low=0.4, high=0.4)),
    "sapo": SAPO,
    "dppo_tv": Dppo(clip=Clip(low=0.15, high=0.15)),
    "dppo_kl": Dppo(type="dppo_kl", clip=Clip(low=0.05, high=0.1)),
}
SCALES = {"vanilla": 2e9, "dppo_tv": 20.0, "dppo_kl": 20.0}  # of verl's highest ratio: PPO here has none


@pytest.mark.parametrize("name", VERL)
@settings(max_examples=40, deadline=None)
@given(new=ROWS, old=ROWS, scores=st.tuples(st.floats(-2, 2), st.floats(-2, 2)))
def test_on_policy_losses_have_the_gradient_of_verls(name, new, old, scores):
    options = VERL[name]
    clip = getattr(options, "clip", Clip())
    section = {
        "_target_": "verl.workers.config.FSDPActorConfig",
        "strategy": "fsdp2",
        "rollout_n": 1,
        "ppo_micro_batch_size_per_gpu": 1,
        "clip_ratio_low": clip.low,
        "clip_ratio_high": clip.high,
        "clip_ratio_c": SCALES.get(name, 1e9),
        "optim": {"_target_": "verl.workers.config.FSDPOptimizerConfig", "lr": 1e-6},
    }
    config = omega_conf_to_dataclass(OmegaConf.create(section))
    old_log_prob = torch.tensor(old, dtype=torch.float64).view(2, 4)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]], dtype=torch.bool)
    advantages = torch.tensor(scores, dtype=torch.float64).unsqueeze(-1) * mask
    # Those that verl always averages over sequences.
    mode = "seq-mean-token-mean" if name in ("sapo", "geo_mean") else "token-mean"
    gradients = []
    for ours in (True, False):
        log_prob = torch.tensor(new, dtype=torch.float64).view(2, 4).requires_grad_()
        if ours:
            losses, _ = mixed_policy_token_loss(
                old_log_prob, log_prob, advantages, mask, torch.zeros_like(mask), options, None
            )
            loss = agg_loss(losses, mask, mode, BatchSize(tokens=7, sequences=2))
        else:
            arguments = {"response_mask": mask.double(), "loss_agg_mode": mode, "config": config}
            loss, _ = get_policy_loss_fn(name)(
                old_log_prob=old_log_prob, log_prob=log_prob, advantages=advantages, **arguments
            )
        loss.backward()
        gradients.append(log_prob.grad)
    torch.testing.assert_close(*gradients, rtol=2e-7, atol=1e-12)  # verl adds 1e-8 to the length of a row


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e4, 0.0), min_size=1, max_size=6), st.sampled_from(["one", "p", "p(1-p)", "luffy"]))
def test_the_weight_is_all_that_a_weighted_supervised_loss_adds_to_the_gradient(values, weight):
    """And no weight has a gradient of its own; what stands at invalid tokens, even nan, has no influence."""
    log_prob = torch.tensor([[*values, math.nan]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True] * len(values) + [False]])
    losses = sft_token_loss(log_prob, mask, weight)
    losses.sum().backward()
    expected = [[*(-sft_weight(torch.tensor(values, dtype=torch.float64), weight)).tolist(), 0.0]]
    torch.testing.assert_close(log_prob.grad, torch.tensor(expected, dtype=torch.float64))
    assert losses.isfinite().all() and losses[0, -1] == 0


@given(st.floats(-12.0, 0.0))
def test_two_weights_are_off_policy_losses_with_an_advantage_of_one(value):
    for weight, reshape in (("p", NoReshape()), ("luffy", PDivP())):
        log_prob = torch.tensor(value, dtype=torch.float64, requires_grad=True)
        (-reshape.shape(log_prob)).backward()
        assert log_prob.grad is not None
        assert -log_prob.grad.item() == pytest.approx(sft_weight(log_prob.detach(), weight).item(), rel=1e-9)


# Per prompt: the target, then four samples.
SOLVED = {"never": [1, 0, 0, 0, 0], "once": [1, 0, 0, 1, 0], "thrice": [1, 1, 1, 0, 1]}
INDEX = [name for name in SOLVED for _ in range(5)]
ON_POLICY = [n > 0 for _ in SOLVED for n in range(5)]


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        (HardGate(), {"never": 0.0, "once": 1.0, "thrice": 1.0}),
        (HardGate(gamma=2), {"never": 0.0, "once": 0.0, "thrice": 1.0}),
        (SoftGate(), {"never": 0.0, "once": 0.25, "thrice": 0.75}),
    ],
)
def test_the_gate_by_the_successes_of_the_policy_alone(options, policy):
    weights = group_gate([bool(s) for group in SOLVED.values() for s in group], INDEX, ON_POLICY, options)
    for name, (of_policy, supervised) in zip(INDEX, weights, strict=True):
        assert (of_policy, supervised) == (policy[name], 1 - policy[name])


def test_the_published_length_penalty():
    lengths = torch.tensor([0, 16384, 16385, 18432, 20480])
    penalty = length_penalty(lengths, 20480, LengthPenalty())
    # Half of what is published, whose rewards are -1 and 1.
    assert penalty.tolist() == pytest.approx([0.0, 0.0, -0.5 / 4096, -0.25, -0.5])


def test_the_entropy_of_a_row_has_no_gradient_and_sees_no_padding():
    entropy = torch.tensor([[1.0, 3.0, math.nan], [4.0, math.inf, math.nan]], requires_grad=True)
    rows = row_entropy(entropy, torch.tensor([[1, 1, 0], [1, 0, 0]]))
    assert rows.flatten().tolist() == [2.0, 4.0] and not rows.requires_grad


def test_relift_hands_out_the_newest_unsolved_prompts_first():
    """7 and 9 are not solved, 8 is, and 5 has no target; a prompt that is drawn again is in the buffer twice."""
    method, learned = Relift(buffer=3), []
    tools = SimpleNamespace(
        has_target=lambda prompt: prompt != 5, supervised_update=lambda prompts, *_: learned.append(prompts) or {}
    )
    for step in ([(7, 0), (7, 0), (8, 0), (8, 1), (9, 0), (5, 0)], [(9, 0), (6, 0)]):
        prompts, solved = zip(*step, strict=True)
        count = len(step)
        rows = {"prompt_key": torch.tensor(prompts), "solved": torch.tensor(solved).bool()}
        rows |= {"prefix_length": torch.zeros(count)}
        method.note(Samples(TensorDict(rows, batch_size=count), np.array(prompts), torch.ones(count).bool()), tools)
        method.after_update(tools)
    assert learned == [[9, 6, 7]] and method.state()["unsolved"] == [9]
