"""verl's engine computes the same in every layout that a profile may choose: two real ranks, and one for comparison.

The head of this model is its embedding; test_training_zoo has models whose head is not.
"""

import json
import os
from pathlib import Path

import pytest
from engine_ranks import LAYOUTS
from layout_runs import Results, log_probs_of, run_ranks

from core.model.base_model import SHIPPED
from training.export.merge import ADAPTER, merge

OTHER = ("bf16", "lora", "sequence parallel", "sequence parallel sdpa")
SAME = [name for name in LAYOUTS if name not in OTHER]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("layouts")


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    return run_ranks(folder)


def test_every_layout_ran(results: Results) -> None:
    assert list(results) == list(LAYOUTS)
    assert results["padded"]["log_probs"] == pytest.approx(log_probs_of(SHIPPED), rel=1e-5)


@pytest.mark.parametrize("layout", SAME)
def test_layouts_agree(layout: str, results: Results) -> None:
    for name, value in results["padded"].items():
        assert results[layout][name] == pytest.approx(value, rel=1e-5), name


def test_a_copy_of_the_state_per_rank_is_written_by_each(results: Results, folder: Path) -> None:
    """`training.resources.memory.checkpoint_bytes` counts them."""
    sizes = {
        layout: sum(file.stat().st_size for file in (folder / layout).glob("*_world_size_2_rank_*.pt"))
        for layout in ("fused", "replicated")
    }
    assert sizes["replicated"] == pytest.approx(2 * sizes["fused"], rel=0.03)


def test_bfloat16_is_near(results: Results) -> None:
    assert results["bf16"]["log_probs"] == pytest.approx(results["padded"]["log_probs"], rel=5e-3)
    assert results["bf16"]["grad_norm"] == pytest.approx(results["padded"]["grad_norm"], rel=5e-2)


def test_an_adapter_starts_as_the_model_and_learns(results: Results) -> None:
    lora, full = results["lora"], results["padded"]
    assert lora["log_probs"] == pytest.approx(full["log_probs"], rel=1e-5)
    assert 0 < lora["grad_norm"] != pytest.approx(full["grad_norm"], rel=1e-2)
    assert lora["log_probs after"] > lora["log_probs"]


def test_ranks_that_share_sequences_compute_what_one_does(results: Results) -> None:
    for name, value in results["padded"].items():
        assert results["sequence parallel"][name] == pytest.approx(value, rel=1e-5), name


def test_torchs_own_attention_is_wrong_where_sequences_are_split(results: Results) -> None:
    """Why `training.resources.attention` refuses it: nothing fails, and the sum is another one."""
    assert results["sequence parallel sdpa"]["entropy"] != pytest.approx(results["padded"]["entropy"], rel=1e-2)


@pytest.mark.parametrize("layout", ["packed", "offload always", "lora", "replicated"])
def test_a_merged_checkpoint_is_the_model_that_the_ranks_trained(
    layout: str, results: Results, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    out.mkdir()
    merge(folder / layout, out, "float32")
    assert not any("lora" in name for name in os.listdir(out))
    assert log_probs_of(out) == pytest.approx(results[layout]["log_probs after"], rel=1e-4)
    assert (out / ADAPTER).is_dir() == (layout == "lora")
    if layout == "lora":
        assert log_probs_of(SHIPPED, out / ADAPTER) == pytest.approx(log_probs_of(out), rel=1e-6)


def test_a_policy_in_bfloat16_has_half_the_bytes(results: Results, folder: Path, tmp_path: Path) -> None:
    sizes = {}
    for dtype in ("float32", "bfloat16"):
        out = tmp_path / dtype
        out.mkdir()
        merge(folder / "packed", out, dtype)
        sizes[dtype] = (out / "model.safetensors").stat().st_size
        assert json.loads((out / "config.json").read_text())["dtype"] == dtype
    assert sizes["bfloat16"] < 0.55 * sizes["float32"]
