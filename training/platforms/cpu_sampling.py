"""How vLLM draws tokens on a CPU, where noise for a large vocabulary takes a quarter of a step.

vLLM divides the probabilities by exponential noise and takes the largest: a number per token of the vocabulary and
request, drawn for the whole batch and then again for each request that has a seed. Here a request that has a seed draws
no other noise, and with a large vocabulary one number, at which the cumulative distribution is inverted.
"""

import torch
from vllm.v1.sample.ops import topk_topp_sampler as sampler

LARGE = 4096  # tokens of a vocabulary

_sample_with_noise_for_all = sampler.TopKTopPSampler.forward_cpu
_draw_with_noise = sampler.random_sample


def draw_less_noise() -> None:
    """Make the samplers of this process use `sample` and `draw`."""
    sampler.TopKTopPSampler.forward_cpu = sample
    sampler.random_sample = draw


def sample(
    self: sampler.TopKTopPSampler,
    logits: torch.Tensor,
    generators: dict[int, torch.Generator],
    k: torch.Tensor | None,
    p: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the drawn tokens, and what the layer's ``logprobs_mode`` asks for."""
    if len(generators) == len(logits):
        return self.forward_native(logits, generators, k, p)
    return _sample_with_noise_for_all(self, logits, generators, k, p)


def draw(probs: torch.Tensor, generators: dict[int, torch.Generator], use_fp64_gumbel: bool = False) -> torch.Tensor:
    """Return a token of each row of ``probs`` (requests, vocabulary), with the generator of its row.

    >>> int(draw(torch.eye(3, LARGE)[[2]], {0: torch.Generator().manual_seed(1)}))
    2
    """
    if len(generators) < len(probs) or probs.shape[-1] < LARGE:
        return _draw_with_noise(probs, generators, use_fp64_gumbel)
    numbers = [torch.rand(1, generator=generators[row], dtype=torch.float64) for row in range(len(probs))]
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    tokens = torch.searchsorted(cumulative, torch.stack(numbers) * cumulative[:, -1:], right=True)
    return tokens.clamp(max=probs.shape[-1] - 1).view(-1)
