"""The methods beside LUFFY: numbers worked out by hand, verl's own functions, and what must hold for any batch."""

import math

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from verl.trainer.ppo.core_algos import get_policy_loss_fn  # noqa: E402
from verl.utils.config import omega_conf_to_dataclass  # noqa: E402

from core.errors import InputError  # noqa: E402
from training.algorithms.advantage import LengthPenalty, length_penalty  # noqa: E402
from training.algorithms.aggregate import BatchSize, agg_loss  # noqa: E402
from training.algorithms.gate import HardGate, SoftGate, group_gate  # noqa: E402
from training.algorithms.imitation import ImitationLoss, sft_coefficient, sft_token_loss, sft_weight  # noqa: E402
from training.algorithms.off_policy import NoReshape, OffPolicyRatio, PDivP  # noqa: E402
from training.algorithms.on_policy import (  # noqa: E402
    Cispo,
    Clip,
    Dppo,
    Gmpo,
    Gspo,
    OnPolicyLoss,
    Ppo,
    Reinforce,
    Sapo,
)
from training.algorithms.policy import mixed_policy_token_loss  # noqa: E402
from training.algorithms.srft import (  # noqa: E402
    entropy_advantage,
    outcome_advantage,
    row_entropy,
    supervised_scale,
)
from training.algorithms.unsolved import UnsolvedPrompts  # noqa: E402
from training.methods import method_of, resolved  # noqa: E402
from training.methods.chord import Chord  # noqa: E402
from training.methods.given import RunValues  # noqa: E402
from training.methods.srft import Srft  # noqa: E402

CISPO = Cispo()
GSPO = Gspo(clip=Clip(low=3e-4, high=4e-4))


def on_policy(options: OnPolicyLoss, old: list[list[float]], new: list[list[float]], advantages: list[list[float]]):
    """Losses of on-policy tokens with these probabilities, and the gradient by their log-probabilities."""
    log_prob = torch.tensor(new, dtype=torch.float64).log().requires_grad_()
    mask = torch.ones(log_prob.shape, dtype=torch.bool)
    tensors = torch.tensor(old, dtype=torch.float64).log(), log_prob, torch.tensor(advantages, dtype=torch.float64)
    losses, stats = mixed_policy_token_loss(*tensors, mask, ~mask, options, None)
    losses.sum().backward()
    return losses.detach().tolist(), log_prob.grad.tolist(), stats


def test_cispo_keeps_the_gradient_of_a_clipped_token():
    losses, gradient, stats = on_policy(CISPO, [[0.1, 0.5]], [[0.8, 0.25]], [[1.0, -2.0]])
    # Ratios 8, held at 5, and 0.5, which has no lower clip.
    assert losses[0] == pytest.approx([-5 * math.log(0.8), 2 * 0.5 * math.log(0.25)])
    assert gradient[0] == pytest.approx([-5.0, 2 * 0.5])
    assert stats["on_pg_clipfrac"][0] == 1
    _, ppo, _ = on_policy(Ppo(clip=Clip(high=4.0)), [[0.1, 0.5]], [[0.8, 0.25]], [[1.0, -2.0]])
    assert ppo[0] == [0.0, 0.0]


def test_cispo_has_an_upper_clip_below_2_without_a_lower_one():
    _, gradient, _ = on_policy(
        Cispo(clip=Clip(low=1.0, high=0.2)),
        [[0.5, 0.5]],
        [[0.9, 0.1]],
        [[1.0, 1.0]],
    )
    assert gradient[0] == pytest.approx([-1.2, -0.2])  # ratios 1.8 and 0.2


def test_gspo_has_one_ratio_for_a_response():
    losses, gradient, _ = on_policy(
        Gspo(clip=Clip(low=0.5, high=0.5)), [[0.2, 0.5, 0.1]], [[0.4, 0.5, 0.1]], [[1.0, 1.0, 1.0]]
    )
    ratio = 2 ** (1 / 3)
    assert losses[0] == pytest.approx([-ratio] * 3)
    assert gradient[0] == pytest.approx([-ratio] * 3)
    _, clipped, stats = on_policy(GSPO, [[0.2, 0.5, 0.1]], [[0.4, 0.5, 0.1]], [[1.0, 1.0, 1.0]])
    assert clipped[0] == [0.0, 0.0, 0.0]
    assert stats["on_pg_clipfrac"][0] == 3


def test_gspo_takes_its_mean_over_on_policy_tokens():
    """The first token is the target's: its log-probability of -9 says nothing about how far the policy has moved."""
    log_prob = torch.tensor([[-9.0, -1.0, -2.0]], dtype=torch.float64)
    old = torch.tensor([[0.0, -1.5, -2.0]], dtype=torch.float64)
    mask, off = torch.ones(1, 3, dtype=torch.bool), torch.tensor([[True, False, False]])
    tensors = old, log_prob, torch.ones(1, 3, dtype=torch.float64), mask, off
    losses, _ = mixed_policy_token_loss(*tensors, Gspo(clip=None), OffPolicyRatio())
    assert losses[0].tolist() == pytest.approx([-math.exp(-9), -math.exp(0.25), -math.exp(0.25)])


