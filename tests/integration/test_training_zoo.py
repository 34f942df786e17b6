"""Tiny published models in every layout that a GPU profile may choose: engine, loss, merge and vLLM."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from engine_ranks import ZOO_LAYOUTS
from layout_runs import Results, log_probs_of, run_ranks, sequences
from model_zoo import DENSE, MODELS, write_model
from training_runs import ROOT
from transformers import AutoModelForCausalLM
from zoo_engine import PROMPT

from training.export.merge import merge

QUICK = ("Qwen2.5-Math-7B",)  # that of the paper
SAME = [name for name in ZOO_LAYOUTS if name not in ("bf16", "lora")]


def each(names: tuple[str, ...] = tuple(MODELS)) -> list[object]:
    """The models, of which some are quick."""
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in names]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zoo")


@pytest.fixture(scope="module")
def results(folder: Path, request: pytest.FixtureRequest) -> Results:
    """Those of the models that the chosen tests need."""
    of_file = [
        item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path
    ]
    chosen = {item.callspec.params["model"] for item in of_file}
    for name in chosen:
        write_model(name, folder / name)
    return run_ranks(folder, *sorted(chosen), seconds=900)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("model", each())
def test_layouts_agree(model: str, folder: Path, results: Results) -> None:
    reference = results[f"{model} padded"]
    assert reference["log_probs"] == pytest.approx(log_probs_of(folder / model), rel=1e-4)
    assert reference["log_probs after"] > reference["log_probs"]
    for layout in SAME:
        for name, value in reference.items():
            assert results[f"{model} {layout}"][name] == pytest.approx(value, rel=2e-5), (layout, name)


@pytest.mark.parametrize("model", each())
def test_bfloat16_is_near_and_adapters_start_as_the_model(model: str, results: Results) -> None:
    reference, near, adapted = (results[f"{model} {layout}"] for layout in ("padded", "bf16", "lora"))
    assert near["log_probs"] == pytest.approx(reference["log_probs"], rel=5e-3)
    assert near["grad_norm"] == pytest.approx(reference["grad_norm"], rel=5e-2)
    assert adapted["log_probs"] == pytest.approx(reference["log_probs"], rel=2e-5)
    assert adapted["log_probs after"] > adapted["log_probs"]


@pytest.fixture(scope="module")
def merged(folder: Path, results: Results) -> Path:
    """A folder with the policy of each model and layout, below its name."""
    out = folder / "merged"
    for name in results:
        if name.endswith((" replicated", " lora")):
            (out / name).mkdir(parents=True)
            merge(folder / name, out / name, "float32")
    return out


@pytest.mark.parametrize("model", each())
def test_a_merged_checkpoint_is_the_model_that_the_ranks_trained(model: str, results: Results, merged: Path) -> None:
    layouts = ("replicated", "lora") if model in DENSE else ("replicated",)  # adapters of experts are refused
    for name in (f"{model} {layout}" for layout in layouts):
        assert log_probs_of(merged / name) == pytest.approx(results[name]["log_probs after"], rel=1e-4), name


@pytest.mark.skipif(torch.version.cuda is not None, reason="vLLM's build for CUDA needs a GPU")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("model", each())
def test_vllm_samples_from_the_model_that_was_trained(model: str, merged: Path, results: Results) -> None:
    policy = merged / f"{model} replicated"
    script = Path(__file__).with_name("zoo_engine.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script), str(policy), json.dumps([ids.tolist() for ids in sequences()])],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["log_probs"] == pytest.approx(results[policy.name]["log_probs after"], rel=1e-4)
    samples = found["samples"]
    assert len({tuple(sample["tokens"]) for sample in samples}) == 2
    reference = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32, attn_implementation="eager")
    for sample in samples:
        ids = torch.tensor([*PROMPT, *sample["tokens"]])
        with torch.no_grad():
            log_probs = reference(ids[None]).logits[0, len(PROMPT) - 1 : -1].log_softmax(-1)
        expected = log_probs.gather(-1, ids[len(PROMPT) :, None]).squeeze(-1)
        assert torch.tensor(sample["log_probs"]) == pytest.approx(expected, abs=5e-3)
