"""`luffy doctor --profile`: whether and with which limit the base model is sampled."""

from pathlib import Path

import pytest

from assets.shared.references import ModelReference
from core.errors import InputError
from pipelines.cli.examine import _not_sampled, _response_limit
from tests.defs.project import settings_of


@pytest.mark.parametrize(
    ("hardware", "backend", "parameters", "why"),
    [
        ("cpu", "local", 2e8, ""),
        ("cpu", "ray", 2e8, ""),
        ("cpu", "local", 7e9, "it has 7,000,000,000 parameters, too many for a CPU"),
        ("gpu", "local", 7e9, ""),
        ("gpu", "slurm", 7e9, "its GPUs are those of interpreter.backend=slurm, not of this machine"),
    ],
)
def test_the_base_model_is_sampled_where_this_machine_can(hardware: str, backend: str, parameters: float, why: str):
    address = {"LUFFY__INTERPRETER__RAY_ADDRESS": "http://head:8265"} if backend == "ray" else {}
    settings = settings_of(LUFFY__TRAINING__HARDWARE=hardware, LUFFY__INTERPRETER__BACKEND=backend, **address)
    base = ModelReference(path="p", digest="d", source="s", parameters=int(parameters), architecture="a")
    assert _not_sampled(settings, base) == why


def test_the_limit_of_the_samples_is_that_of_the_training(training_interpreter: Path):
    plain = settings_of(LUFFY__TRAINING__RECIPE="luffy", LUFFY__TRAINING__OVERRIDES="[]")
    assert _response_limit(training_interpreter, plain) == 8192  # of the recipe
    changed = settings_of(LUFFY__TRAINING__RECIPE="luffy", LUFFY__TRAINING__OVERRIDES="[data.max_response_length=96]")
    assert _response_limit(training_interpreter, changed) == 96
    wrong = settings_of(LUFFY__TRAINING__RECIPE="luffy", LUFFY__TRAINING__OVERRIDES="[mixed.loss=nothing]")
    with pytest.raises(InputError, match="'nothing'"):
        _response_limit(training_interpreter, wrong)
