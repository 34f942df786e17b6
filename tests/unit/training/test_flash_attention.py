"""What transformers tells flash attention about packed rows; a loop over the sequences stands for the kernel."""

from typing import Any

import pytest
import sequence_loop
import torch
from device_waits import Waits
from transformers import AutoModelForCausalLM
from transformers import modeling_flash_attention_utils as flash_attention

from core.model.base_model import SHIPPED
from training.platforms.quirks import QUIRKS

NAMES = ("prepare_fa_kwargs_from_position_ids", "_is_packed_sequence")
LENGTHS = (17, 40, 1, 31)


@pytest.fixture(autouse=True)
def patched(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers with the workaround, during a test."""
    for name in NAMES:
        monkeypatch.setattr(flash_attention, name, getattr(flash_attention, name))
    next(quirk for quirk in QUIRKS if quirk.name == "row").apply()


def positions_of(*lengths: int) -> torch.Tensor:
    return torch.cat([torch.arange(length) for length in lengths])[None]


def test_the_longest_sequence_is_a_number() -> None:
    (starts, _), longest = flash_attention.prepare_fa_kwargs_from_position_ids(positions_of(3, 7, 2))
    assert starts.tolist() == [0, 3, 10, 12]
    assert longest == (7, 7) and all(type(number) is int for number in longest)


def test_a_row_is_described_anew_when_it_or_its_positions_change() -> None:
    row = positions_of(3, 7, 2)
    assert flash_attention.prepare_fa_kwargs_from_position_ids(row)[1] == (7, 7)
    row[0, 3:] = torch.arange(9)
    assert flash_attention.prepare_fa_kwargs_from_position_ids(row)[1] == (9, 9)
    assert flash_attention.prepare_fa_kwargs_from_position_ids(positions_of(5, 6))[1] == (6, 6)
    assert flash_attention._is_packed_sequence(row, 1)
    one = flash_attention._is_packed_sequence(positions_of(4), 1)
    assert not any((flash_attention._is_packed_sequence(row, 2), one, flash_attention._is_packed_sequence(None, 1)))


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the kernel is told of the longest sequence, call by call."""
    told: list[Any] = []

    def attend(*states: torch.Tensor, max_seqlen_q: Any, **options: Any) -> torch.Tensor:
        told.append(max_seqlen_q)
        return sequence_loop.attend(*states, **options)

    functions = (None, attend, None, None, None), sequence_loop.options
    monkeypatch.setattr(flash_attention, "lazy_import_flash_attention", lambda *_: functions)
    return told


def test_layers_and_recomputed_layers_share_one_description_of_a_micro_batch(longest: list[Any]) -> None:
    model = AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32, attn_implementation="eager")
    draw = torch.Generator().manual_seed(0)
    sequences = [torch.randint(5, 250, (length,), generator=draw) for length in LENGTHS]
    alone = torch.cat([model(sequence[None]).logits[0] for sequence in sequences])
    model.config._attn_implementation = "flash_attention_2"
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    with Waits() as waits:
        packed = model(torch.cat(sequences)[None], position_ids=positions_of(*LENGTHS), use_cache=False).logits[0]
        packed.square().sum().backward()
    torch.testing.assert_close(packed, alone, atol=1e-5, rtol=1e-5)
    assert longest == [max(LENGTHS)] * 2 * model.config.num_hidden_layers
    assert {type(number) for number in longest} == {int}
    # The starts, the longest, whether the row is packed; and the model once, before it leaves out the mask.
    assert waits.count == 4
