"""Attention kernels: what torch computes for packed sequences is what it computes for each of them alone."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from core.model.base_model import SHIPPED
from training.platforms.packed_attention import attend_packed, register

register()
LENGTHS = (17, 40, 1, 31)


@pytest.mark.parametrize("kernel", ["sdpa", "sdpa_packed", "flex_attention", "eager"])
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


def test_a_packed_row_has_the_gradients_of_its_sequences() -> None:
    sequences = [torch.arange(5, 5 + length) for length in LENGTHS]
    positions = torch.cat([torch.arange(length) for length in LENGTHS])
    gradients = []
    for kernel in ("sdpa_packed", "eager"):
        model = AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32, attn_implementation=kernel)
        rows = [torch.cat(sequences)[None]] if kernel == "sdpa_packed" else [sequence[None] for sequence in sequences]
        for row in rows:
            given = {"position_ids": positions[None]} if kernel == "sdpa_packed" else {}
            model(row, use_cache=False, **given).logits.square().sum().backward()
        gradients.append(model.model.layers[0].self_attn.q_proj.weight.grad)
    largest = gradients[1].abs().max()
    torch.testing.assert_close(gradients[0] / largest, gradients[1] / largest, atol=1e-4, rtol=0)


def test_a_packed_row_keeps_to_the_sliding_window() -> None:
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 9, 8, generator=draw) for heads in (4, 2, 2))
    positions = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 1, 2]])
    windowed, _ = attend_packed(torch.nn.Module(), query, key, value, None, position_ids=positions, sliding_window=3)
    last, _ = attend_packed(
        torch.nn.Module(), query[:, :, 3:6], key[:, :, 3:6], value[:, :, 3:6], None, position_ids=positions[:, :3]
    )
    torch.testing.assert_close(windowed[:, 5], last[:, 2])
    with pytest.raises(ValueError, match="expected one packed row"):
        attend_packed(torch.nn.Module(), query, key, value, torch.ones(1), position_ids=positions)
