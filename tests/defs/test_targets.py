"""The targets' part of the graph, run for real on the embedded source: outputs, reuse, reviews, versions."""

import os
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest
from pages import page_data
from storages import read_reference

from assets.checks import ACCOUNT
from core.parquet import shards
from core.schemas import REJECTED, TARGET
from targets.check import expectations as quality
from tests.defs.project import message
from tests.defs.small_targets import INPUTS, OWN, SMALL, TARGETS, good_row, write_rows


def test_the_targets_are_checked_accounted_for_and_not_prepared_again(build_on_small):
    project = build_on_small(**SMALL)
    before = project.files()
    result = project.run(*INPUTS, *TARGETS)
    assert result.success and project.files() == before
    assert project.metadata("targets/prepared")["reused"] is True
    prepared, rejected = project.metadata("targets/prepared"), project.metadata("targets/rejected")
    assert prepared["read"] == 300
    assert prepared["dagster/row_count"] + rejected["dagster/row_count"] == 300
    assert prepared["dagster/column_schema"].columns[0].name == "data_source"
    assert "data:image/svg+xml;base64," in prepared["what the filters left"]
    assert prepared["lengths"].count("data:image/svg+xml;base64,") == 2
    assert "| embedded | 300 |" in prepared["files and datasets"]
    assert "| embedded | math | math | 300 |" in prepared["by source"] == rejected["by source"]
    assert pq.read_schema(prepared["file"]).equals(TARGET)
    assert pq.read_schema(rejected["file"]).equals(REJECTED)
    train = project.metadata("targets/train")
    assert pq.read_table(train["file"]).num_rows == train["dagster/row_count"] > 200

    checks = result.get_asset_check_evaluations()
    assert sorted(check.check_name for check in checks) == sorted([*quality.check_names(), ACCOUNT])
    assert all(check.passed for check in checks if check.severity == dg.AssetCheckSeverity.ERROR)
    observed = project.instance.fetch_observations(dg.AssetKey(["targets", "source"]), limit=1).records
    assert observed[0].asset_observation.tags["dagster/data_version"]


@pytest.mark.parametrize(
    ("damaged", "size"),
    [
        ("targets/prepared/*/profile.parquet", 300),
        ("targets/train/*/train.parquet", 9),
        ("targets/checks/*/*.json", 0),
    ],
)
def test_a_damaged_output_is_set_aside_and_made_again(build_on_small, damaged, size):
    project = build_on_small(**SMALL)
    (file,) = project.storage.glob(damaged)
    whole = file.read_bytes()
    os.truncate(file, size)
    assert project.run(*INPUTS, *TARGETS).success
    assert file.read_bytes() == whole
    assert file.parent.with_name(f"{file.parent.name}.damaged").joinpath(file.name).stat().st_size == size


def test_a_review_is_honoured_and_every_trace_stays_on_the_page(build_on_small, tmp_path):
    project = build_on_small(**SMALL)
    assert project.run(*INPUTS, *TARGETS, "targets/browser").success
    first = pq.read_table(project.metadata("targets/prepared")["file"])["extra_info"][0]["id"].as_py()
    review = tmp_path / "review.csv"
    review.write_text(f"id,decision,reviewer,note\n{first},refuse,Ada,too short\n")
    project = build_on_small(**SMALL, targets__review=str(review))
    result = project.run(*INPUTS, *TARGETS, "targets/browser")
    assert result.success
    assert "| review | 1 |" in project.metadata("targets/rejected")["reasons"]
    assert all(c.passed for c in result.get_asset_check_evaluations() if c.check_name == "every_trace_accounted_for")
    index, _ = page_data(Path(project.metadata("targets/browser")["file"]))
    reasons = dict(zip(index["ids"], index["facets"][0]["codes"], strict=True))
    assert len(reasons) == 300 and index["facets"][0]["values"][reasons[first]] == "review"
    review.write_text("id,decision,reviewer,note\n")
    assert project.run(*INPUTS, *TARGETS).success
    assert "review" not in project.metadata("targets/rejected")["reasons"]


def test_when_every_trace_is_rejected_the_run_fails_and_shows_them(build_on_small, tmp_path: Path):
    assert build_on_small(**SMALL).run(*INPUTS, *TARGETS).success
    unboxed = {**good_row(1), "response": "<think>\nhm\n</think>\n\nTwo."}
    source = write_rows(tmp_path / "empty.parquet", [unboxed, {**unboxed, "problem": "2+2=?"}])
    project = build_on_small(**OWN, targets__source=source)
    version = project.data_version("targets/prepared")
    for _ in range(2):  # the second time from what the first has written
        result = project.run("targets/prepared", "targets/rejected")
        assert not result.success
        assert "empty.parquet: none of 2 traces can be a target: 2 no_box" in message(result)
        rejected = project.metadata("targets/rejected")
        assert "| no_box | 2 |" in rejected["reasons"] and rejected["dagster/row_count"] == 2
        assert "data:image/svg+xml;base64," in rejected["what the filters left"]
        assert pq.read_table(rejected["file"])["reason"].to_pylist() == ["no_box", "no_box"]
    assert project.data_version("targets/prepared") == version


def test_the_rejected_traces_are_recorded_whichever_of_the_two_is_selected(build_on_small):
    project = build_on_small(**SMALL)
    assert project.run(*INPUTS, "targets/prepared", "targets/train").success
    first, version = project.metadata("targets/rejected"), project.data_version("targets/rejected")
    assert first["dagster/row_count"] + project.metadata("targets/prepared")["dagster/row_count"] == 300
    reference = read_reference(project.storage, "targets/rejected")
    assert reference["path"] == first["file"] and reference["digest"] == version
    assert project.run("targets/rejected").success
    assert project.metadata("targets/rejected") == first
    assert project.data_version("targets/rejected") == version


def test_targets_in_several_files_are_trained_on_and_each_version_is_validated(build_on_small):
    several = {**SMALL, "targets__rows_per_file": "100"}
    project = build_on_small(**several)
    result = project.run(*INPUTS, *TARGETS)
    assert result.success
    assert all(c.passed for c in result.get_asset_check_evaluations() if c.severity == dg.AssetCheckSeverity.ERROR)
    train = project.metadata("targets/train")
    assert train["files"] == len(shards(Path(train["file"]))) == 2
    checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    first = checks["enough_rows"].metadata["value"].value
    assert first == project.metadata("targets/prepared")["dagster/row_count"]

    project = build_on_small(**{**several, "targets__embedded_rows": "290"})
    checks = {check.check_name: check for check in project.run(*TARGETS).get_asset_check_evaluations()}
    assert checks["enough_rows"].metadata["value"].value < first
