"""targets/difficulty for real: the base model is sampled and graded, and the targets are chosen by its pass rates."""

import dagster as dg
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from evaluation.statistics.solve_rate import DIFFICULTY
from tests.defs.project import Project, message

INPUTS = ("models/base", "benchmarks/suite")
TARGETS = ("targets/prepared", "targets/rejected", "targets/train")
SMALL = {"targets__embedded_rows": "12", "benchmarks__limit": "4"}
MEASURED = SMALL | {"difficulty__samples": "2", "difficulty__max_tokens": "64"}


def keys(project: Project) -> set[str]:
    return {key.to_user_string() for key in project.defs.resolve_asset_graph().get_all_asset_keys()}


def test_without_the_section_nothing_is_measured(build):
    plain, measured = build(**SMALL), build(**MEASURED)
    assert keys(measured) - keys(plain) == {"targets/difficulty"}
    graph = measured.defs.resolve_asset_graph()
    parents = graph.get(dg.AssetKey(["targets", "difficulty"])).parent_keys
    assert {key.to_user_string() for key in parents} == {"models/base", "targets/source"}
    assert dg.AssetKey(["targets", "difficulty"]) in graph.get(dg.AssetKey(["targets", "prepared"])).parent_keys


def test_rates_are_measured_or_given_and_not_both(build):
    with pytest.raises(InputError, match=r"targets\.difficulty=rates\.parquet has them: leave one out"):
        build(**MEASURED, targets__difficulty="rates.parquet")


def test_bounds_without_rates_are_one_message(build):
    project = build(**SMALL, targets__pass_rate="[0, 0.5]")
    assert project.run(*INPUTS).success
    result = project.run("targets/prepared", "targets/rejected")
    assert "pass_rate needs the pass rates of the problems" in message(result)


@pytest.mark.usefixtures("training_interpreter")
@pytest.mark.slow
def test_the_base_is_measured_once_and_its_rates_reach_the_training_file(build):
    project = build(**MEASURED, difficulty__limit="10")
    result = project.run(*INPUTS, "targets/difficulty", *TARGETS)
    assert result.success
    measured = project.metadata("targets/difficulty")
    table = pq.read_table(measured["file"])
    assert table.schema.equals(DIFFICULTY)
    assert table.num_rows == measured["dagster/row_count"] == 10
    assert set(table["samples"].to_pylist()) == {2} and measured["model"] == project.data_version("models/base")
    assert measured["pass rates"].count("data:image/svg+xml;base64,") == 1
    assert "|   0% to  10% | " in measured["problems by pass rate"]
    rates = dict(zip(table["problem"].to_pylist(), table["pass_rate"].to_pylist(), strict=True))
    rows = pq.read_table(project.metadata("targets/train")["file"]).to_pylist()
    assert {row["prompt"][-1]["content"]: row["pass_rate"] for row in rows}.items() <= {
        row["prompt"][-1]["content"]: rates.get(row["prompt"][-1]["content"]) for row in rows
    }.items()
    assert sum(row["pass_rate"] is not None for row in rows) >= 8
    lineage = project.metadata("targets/prepared")["dagster/column_lineage"].deps_by_column["pass_rate"]
    assert [(dep.asset_key.to_user_string(), dep.column_name) for dep in lineage] == [
        ("targets/difficulty", "pass_rate")
    ]

    before, version = project.files(), project.data_version("targets/difficulty")
    project = build(**MEASURED, difficulty__limit="10", targets__pass_rate="[0, 1]")
    assert project.run("targets/difficulty", *TARGETS).success
    assert project.metadata("targets/difficulty")["reused"] and project.data_version("targets/difficulty") == version
    assert [name for name in project.files() if name.startswith("samples/") and name not in before] == []
    assert "| pass_rate | " in project.metadata("targets/rejected")["reasons"]  # those that were not measured