def test_gmpo_holds_each_token_before_its_mean():
    options = Gmpo(clip=Clip(low=0.4, high=0.4))
    losses, gradient, stats = on_policy(options, [[0.2, 0.5, 0.8]], [[0.8, 0.5, 0.2]], [[1.0, 1.0, 1.0]])
    # log ratios log 4, held at 0.4 because A > 0, 0, and -log 4, which only a negative A would hold.
    ratio = math.exp((0.4 - math.log(4)) / 3)
    assert losses[0] == pytest.approx([-ratio] * 3)
    assert gradient[0] == pytest.approx([0.0, -ratio, -ratio])
    assert stats["on_pg_clipfrac"][0] == 1
    _, free, _ = on_policy(Gmpo(clip=None), [[0.2, 0.5, 0.8]], [[0.8, 0.5, 0.2]], [[1.0] * 3])
    assert free[0] == pytest.approx([-1.0] * 3)


def test_sapo_closes_its_gate_softly():
    def gradient(ratio, advantage, tau):
        gate = 1 / (1 + math.exp(-tau * (ratio - 1)))
        return -advantage * 4 * gate * (1 - gate) * ratio

    losses, gradients, _ = on_policy(SAPO, [[0.1, 0.5]], [[0.8, 0.5]], [[1.0, -2.0]])
    assert losses[0] == pytest.approx([-4 / (1 + math.exp(-7)), 2 * 2 / 1.05])
    assert gradients[0] == pytest.approx([gradient(8, 1, 1.0), gradient(1, -2, 1.05)])
    assert gradients[0][1] == pytest.approx(2.0)  # at a ratio of 1 it is that of REINFORCE


@pytest.mark.parametrize("name", ["dppo", "dppo_kl"])
def test_dppo_leaves_out_what_has_moved_far_and_would_go_on(name):
    options = Dppo(type=name, clip=Clip(low=0.15, high=0.15))
    old, new = [[0.2, 0.2, 0.9, 0.9, 1e-5]], [[0.8, 0.8, 0.1, 0.1, 1e-3]]
    _, gradient, stats = on_policy(options, old, new, [[1.0, -1.0, 1.0, -1.0, 1.0]])
    # A rare token has moved little, though its ratio of 100, held at 20, would close PPO's clip.
    assert gradient[0] == pytest.approx([0.0, 4.0, -1 / 9, 0.0, -20.0])
    assert stats["on_pg_clipfrac"][0] == 2


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


def test_weights_of_the_supervised_loss_by_hand():
    p = torch.tensor([0.02, 0.1, 0.5, 0.98], dtype=torch.float64)
    expected = {
        "one": [1.0, 1.0, 1.0, 1.0],
        "p": [0.02, 0.1, 0.5, 0.98],
        "p(1-p)": [0.0196, 0.09, 0.25, 0.0196],
        "luffy": [0.1 * 0.02 / 0.12**2, 0.25, 0.1 * 0.5 / 0.6**2, 0.1 * 0.98 / 1.08**2],
    }
    for name, weights in expected.items():
        assert sft_weight(p.log(), name).tolist() == pytest.approx(weights), name


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


def test_the_schedule_of_chord_mu():
    chord = Chord().imitation
    at = {step: sft_coefficient(chord, step) for step in (0, 50, 100, 150, 200, 10_000)}
    half = (0.9 - 0.05) / 2
    cosine = {50: math.cos(math.pi / 4), 100: 0.0, 150: -math.cos(math.pi / 4)}
    assert at == pytest.approx(
        {0: 0.9, 200: 0.05, 10_000: 0.05} | {k: 0.05 + half * (1 + c) for k, c in cosine.items()}
    )
    assert Chord().coefficients(99)["sft_loss"] == at[100]  # the published schedule counts steps from 1
    with pytest.raises(ValueError, match="step: expected 0 or more, got -1"):
        sft_coefficient(chord, -1)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 50), st.integers(0, 50), st.integers(0, 200))
def test_the_schedule_stays_between_its_ends(coef, valley, warmup, decay, step):
    options = ImitationLoss(coef=coef or 1.0, valley=valley if decay else 0.0, warmup_steps=warmup, decay_steps=decay)
    value = sft_coefficient(options, step)
    low = 0.0 if step < warmup else min(options.coef, options.valley if decay else options.coef)
    assert low - 1e-12 <= value <= max(options.coef, options.valley) + 1e-12
    if not decay and step >= warmup:
        assert value == options.coef


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


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.booleans()), max_size=12),
    st.sampled_from([HardGate(), SoftGate()]),
    st.randoms(),
)
def test_the_gate_does_not_depend_on_the_order_and_leaves_out_what_it_cannot_judge(rows, kind, order):
    def weighed(some):
        columns = list(zip(*some, strict=True)) or [(), (), ()]
        return sorted((*row, *w) for row, w in zip(some, group_gate(*columns, kind), strict=True))

    shuffled = rows[:]
    order.shuffle(shuffled)
    assert weighed(shuffled) == weighed(rows)
    for _, group, _, policy, supervised in weighed(rows):
        members = [on_policy for _, name, on_policy in rows if name == group]
        assert (policy + supervised == 1.0) == (True in members and False in members)


