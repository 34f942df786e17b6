"""vLLM's sampling on a CPU, without noise that nobody uses.

vLLM draws noise for every token of the vocabulary and every request, and then again for each request that has a seed.
"""

import torch
from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler

_sample_with_noise_for_all = TopKTopPSampler.forward_cpu


def sample(
    sampler: TopKTopPSampler,
    logits: torch.Tensor,
    generators: dict[int, torch.Generator],
    k: torch.Tensor | None,
    p: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The tokens that ``TopKTopPSampler.forward_cpu`` returns, and what its ``logprobs_mode`` asks for."""
    if len(generators) == len(logits):
        return sampler.forward_native(logits, generators, k, p)
    return _sample_with_noise_for_all(sampler, logits, generators, k, p)
