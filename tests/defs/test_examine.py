"""`luffy doctor --profile`: whether and with which limit the base model is sampled."""

from pathlib import Path

import pytest

from assets.shared.references import ModelReference, TrainReference
from assets.training import training_request
from pipelines.cli.profile_doctor import _not_sampled
from tests.defs.project import settings_of

BASE = ModelReference(path="model", digest="d", source="s", parameters=1, architecture="a")
TRAIN = TrainReference(
    path="train.parquet",
    digest="d",
    rows=1,
    heldout_rows=0,
    heldout="heldout.parquet",
    profile="profile.json",
    previous=None,
    prepared_digest="d",
    source=["s"],
    source_digest="d",
)


@pytest.mark.parametrize(
    ("hardware", "backend", "parameters", "why"),
    [
        ("cpu", "local", 2e8, ""),
        ("cpu", "ray", 2e8, ""),
        ("cpu", "local", 7e9, "it has 7,000,000,000 parameters, too many for a CPU"),
        ("gpu", "local", 7e9, ""),
        ("gpu", "slurm", 7e9, "its GPUs belong to interpreter.backend=slurm, not of this machine"),
    ],
)
def test_the_base_model_is_sampled_where_this_machine_can(hardware: str, backend: str, parameters: float, why: str):
    address = {"LUFFY__INTERPRETER__RAY_ADDRESS": "http://head:8265"} if backend == "ray" else {}
    settings = settings_of(LUFFY__TRAINING__HARDWARE=hardware, LUFFY__INTERPRETER__BACKEND=backend, **address)
    assert _not_sampled(settings, BASE.model_copy(update={"parameters": int(parameters)})) == why


def test_the_limit_of_the_samples_is_that_of_the_training(tmp_path: Path):
    (tmp_path / "empty.yaml").write_text("{}")

    def limit(config: str) -> int:
        settings = settings_of(LUFFY_PROFILE=str(tmp_path / "empty.yaml"), LUFFY__TRAINING__CONFIG=config)
        return training_request(settings.training, TRAIN, BASE).composed().run.data.max_response_length

    assert limit("{}") == 8192  # of the recipe
    assert limit("{data: {max_response_length: 96}}") == 96


def test_a_request_has_the_settings_that_its_recipe_reads(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(
        "training: {recipe: sft, seed: 3, config: {data: {train_batch_size: 8}, method: {advantage: {use_std: true}}}}"
    )
    settings = settings_of(LUFFY_PROFILE=str(tmp_path / "mine.yaml"))
    request = training_request(settings.training, TRAIN, BASE)
    assert (request.recipe, request.seed, request.overrides) == ("sft", 3, ("data.train_batch_size=8",))
    assert [request.targets.path, request.model.path] == [Path(TRAIN.path), Path(BASE.path)]
