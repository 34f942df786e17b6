"""An identity covers settings, inputs and the number of the kind; the digest of the code says what made a result."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from core import PROJECT, code_digest, kinds
from core.errors import InputError
from core.model.lineage_file import InputRecord
from tests.frozen import __main__ as frozen
from training.config import compose
from training.job.request import TrainingRequest


def identity(recipe: str, *overrides: str, hardware: str = "cpu") -> str:
    read = InputRecord(path=Path("file"), digest="d")
    return TrainingRequest(
        recipe=recipe, hardware=hardware, overrides=overrides, targets=read, model=read, out=Path("run")
    ).identity()


def test_a_comment_changes_the_version_of_the_code_and_no_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in kinds.POLICY.packages:
        ignored = shutil.ignore_patterns("*.safetensors", "__pycache__", "*.tgz")
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=ignored)
    monkeypatch.setattr(code_digest, "PROJECT", tmp_path)
    version, before = kinds.POLICY.code_version, identity("luffy")
    with (tmp_path / "training/algorithms/__init__.py").open("a") as file:
        file.write("\n# a comment\n")
    assert kinds.POLICY.code_version != version and identity("luffy") == before


@pytest.mark.parametrize(
    ("changed", "recipe", "overrides", "hardware"),
    [
        ("cpu.yaml", "luffy", [], "cpu"),
        ("luffy.yaml", "luffy", [], "cpu"),
        pytest.param("dapo.yaml", "luffy", [], "cpu", id="other recipe"),
        pytest.param("luffy.yaml", "luffy_reinforce_pro", [], "cpu", id="parent of the recipe"),
        pytest.param("sft.yaml", "sft_rl", [], "cpu", id="recipe of the first stage"),
        pytest.param("gpu.yaml", "luffy", [], "gpu_multinode", id="parent of the hardware"),
        pytest.param("on_policy.yaml", "sft_rl", ["first_stage.recipe=on_policy"], "cpu", id="recipe of an override"),
    ],
)
def test_the_values_of_the_files_that_a_run_composes_and_no_others_are_part_of_its_identity(
    changed: str, recipe: str, overrides: list[str], hardware: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(file: Path, what: str) -> dict[str, Any]:
        return original(file, what) | ({"data": {"use_shm": True}} if file.name == changed else {})

    original, before = compose.read_yaml, identity(recipe, *overrides, hardware=hardware)
    monkeypatch.setattr(compose, "read_yaml", read)
    assert (identity(recipe, *overrides, hardware=hardware) == before) == (changed == "dapo.yaml")


def test_the_same_settings_are_the_same_training_however_they_are_written() -> None:
    written = ["data.train_batch_size=128", "machine={offload: none}", "run.keep_checkpoints=5"]
    assert identity("luffy", *written) == identity("luffy")
    assert identity("luffy", "data.train_batch_size=64") != identity("luffy")


@pytest.mark.parametrize("kind", frozen.KINDS, ids=lambda kind: kind.name)
def test_the_frozen_values_of_a_kind_are_those_of_its_number(kind: kinds.Kind) -> None:
    recorded = json.loads(frozen.NUMBERS.read_text())[kind.name]
    assert kind.number == max(map(int, recorded)) and recorded[str(kind.number)] == frozen.digest(kind), (
        f"{frozen.KINDS[kind]} in tests/golden/frozen have other values than {kind.name} {kind.number} had: "
        "raise the number in core/kinds.py, and write the values by `python -m tests.frozen --record GROUP`"
    )


def test_a_recipe_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="no recipe 'lufy'; did you mean luffy\\? expected one of chord_mu, "):
        identity("lufy")
