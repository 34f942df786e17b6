"""Stands for flash attention's kernels, which need a GPU: torch's attention, one sequence after the other."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import _disable_current_modes


def attend(query: Tensor, key: Tensor, value: Tensor, *, cu_seqlens_q: Tensor, **options: Any) -> Tensor:
    """Causal attention to states ``[tokens, heads, head_dim]`` of sequences that start at ``cu_seqlens_q``."""
    with _disable_current_modes():  # a test that counts operations does not count this one
        lengths = cu_seqlens_q.diff().tolist()
    parts = zip(*(states.split(lengths) for states in (query, key, value)), strict=True)
    return torch.cat([attend_alone(*(states[None] for states in part), **options)[0] for part in parts])


def attend_alone(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    softmax_scale: float | None = None,
    window: int | None = None,
    **_: Any,
) -> Tensor:
    """Causal attention to states ``[rows, tokens, heads, head_dim]`` of one sequence per row."""
    mask = torch.ones(query.shape[1], query.shape[1], dtype=torch.bool).tril().triu(1 - (window or query.shape[1]))
    states = (states.transpose(1, 2) for states in (query, key, value))
    return scaled_dot_product_attention(*states, attn_mask=mask, scale=softmax_scale, enable_gqa=True).transpose(1, 2)


def options(**given: Any) -> dict[str, Any]:
    """What transformers passes on to the kernel."""
    passed = {name: value for name, value in given.items() if name.startswith("max_seqlen") or name == "softmax_scale"}
    return passed | {"window": given.get("sliding_window")}


def import_loop(*_: Any) -> tuple[Any, Any]:
    """For ``lazy_import_flash_attention`` of transformers.modeling_flash_attention_utils."""
    return (attend_alone, attend, None, None, None), options
