"""Describes a packed row to flash attention once per micro-batch, by numbers of Python.

transformers derives the lengths of the sequences from the positions in each layer, where the processor waits for the
GPU three times, and gives the longest of them as a tensor. flash-attn-4 keys its compiled backward passes by that
value, and tensors are never equal to each other there: it would compile one for each layer of each micro-batch.
verl imports this module in every process of a job, because ``VERL_USE_EXTERNAL_MODULES`` of the hardware profile names
it.
"""

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers import modeling_flash_attention_utils as flash_attention

Lengths = tuple[tuple[Tensor, Tensor], tuple[int, int]]


class LastRow:
    """Remembers what ``function`` says about the positions that it saw last, until these change."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._row: Callable[[], Tensor | None] = lambda: None
        self._key: tuple[Any, ...] = ()
        self._value: Any = None

    def __call__(self, position_ids: Tensor, *arguments: Any) -> Any:
        key = (position_ids._version, *arguments)
        if self._row() is not position_ids or self._key != key:
            self._value = self._function(position_ids, *arguments)
            self._row, self._key = weakref.ref(position_ids), key
        return self._value


_lengths, _is_packed = flash_attention.prepare_fa_kwargs_from_position_ids, flash_attention._is_packed_sequence


@LastRow
def lengths_of_row(position_ids: Tensor) -> Lengths:
    """Return where the sequences of a row start and the row ends, and the longest sequence: of queries and of keys."""
    starts, (tensor, _) = _lengths(position_ids)
    longest = int(tensor)  # the processor waits for the device once
    return starts, (longest, longest)


@LastRow
def _packed(position_ids: Tensor, batch_size: int) -> bool:
    return bool(_is_packed(position_ids, batch_size))


def is_packed(position_ids: Tensor | None, batch_size: int) -> bool:
    """Return whether ``position_ids`` count several sequences in one row."""
    return position_ids is not None and _packed(position_ids, batch_size)


flash_attention.prepare_fa_kwargs_from_position_ids = lengths_of_row
flash_attention._is_packed_sequence = is_packed
