"""Attention kernels: what torch computes for packed sequences is what it computes for each of them alone."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from training.base.resolve import SHIPPED

LENGTHS = (17, 40, 1, 31)


@pytest.mark.parametrize("kernel", ["sdpa", "flex_attention", "eager"])
@torch.no_grad()
@torch.compiler.set_stance("force_eager")
def test_packed_sequences_do_not_see_each_other(kernel: str) -> None:
    # flex_attention has no backward pass on a CPU; sdpa's is compared in tests/integration/test_training_layouts.py.
    model = AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32, attn_implementation=kernel)
    draw = torch.Generator().manual_seed(0)
    sequences = [torch.randint(5, 250, (length,), generator=draw) for length in LENGTHS]
    positions = torch.cat([torch.arange(length) for length in LENGTHS])
    packed = model(torch.cat(sequences)[None], position_ids=positions[None], use_cache=False).logits[0]
    plain = AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32, attn_implementation="eager")
    alone = torch.cat([plain(sequence[None]).logits[0] for sequence in sequences])
    torch.testing.assert_close(packed, alone, atol=1e-5, rtol=1e-5)
    blind = model(torch.cat(sequences)[None], use_cache=False).logits[0]  # without positions they do see each other
    assert (blind - alone).abs().max() > 0.1
