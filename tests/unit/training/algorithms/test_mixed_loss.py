"""Properties of the mixed loss: any split gives the same gradient, everything stays finite, eq. 8 holds."""

import math
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from training.algorithms.aggregate import LOSS_AGG_MODES, BatchSize, agg_loss, agg_mean  # noqa: E402
from training.algorithms.imitation import sft_token_loss  # noqa: E402
from training.algorithms.off_policy import (  # noqa: E402
    LogP,
    NoReshape,
    OffPolicyRatio,
    PDivP,
    PLogP,
    Power,
    SquareRoot,
)
from training.algorithms.on_policy import Cispo, Clip, Dppo, Gmpo, Gspo, Ppo, Reinforce, Sapo  # noqa: E402
from training.algorithms.policy import mixed_policy_token_loss  # noqa: E402

RESHAPES = [
    NoReshape(),
    LogP(weight=0.3),
    PLogP(weight=0.3),
    SquareRoot(),
    Power(exponent=1.7),
    *(PDivP(gamma=gamma) for gamma in (0.1, 0.5, 1e-6, 7.0)),
]
NAMES = ("old_log_prob", "log_prob", "advantages", "response_mask", "off_policy_mask")


PPO, PLAIN = Ppo(), OffPolicyRatio()


def mean_stats(stats):
    return {name: total / torch.as_tensor(count).clamp(min=1) for name, (total, count) in stats.items()}


def token_loss(on=PPO, off=PLAIN, **given):
    """mixed_policy_token_loss of the tensors and the options in ``given``."""
    return mixed_policy_token_loss(on=on, off=off, **given)


@st.composite
def batches(draw, low=-6.0):
    """Float64 tensors of a step: rows of any length, empty ones, wholly off-policy ones, one on-policy row alone."""
    n_rows, length = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    edge = st.sampled_from([low, 0.0, -1e-3])
    values = st.lists(st.one_of(st.floats(low, 0.0), edge), min_size=n_rows * length, max_size=n_rows * length)
    old, log_prob = (torch.tensor(draw(values), dtype=torch.float64).view(n_rows, length) for _ in range(2))
    scores = draw(st.lists(st.floats(-2.0, 2.0), min_size=n_rows, max_size=n_rows))
    lengths = st.lists(st.integers(0, length), min_size=n_rows, max_size=n_rows)
    ends, starts = (torch.tensor(draw(lengths)).unsqueeze(-1) for _ in range(2))
    position = torch.arange(length)
    mask = position < ends
    advantages = torch.tensor(scores, dtype=torch.float64).unsqueeze(-1).expand(n_rows, length) * mask
    return dict(zip(NAMES, (old, log_prob, advantages, mask, (position < starts) & mask), strict=True))


def choices():
    """Losses of on- and off-policy tokens."""
    clips = st.sampled_from([None, Clip(), Clip(high=0.28), Clip(high=99.0)])
    bounds = {"max": st.sampled_from([None, 0.6]), "min": st.sampled_from([None, 0.1])}
    off = st.builds(OffPolicyRatio, reshape=st.sampled_from(RESHAPES), **bounds)
    ppo = st.builds(Ppo, clip=clips, reshape=st.sampled_from(RESHAPES))
    others = [
        Cispo(),
        Gspo(),
        Gspo(clip=None),
        Gmpo(),
        Gmpo(clip=None),
        Sapo(),
        Dppo(),
        Dppo(type="dppo_kl"),
        Reinforce(),
    ]
    return st.fixed_dictionaries(
        {
            "on": st.one_of(ppo, st.sampled_from(others)),
            "off": st.one_of(st.none(), off),
            "all_max_clip": st.sampled_from([None, 0.8]),
        }
    )


def step_share(rows, mode, counts, coef, off_policy_tokens, ranks=1, pad=0, **options):
    """The share of some rows in the loss of the step, and its gradient."""
    rows = {name: torch.nn.functional.pad(tensor, (0, pad)) for name, tensor in rows.items()}
    rows["log_prob"] = rows["log_prob"].clone().requires_grad_()
    losses, stats = token_loss(**rows, **options)
    size, off_policy_mask = BatchSize(**counts, ranks=ranks), rows["off_policy_mask"]
    share = agg_loss(losses, rows["response_mask"], mode, size)
    share = share - 0.01 * agg_mean(rows["log_prob"].square(), rows["response_mask"], mode, size)
    sft = sft_token_loss(rows["log_prob"], off_policy_mask)
    share = share + coef * agg_mean(sft, off_policy_mask, mode, replace(size, tokens=off_policy_tokens))
    share.backward()
    width = rows["log_prob"].shape[1] - pad
    return share.detach(), rows["log_prob"].grad[:, :width], stats


