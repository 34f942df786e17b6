"""Stands for flash attention's kernel, which needs a GPU: torch's attention, one sequence after the other."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import _disable_current_modes


def attend(query: Tensor, key: Tensor, value: Tensor, *, cu_seqlens_q: Tensor, **_: Any) -> Tensor:
    """Causal attention to states ``[tokens, heads, head_dim]`` of sequences that start at ``cu_seqlens_q``."""
    with _disable_current_modes():  # a test that counts operations does not count this one
        lengths = cu_seqlens_q.diff().tolist()
    parts = zip(*(states.transpose(0, 1).split(lengths, 1) for states in (query, key, value)), strict=True)
    rows = [scaled_dot_product_attention(*part, is_causal=True, enable_gqa=True) for part in parts]
    return torch.cat(rows, 1).transpose(0, 1)


def options(max_seqlen_q: Any, max_seqlen_k: Any, **_: Any) -> dict[str, Any]:
    """What transformers passes on to the kernel."""
    return {"max_seqlen_q": max_seqlen_q, "max_seqlen_k": max_seqlen_k}


def import_loop(*_: Any) -> tuple[Any, Any]:
    """For ``lazy_import_flash_attention`` of transformers.modeling_flash_attention_utils."""
    return (None, attend, None, None, None), options
