"""The scale of the published run: policy gradient against entropy gradient, and `seq64-mean-token-sum-norm`.

The reference's formulas are written out here: a rank cuts its sequences into K micro-batches and adds up, over them,
``sum(L m) / 8192 - coefficient * masked_mean(H)``; the gradients of the ranks are averaged.
"""

import pytest

torch = pytest.importorskip("torch")

from training.algorithms.aggregate import BatchSize, agg_loss, agg_mean  # noqa: E402

LENGTH = 64  # the response limit
TOLERANCE = {"rtol": 1e-6, "atol": 0.0}


def batch(n_sequences, lengths=None, seed=0):
    """Token losses, token entropies and the mask of a batch."""
    generator = torch.Generator().manual_seed(seed)
    shape = n_sequences, LENGTH
    if lengths is None:
        lengths = torch.randint(1, LENGTH + 1, (n_sequences, 1), generator=generator)
    losses, entropies = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return losses.requires_grad_(), entropies.requires_grad_(), torch.arange(LENGTH) < lengths


def size_of(mask, ranks=1):
    tokens, sequences = int(mask.sum()), len(mask)
    return BatchSize(tokens, sequences, tokens, sequences, LENGTH, ranks)


def reference(losses, entropies, mask, ranks, micro_batches):
    """The gradients of policy loss and entropy by the reference's formulas."""
    policy = entropy = 0.0
    for rows in torch.arange(len(mask)).chunk(ranks):
        for micro in rows.tensor_split(micro_batches):
            m = mask[micro].double()
            policy = policy + (losses[micro] * m).sum() / LENGTH
            entropy = entropy + (entropies[micro] * m).sum() / m.sum()
    return torch.autograd.grad(policy / ranks, losses)[0], torch.autograd.grad(entropy / ranks, entropies)[0]


def ours(mode, losses, entropies, mask, ranks, micro_batches):
    size = size_of(mask, ranks)
    policy = entropy = 0.0
    for rows in torch.arange(len(mask)).chunk(ranks):
        for micro in rows.tensor_split(micro_batches):
            policy = policy + agg_loss(losses[micro], mask[micro], mode, size)
            entropy = entropy + agg_mean(entropies[micro], mask[micro], mode, size)
    return torch.autograd.grad(policy / ranks, losses)[0], torch.autograd.grad(entropy / ranks, entropies)[0]


@pytest.mark.parametrize("micro_batches", [1, 3, 5])
@pytest.mark.parametrize("ranks", [1, 2])
def test_published_is_the_reference_for_any_number_of_micro_batches(ranks, micro_batches):
    tensors = batch(16)
    theirs, mine = (f(*tensors, ranks, micro_batches) for f in (reference, lambda *a: ours("published", *a)))
    valid = tensors[2]
    torch.testing.assert_close(mine[0][valid] / mine[1][valid], theirs[0][valid] / theirs[1][valid], **TOLERANCE)
    for gradient, expected in zip(mine, theirs, strict=True):  # the scale too, so the norm is clipped at the same value
        torch.testing.assert_close(gradient, expected, **TOLERANCE)


def test_published_depends_on_the_micro_batches_and_seq64_mean_token_sum_norm_does_not():
    tensors = batch(16)
    entropy = [float(ours("published", *tensors, 1, k)[1].sum()) for k in (1, 5)]
    assert entropy[1] == pytest.approx(5 * entropy[0], rel=0.2)
    one = ours("seq64-mean-token-sum-norm", *tensors, 1, 1)
    for ranks, micro_batches in ((1, 5), (2, 1), (4, 3)):
        for gradient, expected in zip(
            ours("seq64-mean-token-sum-norm", *tensors, ranks, micro_batches), one, strict=True
        ):
            torch.testing.assert_close(gradient, expected, **TOLERANCE)


@pytest.mark.parametrize("length", [LENGTH, LENGTH // 4])
def test_seq64_mean_token_sum_norm_is_the_reference_at_the_published_sizes(length):
    """512 sequences on 8 ranks, whose micro-batches are filled with 4 response limits of tokens."""
    tensors = batch(512, lengths=torch.full((512, 1), length))
    micro_batches = 64 * length // (4 * LENGTH)
    for gradient, expected in zip(
        ours("seq64-mean-token-sum-norm", *tensors, 8, micro_batches),
        reference(*tensors, 8, micro_batches),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected, **TOLERANCE)


def test_seq64_mean_token_sum_norm_keeps_its_scale_when_a_batch_is_smaller():
    """A quarter of the sequences has the same gradient, so a clip of its norm means the same."""
    losses, entropies, mask = batch(64, lengths=torch.full((64, 1), 20))
    whole = ours("seq64-mean-token-sum-norm", losses, entropies, mask, 1, 1)
    part = ours(
        "seq64-mean-token-sum-norm",
        *(tensor[:16].detach().requires_grad_() for tensor in (losses, entropies)),
        mask[:16],
        1,
        1,
    )
    for gradient, expected in zip(part, whole, strict=True):
        torch.testing.assert_close(gradient.sum(), expected.sum(), **TOLERANCE)


def test_the_supervised_loss_weighs_as_the_entropy_does():
    """Both are masked means of the reference's micro-batches."""
    _, values, mask = batch(16)
    some = mask & (torch.arange(16) % 4 == 0).unsqueeze(-1)
    size, tokens = size_of(mask), int(some.sum())
    for mode in ("published", "seq64-mean-token-sum-norm"):
        part = BatchSize(tokens, 4, size.batch_tokens, size.batch_sequences, LENGTH)
        mean = values[some].mean()
        scale = 1.0 if mode == "published" else agg_mean(torch.ones_like(values), mask, mode, size)
        torch.testing.assert_close(agg_mean(values, some, mode, part), mean * scale, **TOLERANCE)
