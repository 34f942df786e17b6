"""Compiles flash-attn-4 for a card that is not there, as transformers calls it for four packed rows of a model.

``FLASH_ATTENTION_ARCH=sm_90 python attention_kernels.py HEAD_DIM HEADS GROUPS``: a JSON line per row.
"""

import json
import sys
from typing import Any

import flash_attn.cute.interface as interface
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import modeling_flash_attention_utils as flash_attention

import training.platforms.every_process  # noqa: F401  what the profiles load

ROWS = ([700, 900], [1200, 400], [333, 800], [2048])  # lengths of the sequences


class Compiler:
    """CuTe's, which remembers what it compiled."""

    def __init__(self) -> None:
        self.kernels: list[str] = []
        self._compile = interface.cute.compile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compile, name)

    def __getitem__(self, options: Any) -> Any:
        return self._compile[options]

    def __call__(self, kernel: Any, *arguments: Any, **options: Any) -> Any:
        self.kernels.append(type(kernel).__name__)
        return self._compile(kernel, *arguments, **options)


def attend(lengths: list[int], head_dim: int, heads: int, groups: int) -> None:
    """Forward and backward of a packed row with tensors that have no memory."""
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    _, (longest, _) = flash_attention.prepare_fa_kwargs_from_position_ids(positions)
    options = {"max_seqlen_q": longest, "max_seqlen_k": longest, "causal": True}
    with FakeTensorMode():
        shapes = [(sum(lengths), count, head_dim) for count in (heads, groups, groups)]
        query, key, value = (torch.empty(shape, dtype=torch.bfloat16, device="cuda") for shape in shapes)
        starts = torch.empty(len(lengths) + 1, dtype=torch.int32, device="cuda")
        options |= {"cu_seqlens_q": starts, "cu_seqlens_k": starts}
        out, log_sums = interface._flash_attn_fwd(query, key, value, return_lse=True, **options)[:2]
        interface._flash_attn_bwd(query, key, value, out, torch.empty_like(out), log_sums, **options)


if __name__ == "__main__":
    interface.cute.compile = compiler = Compiler()
    for row in ROWS:
        compiler.kernels.clear()
        attend(row, *map(int, sys.argv[1:]))
        sys.stdout.write(json.dumps({"compiled": compiler.kernels}) + "\n")
