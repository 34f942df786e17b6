"""Sampling on a CPU: the tokens are vLLM's, and requests with seeds draw no more than their own noise."""

import pytest
import torch
from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler

from training.platforms.cpu_sampling import sample


def generators(*rows: int) -> dict[int, torch.Generator]:
    return {row: torch.Generator().manual_seed(row) for row in rows}


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs", "processed_logits"])
@torch.compiler.set_stance("force_eager")
def test_the_tokens_are_those_of_vllm(mode: str) -> None:
    sampler = TopKTopPSampler(logprobs_mode=mode)
    for seeded in ((0, 1, 2, 3), (0, 2), ()):
        logits, k, p = torch.randn(4, 300), torch.tensor([50, 9, 300, 2]), torch.tensor([0.9, 0.5, 1.0, 0.95])
        torch.manual_seed(0)
        expected, returned = sampler.forward_cpu(logits.clone(), generators(*seeded), k, p)
        torch.manual_seed(0)
        tokens, ours = sample(sampler, logits.clone(), generators(*seeded), k, p)
        assert torch.equal(tokens, expected)
        assert torch.equal(ours, returned) if returned is not None else ours is None


def test_requests_with_seeds_draw_only_their_own_noise() -> None:
    before = torch.get_rng_state()
    sample(TopKTopPSampler(), torch.randn(2, 300, generator=torch.Generator()), generators(0, 1), None, None)
    assert torch.equal(torch.get_rng_state(), before)