def test_bad_gate_input_names_the_argument():
    with pytest.raises(ValueError, match="index: expected 1 values, one for each outcome, got 2"):
        group_gate([True], ["a", "b"], [True], HardGate())


def test_the_published_length_penalty():
    lengths = torch.tensor([0, 16384, 16385, 18432, 20480])
    penalty = length_penalty(lengths, 20480, LengthPenalty())
    # Half of what is published, whose rewards are -1 and 1.
    assert penalty.tolist() == pytest.approx([0.0, 0.0, -0.5 / 4096, -0.25, -0.5])


@given(st.integers(1, 9000), st.floats(0.01, 1.0), st.integers(0, 9000))
def test_a_longer_response_never_loses_less(limit, buffer, length):
    options = LengthPenalty(buffer=buffer)
    shorter, longer = length_penalty(torch.tensor([length, length + 1]), limit, options).tolist()
    assert -0.5 <= longer <= shorter <= 0.0


def test_srft_by_hand():
    """Entropy log 2: a right sample weighs 0.1 x 2, a wrong one -1, and the target 0.5 / 2."""
    srft = Srft()
    outcomes = outcome_advantage(torch.tensor([True, False]), srft.solved_weight).double().unsqueeze(-1)
    entropy = torch.full((2, 1), math.log(2), dtype=torch.float64)
    advantages = entropy_advantage(outcomes, torch.zeros(2, 1, dtype=torch.bool), entropy)
    assert advantages.flatten().tolist() == pytest.approx([0.2, -1.0])
    losses, gradient, stats = on_policy(Reinforce(), [[0.9], [0.9]], [[0.3], [0.6]], advantages.tolist())
    assert [loss for (loss,) in losses] == pytest.approx([-0.2 * math.log(0.3), math.log(0.6)])
    assert [slope for (slope,) in gradient] == pytest.approx([-0.2, 1.0])  # whatever the old probability was
    assert stats["on_pg_clipfrac"][0] == 0
    scale = supervised_scale(entropy, srft.sign)[0].item()
    assert srft.imitation.coef * scale == pytest.approx(0.25)
    assert 0.5 * supervised_scale(entropy, "plus")[0].item() == pytest.approx(1.0)


def test_the_entropy_of_a_row_has_no_gradient_and_sees_no_padding():
    entropy = torch.tensor([[1.0, 3.0, math.nan], [4.0, math.inf, math.nan]], requires_grad=True)
    rows = row_entropy(entropy, torch.tensor([[1, 1, 0], [1, 0, 0]]))
    assert rows.flatten().tolist() == [2.0, 4.0] and not rows.requires_grad


@given(st.floats(0.0, 12.0), st.floats(0.0, 12.0))
def test_srft_imitates_less_and_rewards_more_the_less_sure_the_policy_is(entropy, more):
    """Also of two rows of one batch, each by its own entropy."""
    rows = torch.tensor(sorted((entropy, more))).unsqueeze(-1)
    minus, plus = (supervised_scale(rows, sign).flatten() for sign in ("minus", "plus"))
    assert 0 < minus[1] <= minus[0] <= 1
    torch.testing.assert_close(minus * plus, torch.ones(2))
    outcomes = outcome_advantage(torch.tensor([True, True]), 0.1).unsqueeze(-1)
    right, righter = entropy_advantage(outcomes, torch.zeros(2, 1, dtype=torch.bool), rows).flatten()
    assert 0.1 - 1e-9 <= right <= righter
    wrong = entropy_advantage(-torch.ones(2, 1), torch.zeros(2, 1, dtype=torch.bool), rows)
    assert (wrong == -1).all()


@pytest.mark.parametrize(
    ("change", "other"),
    [
        ({"on_policy": {"type": "ppo"}}, "method.on_policy.type"),
        ({"imitation": None}, "method.imitation"),
        ({"length_penalty": {}}, "method.length_penalty"),
        ({"teacher": {}}, "method.teacher"),
        ({"beta": 0.5}, "method.beta"),
    ],
)
def test_what_contradicts_srft_is_refused_by_name(change, other):
    with pytest.raises(InputError, match=other):
        method_of(resolved({"type": "srft", **change})).check(RunValues(n=8))


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), max_size=8), max_size=6))
def test_relift_hands_out_the_newest_unsolved_prompts_first(batches):
    buffer, waiting = UnsolvedPrompts(3), []
    for rows in batches:
        prompts, solved, on_policy = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
        buffer.add(solved, prompts, on_policy)
        new = []
        for prompt in dict.fromkeys(prompts):
            outcomes = [right for name, right, sampled in rows if name == prompt and sampled]
            if outcomes and not any(outcomes):
                new.append(prompt)
        waiting = new + waiting  # a prompt may be in it twice
        assert buffer.prompts == waiting
        if taken := buffer.take():
            assert taken == waiting[:3]
            waiting = waiting[3:]
        else:
            assert len(waiting) < 3
