"""The policy that is written from a checkpoint: whole and what was saved, or not there."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from damages import flip_a_bit, truncate
from manifests import manifest
from safetensors.torch import load_file

from core.errors import InputError
from core.model.base_model import SHIPPED
from core.model.lineage_file import read_manifest
from core.model.model_folder import model_files
from training.__main__ import main
from training.job.checkpoints import export_policy, folder_of, mark_complete
from training.job.run_folder import RunFolder


def saved_model(folder: Path, step: int) -> Path:
    """The checkpoint of one rank with the shipped model, as verl writes it; the file with its weights."""
    actor = folder_of(folder, step) / "actor"
    part = actor / "huggingface"  # configuration and tokenizer
    part.mkdir(parents=True)
    for file in model_files(SHIPPED):
        if file.suffix != ".safetensors":
            shutil.copy2(file, part / file.name)
    (actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))
    weights = actor / "model_world_size_1_rank_0.pt"
    torch.save(load_file(SHIPPED / "model.safetensors"), weights)
    mark_complete(folder, step, keep=1)
    return weights


def test_a_policy_is_what_was_saved_or_it_is_none(tmp_path: Path) -> None:
    policy, checkpoints = tmp_path / "policy", RunFolder(tmp_path).checkpoints
    weights = saved_model(checkpoints, 3)
    export_policy(checkpoints, policy, manifest(steps=3), "float32")
    assert read_manifest(policy).steps == 3
    assert {"README.md", "lineage.json", "config.json", "tokenizer.json"} <= {path.name for path in policy.iterdir()}
    exported, shipped = load_file(policy / "model.safetensors"), load_file(SHIPPED / "model.safetensors")
    assert exported.keys() == shipped.keys()
    assert all(torch.equal(exported[name], shipped[name]) for name in shipped)
    earlier = (policy / "lineage.json").read_bytes()
    for damage in (flip_a_bit, truncate, Path.unlink):
        damage(weights)
        with pytest.raises(InputError, match=r"global_step_3 is damaged: .*start the training again"):
            export_policy(checkpoints, policy, manifest(steps=3), "float32")
        with pytest.raises(InputError, match=r"global_step_3 is damaged: "):
            main(["export", "--run", str(tmp_path), "--out", str(tmp_path / "out")])
        assert not (tmp_path / "out").exists()
        assert (policy / "lineage.json").read_bytes() == earlier
