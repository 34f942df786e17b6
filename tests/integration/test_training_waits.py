"""How often a micro-batch waits for the device: in our loss, in our changes of transformers, and in the engine."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

os.environ["VERL_USE_EXTERNAL_MODULES"] = "training.platforms.every_process"  # before verl is imported

from device_waits import Waits
from engine_ranks import FLASH, batch, build, loss
from transformers import Qwen2ForCausalLM

# Where verl cuts a batch into micro-batches, which lie in the memory of the node until one of them is computed.
ON_PROCESSOR = ("seqlen_balancing.py", "tensordict_utils.py")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """With all that the GPU profiles choose, on one rank; a loop over the sequences stands for flash attention."""
    monkeypatch.setattr(Qwen2ForCausalLM, "forward", Qwen2ForCausalLM.forward)  # verl replaces it
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield build(tmp_path, attention=FLASH, use_fused_kernels=True, enable_gradient_checkpointing=True)
    dist.destroy_process_group()


def test_a_micro_batch_waits_six_times(engine: Any) -> None:
    data, computed = batch(0, 1, packed=True, fused=True), Counter[str]()
    forward_step = engine.forward_step

    def counting(*arguments: Any, **options: Any) -> Any:
        computed["micro-batches"] += 1
        return forward_step(*arguments, **options)

    engine.forward_step = counting
    with engine.train_mode(), Waits() as waits:
        engine.forward_backward_batch(data, loss, forward_only=False)
    micro_batches = computed["micro-batches"]
    assert micro_batches > 2
    places = Counter[str]()
    for where, count in waits.where.items():
        file = where.partition(" in ")[2].partition(":")[0]
        if file not in ON_PROCESSOR:
            places[file] += count
    assert places == {
        "loss.py": micro_batches,  # all metrics at once
        # Whether the row is packed, where its sequences start, and the longest of them: once for all layers.
        "quirks.py": 3 * micro_batches,
        "dense_common.py": micro_batches,  # transformers asks once more before it leaves out the mask
        "transformer_impl.py": micro_batches + 1,  # the loss, and the tokens of the whole batch
    }
