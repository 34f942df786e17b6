"""The checks of the targets: what they stop, and what they let pass."""

from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets import checks
from core.schemas import REJECTED
from tests.defs.project import message
from tests.defs.small_targets import INPUTS, OWN, SMALL, TARGETS, good_row, write_rows

NO_INTERPRETER = {"interpreter__python": "/nowhere/python"}  # what stops a training that the checks let pass


def prepare_unchecked(project) -> None:
    """Materialize the targets as somebody does who unticks their checks in the UI."""
    keys = {dg.AssetKey.from_user_string(key) for key in TARGETS}
    job = project.defs.resolve_job_def("everything").get_subset(asset_selection=keys, asset_check_selection=set())
    assert job.execute_in_process(instance=project.instance).success


def test_neither_a_run_nor_a_training_alone_trains_on_targets_whose_check_failed(build_on_small):
    project = build_on_small(**SMALL, targets__min_rows="1000")
    result = project.run(*INPUTS, *TARGETS, "training/policy")
    assert not result.success
    failed = [check for check in result.get_asset_check_evaluations() if not check.passed]
    assert [check.check_name for check in failed] == ["enough_rows"]
    started = {event.step_key for event in result.all_events if event.event_type_value == "STEP_START"}
    assert "training__policy" not in started
    assert "targets__train" in started

    refusal = message(project.run("training/policy"))
    rows = project.metadata("targets/train")["dagster/row_count"]
    assert f"targets/train: enough_rows failed: There are at least min_rows targets. Observed: {rows};" in refusal
    assert "training.ignore_checks=true" in refusal
    ignored = build_on_small(**SMALL, **NO_INTERPRETER).run("training/policy", set=["training.ignore_checks=true"])
    assert "no training interpreter" in message(ignored)


def test_a_training_alone_looks_at_the_checks_of_the_version_that_it_reads(build_on_small):
    few = build_on_small(**{**SMALL, "targets__embedded_rows": "60", "targets__min_rows": "100"}, **NO_INTERPRETER)
    assert not few.run(*INPUTS, *TARGETS).success
    assert "enough_rows failed" in message(few.run("training/policy"))
    many = build_on_small(**{**SMALL, "targets__min_rows": "100"}, **NO_INTERPRETER)
    prepare_unchecked(many)  # the newest evaluation is of the version before, and failed
    refusal = message(many.run("training/policy"))
    assert "enough_rows was never evaluated on this version" in refusal and "failed" not in refusal
    assert many.run("targets/train").success
    assert "no training interpreter" in message(many.run("training/policy"))
    prepare_unchecked(few)  # the newest evaluation is of another version, and passed
    assert "enough_rows failed" in message(few.run("training/policy"))


def test_the_profile_names_the_suite_of_the_checks(build_on_small, tmp_path: Path):
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: ours\nchecks:\n  - {name: short, severity: error, description: No long target.,"
        " type: expect_column_max_to_be_between, kwargs: {column: target_tokens, max_value: 3}}\n"
    )
    project = build_on_small(**SMALL, checks__suite=str(suite))
    result = project.run(*INPUTS, *TARGETS)
    outcomes = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert outcomes == {"short": False, "every_trace_accounted_for": True}
    suite.write_text(suite.read_text().replace("max_value: 3", "max_value: 3000"))
    result = build_on_small(**SMALL, checks__suite=str(suite)).run(*INPUTS, *TARGETS)
    assert all(check.passed for check in result.get_asset_check_evaluations())


def test_a_new_version_is_compared_with_the_one_before(build, tmp_path: Path):
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    project = build(**OWN, targets__source=write_rows(first, [good_row(k) for k in range(11, 41)]))
    assert project.run(*INPUTS, *TARGETS).success
    assert project.metadata("targets/train")["compared with the version before"] == "there is no earlier version"
    project = build(**OWN, targets__source=write_rows(second, [good_row(k) for k in range(31, 51)]))
    result = project.run(*INPUTS, *TARGETS)
    assert result.success
    said = project.metadata("targets/train")["compared with the version before"]
    assert "| targets | 30 | 20 |" in said and "| from b.parquet | 0 | 20 |" in said
    changed = [project.metadata("targets/train")[f"problems that {what}"] for what in ("went", "came")]
    assert [table.count("\n| ") for table in changed] == [20, 10] and "| not read |" in changed[0]
    checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    rows = checks["rows_read_stable"]  # the file has another name, and is compared with the one that is gone
    assert not rows.passed and rows.severity == dg.AssetCheckSeverity.WARN
    assert rows.metadata["value"].value == pytest.approx(-1 / 3)
    assert checks["every_trace_accounted_for"].metadata["train"].value == 20
    page = project.page(str(rows.metadata["page"].value))
    assert page.is_file() and "rows_read_stable" in page.read_text(encoding="utf-8")
    before = project.files()
    assert project.run(*INPUTS, *TARGETS).success  # again: still compared with the one before, and nothing is made
    assert project.metadata("targets/train")["compared with the version before"] == said
    assert project.files() == before


def test_the_same_files_are_validated_once_and_changed_ones_again(build_on_small, monkeypatch):
    project = build_on_small(**SMALL)
    first = project.run(*INPUTS, *TARGETS).get_asset_check_evaluations()
    validated = []
    monkeypatch.setattr(checks, "validate", lambda *a, real=checks.validate, **k: validated.append(a) or real(*a, **k))
    again = project.run(*INPUTS, *TARGETS)
    assert again.success and not validated
    found = [
        {check.check_name: (check.passed, check.metadata) for check in run}
        for run in (first, again.get_asset_check_evaluations())
    ]
    assert found[0] == found[1]
    profile = next((project.storage / "targets" / "prepared").glob("*/profile.parquet"))
    table = pq.read_table(profile)
    wrong = table.set_column(table.column_names.index("verified"), "verified", pa.array([False] * table.num_rows))
    pq.write_table(wrong, profile)
    failed = [check for check in project.run("targets/train").get_asset_check_evaluations() if not check.passed]
    assert validated and "answers_verified" in {check.check_name for check in failed}


def test_a_trace_that_is_lost_stops_the_run_before_training(build_on_small):
    project = build_on_small(**SMALL)
    assert project.run(*TARGETS).success
    heldout = Path(project.metadata("targets/train")["file"]).with_name("left_out.parquet")
    rejected = Path(project.metadata("targets/rejected")["file"])
    table = pq.read_table(rejected)
    extra = pa.Table.from_pylist([{"id": "x", "reason": "wrong", "reasons": ["wrong"]}], schema=REJECTED)
    metadata = {k: v for k, v in pq.read_metadata(heldout).metadata.items() if k != b"ARROW:schema"}
    pq.write_table(pa.concat_tables([table.slice(0, 0), extra]).replace_schema_metadata(metadata), heldout)
    result = project.run(*TARGETS, "training/policy")
    assert not result.success
    failed = [check for check in result.get_asset_check_evaluations() if not check.passed]
    assert [check.check_name for check in failed] == ["every_trace_accounted_for"]
    assert "300 traces read, 301 accounted for" in failed[0].description
