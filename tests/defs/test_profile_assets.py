"""The options of a training, and how a mistake of the user's ends a step."""

import dagster as dg

from assets.shared.failures import user_errors
from core.errors import InputError
from tests.defs.project import message
from training.config.run import settable
from training.settings import TrainingSettings


@dg.asset
def split(context: dg.AssetExecutionContext) -> None:
    with user_errors(context):
        raise InputError("13 rows bring bad luck; give another number")


def test_a_mistake_ends_the_step_with_its_message() -> None:
    result = dg.materialize([split], raise_on_error=False)
    assert message(result) == "13 rows bring bad luck; give another number"


def test_no_option_of_a_training_is_a_second_spelling_of_a_key_of_its_configuration() -> None:
    names = {key.rpartition(".")[2] for key in settable()}
    assert {"seed", "max_response_length"} <= names
    assert set(TrainingSettings.model_fields) & names == {"recipe", "seed"}  # what a request names
