"""The default prompt of a checkpoint is the one that it was trained with."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from manifests import manifest, targets

from core.errors import InputError
from core.model.lineage_file import write_manifest
from core.schemas import TARGET
from evaluation.generation.model_source import choose_template, template_names, training_system


def lineage(folder: Path, path: Path, **metadata: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, manifest(targets=targets(path=path, metadata=metadata)))
    return folder


def targets_file(path: Path, system: str | None) -> Path:
    prompt = [{"role": "user", "content": "1+1"}]
    if system:
        prompt.insert(0, {"role": "system", "content": system})
    pq.write_table(pa.Table.from_pylist([{"prompt": prompt}], schema=TARGET), path)
    return path


def test_the_templates_by_name():
    assert template_names() == ["training", "own", "qwen", "simplerl", "prime", "none", "tokenizer"]


def test_a_model_that_nobody_trained_has_no_training_prompt(tmp_path):
    assert training_system(tmp_path) is None
    assert choose_template("training", tmp_path).system is None  # the suite's own messages stay


@pytest.mark.parametrize("system", ["Think first.", None])
def test_the_training_prompt_is_that_of_the_targets(tmp_path, system):
    path = targets_file(tmp_path / "train.parquet", system)
    model = lineage(tmp_path / "policy", path, config='{"system_prompt": null}')
    assert training_system(model) == (system or "")
    assert choose_template("training", model).system == (system or "")


def test_the_setting_of_the_preparation_comes_first(tmp_path):
    config = json.dumps({"system_prompt": "Set."})
    model = lineage(tmp_path, Path("/gone.parquet"), config=config)
    assert training_system(model) == "Set."


def test_targets_that_are_gone_are_said(tmp_path):
    model = lineage(tmp_path, Path("/gone/train.parquet"))
    with pytest.raises(InputError, match=r"lineage.json: it names targets at /gone/train.parquet, which are not there"):
        choose_template("training", model)
    assert choose_template("own", model).name == "own"
