"""A profile's values are the defaults of an asset's configuration; each definition has its own."""

import dagster as dg
import pytest

from assets.shared.profile import Names, profile_asset
from assets.shared.stage_options import SplitOptions, TrainingOptions
from core import PROJECT
from core.errors import InputError
from core.files import read_yaml
from training.config.keys import leaves


@profile_asset(key=dg.AssetKey("split"), group_name="targets", description="Says what it was given.")
def split(context: dg.AssetExecutionContext, config: SplitOptions) -> dg.MaterializeResult:
    if config.max_rows == 13:
        raise InputError("13 rows bring bad luck; give another number")
    return dg.MaterializeResult(metadata={"max_rows": config.max_rows or 0, "kind": type(config).__mro__[2].__name__})


def materialized(asset: dg.AssetsDefinition, **config: object) -> dg.ExecuteInProcessResult:
    given = {"ops": {"split": {"config": config}}} if config else None
    return dg.materialize([asset], run_config=given, raise_on_error=False)


def metadata(result: dg.ExecuteInProcessResult) -> dict:
    (event,) = result.get_asset_materialization_events()
    return {name: entry.value for name, entry in event.materialization.metadata.items()}


def test_each_definition_has_the_values_of_its_profile_as_defaults() -> None:
    seven, none = split.build(Names(), SplitOptions(max_rows=7)), split.build(Names(), SplitOptions())
    assert metadata(materialized(seven))["max_rows"] == 7
    assert metadata(materialized(none))["max_rows"] == 0
    assert metadata(materialized(seven, max_rows=9))["max_rows"] == 9
    assert metadata(materialized(seven))["kind"] == "SplitOptions"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"max_rows": 0}, "max_rows"),
        ({"heldout_share": 2.0}, "change it in the Launchpad or in the profile"),
        ({"max_rows": 13}, "13 rows bring bad luck"),
    ],
)
def test_a_value_that_does_not_fit_ends_the_step_with_its_message(config: dict, said: str) -> None:
    result = materialized(split.build(Names(), SplitOptions()), **config)
    (failure,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    assert said in failure.step_failure_data.user_failure_data.description


def test_no_option_of_a_training_is_a_second_spelling_of_a_key_of_its_configuration() -> None:
    files = sorted((PROJECT / "training" / "config").glob("*.yaml"))
    names = {key.rpartition(".")[2] for file in files for key in leaves(read_yaml(file, "configuration"))}
    assert {"seed", "max_response_length"} <= names
    assert set(TrainingOptions.model_fields) & names == {"recipe", "hardware", "seed"}  # what a request names