@pytest.mark.parametrize("mode", [mode for mode in LOSS_AGG_MODES if mode != "published"])
@settings(max_examples=25)
@given(batch=batches(), options=choices(), data=st.data())
def test_any_split_into_ranks_and_micro_batches_and_any_padding_gives_the_same(mode, batch, options, data):
    mask = batch["response_mask"]
    tokens, sequences = max(int(mask.sum()), 1), max(int(mask.any(dim=-1).sum()), 1)
    counts = {
        "tokens": tokens,
        "sequences": sequences,
        "batch_tokens": tokens,
        "batch_sequences": sequences,
        "response_length": mask.shape[1],
    }
    off_policy_tokens = max(int(batch["off_policy_mask"].sum()), 1)
    coef = data.draw(st.sampled_from([0.0, 0.3]))
    loss, gradient, stats = step_share(batch, mode, counts, coef, off_policy_tokens, **options)
    rank_of = data.draw(st.lists(st.integers(0, 1), min_size=len(mask), max_size=len(mask)))
    micro_of = data.draw(st.lists(st.integers(0, 1), min_size=len(mask), max_size=len(mask)))
    total, summed, totals = 0.0, torch.zeros_like(gradient), {}
    for rank in (0, 1):
        for micro in (0, 1):
            chosen = [i for i in range(len(mask)) if (rank_of[i], micro_of[i]) == (rank, micro)]
            if not chosen:
                continue
            pad = data.draw(st.integers(0, 3))
            rows = {name: tensor[chosen] for name, tensor in batch.items()}
            share, part, some = step_share(rows, mode, counts, coef, off_policy_tokens, ranks=2, pad=pad, **options)
            total += share / 2  # gradients of the two ranks are averaged
            summed[chosen] += part / 2
            for name, (value, count) in some.items():
                before = totals.get(name, (0.0, 0))
                totals[name] = (before[0] + value, before[1] + count)
    torch.testing.assert_close(torch.as_tensor(total), loss, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(summed, gradient, rtol=1e-6, atol=1e-12)
    for name, value in mean_stats(stats).items():
        torch.testing.assert_close(mean_stats(totals)[name], value, rtol=1e-6, atol=1e-9, msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@settings(max_examples=50)
@given(batch=batches(low=-1e4), options=choices(), phi=st.sampled_from([None, 0.0, 1.0, -1.0, math.nan]))
def test_finite_for_any_log_probability(dtype, batch, options, phi):
    batch = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in batch.items()}
    # Padding may hold anything.
    for name in ("old_log_prob", "log_prob", "advantages"):
        batch[name] = torch.where(batch["response_mask"], batch[name], math.nan)
    batch["log_prob"].requires_grad_()
    if phi is not None:
        options = options | {"phi": torch.full_like(batch["advantages"], phi)}
    losses, stats = token_loss(**batch, **options)
    assert losses.dtype == torch.float32
    assert losses.isfinite().all()
    assert (losses[~batch["response_mask"]] == 0).all()
    losses.sum().backward()
    assert batch["log_prob"].grad.isfinite().all()
    assert (batch["log_prob"].grad[~batch["response_mask"]] == 0).all()
    assert all(value.isfinite() for value in mean_stats(stats).values())


@settings(max_examples=50)
@given(st.floats(-1e4, 0.0), st.floats(1e-6, 10.0), st.floats(-2.0, 2.0))
def test_the_gradient_of_p_div_p_gamma_is_eq_8(log_p, gamma, advantage):
    """Of the logit of the chosen token, d log p / d logit = 1 - p: gamma p (1 - p) A / (p + gamma)^2."""
    log_prob = torch.tensor([[log_p]], dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, 1, dtype=torch.bool)
    advantages = torch.full((1, 1), advantage, dtype=torch.float64)
    off = OffPolicyRatio(reshape=PDivP(gamma=gamma))
    losses, _ = mixed_policy_token_loss(torch.zeros_like(log_prob), log_prob, advantages, one, one, Ppo(), off)
    (-losses.sum()).backward()
    p = math.exp(log_p)
    eq_8 = gamma * p * (1 - p) * advantage / (p + gamma) ** 2
    assert log_prob.grad.item() * (1 - p) == pytest.approx(eq_8, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("reshape", RESHAPES, ids=str)
def test_shapes_equal_their_plain_formulas(reshape):
    p = torch.linspace(0.01, 1.0, 50, dtype=torch.float64)
    plain = {
        "no_reshape": p,
        "logp": 0.3 * p.log(),
        "p_logp": p + 0.3 * p.log(),
        "square_root": p.sqrt(),
        "pow": p**1.7,
    }.get(reshape.type)
    if plain is None:
        plain = p / (p + reshape.gamma)
    torch.testing.assert_close(reshape.shape(p.log()), plain, rtol=1e-9, atol=0)


@settings(max_examples=25)
@given(batch=batches(), options=choices())
def test_off_policy_tokens_have_no_old_policy_and_on_policy_tokens_no_off_policy_options(batch, options):
    losses, _ = token_loss(**batch, **options)
    other, _ = token_loss(**batch | {"old_log_prob": batch["old_log_prob"] - 1.0}, **options)
    off_policy = batch["off_policy_mask"]
    assert torch.equal(losses[off_policy], other[off_policy])
    changed = options | {"off": None}
    other, _ = token_loss(**batch, **changed)
    assert torch.equal(losses[~off_policy], other[~off_policy])
    assert (other[off_policy] == 0).all()


SEQ64 = "seq64-mean-token-sum-norm", "seq64-mean-token-sum-norm-occupied"


@pytest.mark.parametrize("mode", LOSS_AGG_MODES)
def test_what_stands_outside_the_mask_does_not_count(mode):
    losses = torch.tensor([[1.0, 3.0, math.nan], [math.inf, 0.0, 0.0]], requires_grad=True)
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    loss = agg_loss(losses, mask, mode, BatchSize(2, 1, batch_tokens=2, batch_sequences=1, response_length=4))
    loss.backward()
    expected = {"seq-mean-token-sum": 4.0, "constant": 1.0, "published": 1.0} | dict.fromkeys(SEQ64, 64.0)
    assert loss.item() == expected.get(mode, 2.0)
    assert (losses.grad[mask == 0] == 0).all()
