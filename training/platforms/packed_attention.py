"""Attention of packed sequences one by one: the kernel ``sdpa_packed``.

With ``sdpa``, transformers masks a packed row: torch then computes the scores of all tokens with all tokens, and keeps
those within a sequence. Here each sequence is a causal call of its own that skips the blocks above the diagonal.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface


def lengths_of(positions: Tensor) -> list[int]:
    """Return the lengths of the sequences that are packed in a row of ``positions``.

    >>> lengths_of(torch.tensor([0, 1, 2, 0, 0, 1]))
    [3, 1, 2]
    """
    starts = torch.nonzero(positions.diff(prepend=positions[:1]) != 1).flatten()
    return starts.diff(append=starts.new_tensor([len(positions)])).tolist()


def attend_packed(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    position_ids: Tensor,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend to the states ``[1, heads, tokens, head_dim]`` within the sequences that ``position_ids`` count."""
    if query.shape[0] != 1 or attention_mask is not None:
        raise ValueError(f"sdpa_packed: a batch of {query.shape[0]} rows or a mask; expected one packed row")
    lengths = lengths_of(position_ids[0])
    outputs = []
    for parts in zip(*(states.split(lengths, dim=2) for states in (query, key, value)), strict=True):
        length, mask = parts[0].shape[2], None
        if sliding_window is not None and length > sliding_window:
            mask = torch.ones(length, length, dtype=torch.bool).tril().triu(1 - sliding_window)
        output = scaled_dot_product_attention(
            *parts, attn_mask=mask, dropout_p=dropout, scale=scaling, is_causal=mask is None, enable_gqa=True
        )
        outputs.append(output)
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None


def register() -> None:
    """Make the kernel one that transformers knows."""
    AttentionInterface.register("sdpa_packed", attend_packed)
