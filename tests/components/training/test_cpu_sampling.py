"""Sampling on a CPU: vLLM's tokens for a small vocabulary, its distribution for a large one, and no idle noise."""

import pytest
import torch
from scipy.stats import chisquare
from vllm.v1.sample.ops import topk_topp_sampler
from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler

from training.platforms.quirks import LARGE, QUIRKS

NOISE = next(quirk for quirk in QUIRKS if quirk.name == "noise")


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM as it is before the test and after it."""
    monkeypatch.setattr(TopKTopPSampler, "forward_cpu", TopKTopPSampler.forward_cpu)
    monkeypatch.setattr(topk_topp_sampler, "random_sample", topk_topp_sampler.random_sample)


def generators(*rows: int) -> dict[int, torch.Generator]:
    return {row: torch.Generator().manual_seed(row) for row in rows}


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs", "processed_logits"])
@torch.compiler.set_stance("force_eager")
def test_the_tokens_of_a_small_vocabulary_are_those_of_vllm(mode: str) -> None:
    layer = TopKTopPSampler(logprobs_mode=mode)
    given = [(seeded, torch.randn(4, 300)) for seeded in ((0, 1, 2, 3), (0, 2), ())]
    k, p = torch.tensor([50, 9, 300, 2]), torch.tensor([0.9, 0.5, 1.0, 0.95])

    def drawn(seeded: tuple[int, ...], logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        torch.manual_seed(0)
        return layer.forward_cpu(logits.clone(), generators(*seeded), k, p)

    expected = [drawn(*case) for case in given]
    NOISE.apply()
    for case, (of_vllm, of_its_mode) in zip(given, expected, strict=True):
        tokens, returned = drawn(*case)
        assert torch.equal(tokens, of_vllm)
        assert (returned is None) == (of_its_mode is None) and (returned is None or torch.equal(returned, of_its_mode))


def test_requests_with_seeds_draw_only_their_own_noise() -> None:
    NOISE.apply()
    before = torch.get_rng_state()
    TopKTopPSampler().forward_cpu(torch.randn(2, 300, generator=torch.Generator()), generators(0, 1), None, None)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_large_vocabulary_is_drawn_with_its_probabilities() -> None:
    NOISE.apply()
    shares = torch.zeros(LARGE)
    shares[[0, 7, 2000, LARGE - 1]] = torch.tensor([0.1, 0.2, 0.3, 0.4])
    own = torch.Generator().manual_seed(0)
    tokens = torch.cat([topk_topp_sampler.random_sample(shares[None], {0: own}) for _ in range(4000)])
    counts = torch.bincount(tokens, minlength=LARGE)
    assert counts[shares == 0].sum() == 0
    expected = shares[shares > 0].double()
    assert chisquare(counts[shares > 0].numpy(), (4000 * expected / expected.sum()).numpy()).pvalue > 0.001


def test_a_token_of_a_large_vocabulary_depends_on_its_request_alone() -> None:
    probs = torch.randn(3, LARGE, generator=torch.Generator().manual_seed(0)).softmax(-1)
    NOISE.apply()
    draw = topk_topp_sampler.random_sample
    together = draw(probs, generators(0, 1, 2))
    alone = [draw(probs[row, None], {0: torch.Generator().manual_seed(row)}) for row in range(3)]
    assert torch.equal(together, torch.cat(alone))
    without = draw(probs, generators(0, 1))  # a request has no seed: vLLM's own way
    assert without.shape == together.shape
