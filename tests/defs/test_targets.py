"""The targets' part of the graph, run for real on the embedded source: outputs, reuse, gates, bad input."""

import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pages import page_data

from assets.checks import ACCOUNT, check_keys
from core.errors import InputError
from core.parquet import shards
from core.schemas import REJECTED, TARGET
from targets.check import expectations as quality
from tests.defs.project import message

INPUTS = ("models/base", "benchmarks/suite")
TARGETS = ("targets/prepared", "targets/rejected", "targets/train")
SMALL = {"targets__embedded_rows": "300", "benchmarks__limit": "20"}


def good_row(k: int) -> dict[str, str]:
    return {
        "problem": f"{k}+{k}=?",
        "answer": str(2 * k),
        "response": f"<think>\nTwice {k} is {2 * k}.\n</think>\n\nIt is \\boxed{{{2 * k}}}.",
    }


def write_rows(path: Path, rows: list[dict[str, str]]) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def test_the_targets_are_prepared_checked_and_accounted_for(build):
    project = build(**SMALL)
    result = project.run(*INPUTS, *TARGETS)
    assert result.success

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


def test_the_same_content_is_not_prepared_again(build):
    project = build(**SMALL)
    assert project.run(*INPUTS, *TARGETS).success
    before, versions = project.files(), [project.data_version(key) for key in (*INPUTS, *TARGETS)]
    assert project.run(*INPUTS, *TARGETS).success
    assert project.metadata("targets/prepared")["reused"] is True
    assert project.files() == before
    assert [project.data_version(key) for key in (*INPUTS, *TARGETS)] == versions


@pytest.mark.parametrize(
    ("damaged", "size"),
    [
        ("targets/prepared/*/profile.parquet", 300),
        ("targets/train/*/train.parquet", 9),
        ("targets/data_docs/*/*.json", 0),
    ],
)
def test_a_damaged_output_is_set_aside_and_made_again(build, damaged, size):
    project = build(**SMALL)
    assert project.run(*INPUTS, *TARGETS).success
    (file,) = project.storage.glob(damaged)
    whole = file.read_bytes()
    os.truncate(file, size)
    assert project.run(*INPUTS, *TARGETS).success
    assert file.read_bytes() == whole
    assert file.parent.with_name(f"{file.parent.name}.damaged").joinpath(file.name).stat().st_size == size


def test_a_review_is_honoured_and_every_trace_stays_on_the_page(build, tmp_path):
    project = build(**SMALL)
    assert project.run(*INPUTS, *TARGETS, "targets/browser").success
    first = pq.read_table(project.metadata("targets/prepared")["file"])["extra_info"][0]["id"].as_py()
    review = tmp_path / "review.csv"
    review.write_text(f"id,decision,reviewer,note\n{first},refuse,Ada,too short\n")
    project = build(**SMALL, targets__review=str(review))
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


def test_other_settings_make_other_files_and_leave_the_old_ones(build):
    assert build(**SMALL).run(*INPUTS, *TARGETS).success
    project = build(**SMALL)
    before, version = project.files(), project.data_version("targets/train")
    changed = {"targets__train": {"config": {"max_rows": 50}}}
    assert project.run("targets/train", config=changed).success
    assert project.metadata("targets/train")["dagster/row_count"] == 50
    assert project.data_version("targets/train") != version
    after = project.files()
    assert {name: after[name] for name in before if not name.startswith("references/")} == {
        name: digest for name, digest in before.items() if not name.startswith("references/")
    }


def test_a_source_can_be_observed(build):
    project = build(**SMALL)
    job = project.defs.resolve_job_def("observe_sources")
    assert job.execute_in_process(instance=project.instance).success
    found = project.instance.fetch_observations(dg.AssetKey(["targets", "source"]), limit=1).records[0]
    assert found.asset_observation.metadata["dagster/row_count"].value == 300


def test_a_failing_gate_stops_the_run_before_training(build):
    project = build(**SMALL, targets__min_rows="100000")
    result = project.run(*INPUTS, *TARGETS, "training/policy")
    assert not result.success
    failed = [check for check in result.get_asset_check_evaluations() if not check.passed]
    assert [check.check_name for check in failed] == ["enough_rows"]
    assert "300" in failed[0].description
    started = {event.step_key for event in result.all_events if event.event_type_value == "STEP_START"}
    assert "training__policy" not in started
    assert "targets__train" in started


def bad_sources(folder: Path) -> dict[str, tuple[str, list[str]]]:
    (folder / "not.parquet").write_text("hello")
    wrong = write_rows(folder / "columns.parquet", [{"question": "1+1", "text": "2"}])
    return {
        "missing": (str(folder / "none.parquet"), ["none.parquet"]),
        "not a parquet": (str(folder / "not.parquet"), ["not.parquet", "parquet"]),
        "wrong columns": (wrong, ["columns.parquet", "question"]),
    }


@pytest.mark.parametrize("case", ["missing", "not a parquet", "wrong columns"])
def test_a_bad_source_is_one_message_and_touches_nothing(build, tmp_path: Path, case: str):
    assert build(**SMALL).run(*INPUTS, *TARGETS).success
    source, parts = bad_sources(tmp_path)[case]
    project = build(**SMALL, targets__source=source)
    before = project.files()
    result = project.run("targets/prepared", "targets/rejected")
    assert not result.success
    for part in parts:
        assert part in message(result)
    # What was filtered before the error is kept for the next run.
    outputs = {name: digest for name, digest in project.files().items() if not name.startswith("targets/decisions/")}
    assert outputs.items() <= before.items()
    assert before.items() <= project.files().items()


def test_when_every_trace_is_rejected_the_run_fails_and_shows_them(build, tmp_path: Path):
    assert build(**SMALL).run(*INPUTS, *TARGETS).success
    unboxed = {**good_row(1), "response": "<think>\nhm\n</think>\n\nTwo."}
    source = write_rows(tmp_path / "empty.parquet", [unboxed, {**unboxed, "problem": "2+2=?"}])
    project = build(**SMALL, targets__source=source)
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


NO_INTERPRETER = {"interpreter__python": "/nowhere/python"}  # what stops a training that the checks let pass


def prepare_unchecked(project) -> None:
    """Materialize the targets as somebody does who unticks their checks in the UI."""
    keys = {dg.AssetKey.from_user_string(key) for key in TARGETS}
    job = project.defs.resolve_job_def("everything").get_subset(asset_selection=keys, asset_check_selection=set())
    assert job.execute_in_process(instance=project.instance).success


def test_a_training_alone_does_not_start_on_targets_whose_check_failed(build):
    project = build(**{**SMALL, "targets__min_rows": "1000"})
    assert not project.run(*INPUTS, *TARGETS).success
    result = project.run("training/policy")
    assert not result.success
    rows = project.metadata("targets/train")["dagster/row_count"]
    assert f"targets/train: enough_rows failed: There are at least min_rows targets. Observed: {rows};" in message(
        result
    )
    assert "training.ignore_checks=true" in message(result)
    config = {"training__policy": {"config": {"ignore_checks": True}}}
    ignored = build(**SMALL, **NO_INTERPRETER).run("training/policy", config=config)
    assert "no training interpreter" in message(ignored)


def test_a_training_alone_does_not_start_on_targets_that_were_never_checked(build):
    project = build(**SMALL, **NO_INTERPRETER)
    assert project.run(*INPUTS).success
    prepare_unchecked(project)
    refusal = message(project.run("training/policy"))
    assert "enough_rows was never evaluated on this version" in refusal
    assert "every_trace_accounted_for was never evaluated on this version" in refusal
    assert "luffy run --select 'key:targets/train'" in refusal
    assert project.run("targets/train").success
    assert "no training interpreter" in message(project.run("training/policy"))


def test_a_training_alone_looks_at_the_checks_of_the_version_that_it_reads(build):
    few = build(**{**SMALL, "targets__embedded_rows": "60", "targets__min_rows": "100"}, **NO_INTERPRETER)
    assert not few.run(*INPUTS, *TARGETS).success
    assert "enough_rows failed" in message(few.run("training/policy"))
    many = build(**{**SMALL, "targets__min_rows": "100"}, **NO_INTERPRETER)
    prepare_unchecked(many)  # the newest evaluation is of the version before, and failed
    refusal = message(many.run("training/policy"))
    assert "enough_rows was never evaluated on this version" in refusal and "failed" not in refusal
    assert many.run("targets/train").success
    assert "no training interpreter" in message(many.run("training/policy"))
    prepare_unchecked(few)  # the newest evaluation is of another version, and passed
    assert "enough_rows failed" in message(few.run("training/policy"))


def test_no_other_asset_has_blocking_checks_that_a_training_would_have_to_look_at(build):
    project = build(**SMALL)
    graph = project.defs.resolve_asset_graph()
    assert {key.asset_key for key in graph.asset_check_keys} == {dg.AssetKey(["targets", "train"])}
    blocking = {key for key in graph.asset_check_keys if graph.get_check_spec(key).blocking}
    assert blocking == set(check_keys(project.defs.resources["profile"]))


def test_the_profile_names_the_suite_of_the_checks(build, tmp_path: Path):
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: ours\nchecks:\n  - {name: short, severity: error, description: No long target.,"
        " type: expect_column_max_to_be_between, kwargs: {column: target_tokens, max_value: 3}}\n"
    )
    project = build(**SMALL, checks__suite=str(suite))
    result = project.run(*INPUTS, *TARGETS)
    outcomes = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert outcomes == {"short": False, "every_trace_accounted_for": True}
    suite.write_text(suite.read_text().replace("max_value: 3", "max_value: 3000"))
    result = build(**SMALL, checks__suite=str(suite)).run(*INPUTS, *TARGETS)
    assert all(check.passed for check in result.get_asset_check_evaluations())


def test_rows_without_an_answer_are_rejected_and_said_so(build, tmp_path: Path):
    rows = [*map(good_row, range(11, 41)), {**good_row(50), "answer": None}]
    project = build(**SMALL, targets__source=write_rows(tmp_path / "traces.parquet", rows))
    assert project.run(*INPUTS, *TARGETS).success
    assert project.metadata("targets/prepared")["dagster/row_count"] == 30
    refused = pq.read_table(project.metadata("targets/rejected")["file"]).to_pylist()
    assert [(row["row"], row["problem"]) for row in refused] == [(30, "50+50=?")]
    assert "| no_gold |" in project.metadata("targets/rejected")["examples of each reason"]


def test_a_new_version_is_compared_with_the_one_before(build, tmp_path: Path):
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    project = build(**SMALL, targets__source=write_rows(first, [good_row(k) for k in range(11, 41)]))
    assert project.run(*INPUTS, *TARGETS).success
    assert project.metadata("targets/train")["compared with the version before"] == "there is no earlier version"
    project = build(**SMALL, targets__source=write_rows(second, [good_row(k) for k in range(31, 51)]))
    result = project.run(*INPUTS, *TARGETS)
    assert result.success
    said = project.metadata("targets/train")["compared with the version before"]
    assert "| targets | 30 | 20 |" in said and "| from b.parquet | 0 | 20 |" in said
    changed = [project.metadata("targets/train")[f"problems that {what}"] for what in ("went", "came")]
    assert [table.count("\n| ") for table in changed] == [20, 10] and "| not read |" in changed[0]
    checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    mix = checks["source_mix_stable"]
    assert not mix.passed and mix.severity == dg.AssetCheckSeverity.WARN and mix.metadata["value"].value == 1.0
    assert checks["every_trace_accounted_for"].metadata["train"].value == 20
    page = project.page(str(mix.metadata["data docs"].value))
    assert page.is_file() and "Data" in page.read_text(encoding="utf-8")
    before = project.files()
    assert project.run(*INPUTS, *TARGETS).success  # again: still compared with the one before, and nothing is made
    assert project.metadata("targets/train")["compared with the version before"] == said
    assert project.files() == before


def test_the_same_files_are_validated_once_and_changed_ones_again(build, monkeypatch):
    project = build(**SMALL)
    first = project.run(*INPUTS, *TARGETS).get_asset_check_evaluations()
    validated = []
    monkeypatch.setattr(
        quality, "validate", lambda *a, real=quality.validate, **k: validated.append(a) or real(*a, **k)
    )
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


def test_a_trace_that_is_lost_stops_the_run_before_training(build):
    project = build(**SMALL)
    assert project.run(*INPUTS, *TARGETS).success
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


@pytest.mark.parametrize("source", ["no/such/folder-of-mine", "/nowhere/model"])
def test_a_model_that_is_not_there_is_one_message(build, source: str):
    project = build(model__source=source)
    result = project.run("models/base")
    assert source.lstrip("/") in message(result)
    assert project.files() == {}


def test_a_wrong_value_in_the_launchpad_is_one_message(build):
    project = build(**SMALL)

    def launch(op: str, **config):
        return project.run(*INPUTS, *TARGETS[:2], config={op: {"config": config}})

    assert message(launch("benchmarks__suite", limit=0)).startswith("limit: Input should be greater than or equal to 1")
    assert "mapping.problm is not a setting" in message(launch("targets__prepared", mapping={"problm": "q"}))
    with pytest.raises(dg.DagsterInvalidConfigError, match=r"keep.*longest"):  # before the run starts
        launch("targets__prepared", keep="longest")


def test_an_asset_without_its_input_says_what_to_materialize(build):
    project = build(**SMALL)
    result = project.run("targets/train")
    assert not result.success
    failure = next(event for event in result.all_events if event.event_type_value == "STEP_FAILURE")
    assert "targets/prepared: not materialized" in json.dumps(failure.step_failure_data.error.to_string())


def test_a_storage_that_cannot_be_written_is_one_message(build, tmp_path: Path):
    settings = {**SMALL, "storage__root": str(tmp_path / "file" / "storage")}
    project = build(**settings)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"storage\.root: .*/file is a file; expected a folder"):
        build(**settings)
    result = project.run("benchmarks/suite")
    assert "cannot write" in message(result)
    assert "LUFFY__STORAGE__ROOT" in message(result)


def test_the_rejected_traces_are_recorded_whichever_of_the_two_is_selected(build):
    project = build(**SMALL)
    assert project.run(*INPUTS, "targets/prepared", "targets/train").success
    first, version = project.metadata("targets/rejected"), project.data_version("targets/rejected")
    assert first["dagster/row_count"] + project.metadata("targets/prepared")["dagster/row_count"] == 300
    reference = json.loads((project.storage / "references" / "targets" / "rejected.json").read_text())
    assert reference["path"] == first["file"] and reference["digest"] == version
    assert project.run("targets/rejected").success
    assert project.metadata("targets/rejected") == {**first, "reused": True}
    assert project.data_version("targets/rejected") == version


@contextmanager
def full_disk() -> Iterator[None]:
    """No file grows over 20 kB, and writing more is an error: what a disk does that becomes full meanwhile.

    The limit holds for every file of this process, pytest's own output among them: keep it around the one call.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_fills_up_is_one_message_and_leaves_nothing_half_written(build):
    project = build(benchmarks__limit="20")
    assert project.run(*INPUTS).success
    before = project.files()
    with full_disk():
        result = project.run("targets/prepared", "targets/rejected")
    assert "cannot write" in message(result)
    assert "make room" in message(result)
    assert project.files() == before


def test_targets_in_several_files_are_trained_on_and_each_version_is_validated(build):
    several = {**SMALL, "targets__rows_per_file": "100"}
    project = build(**several)
    result = project.run(*INPUTS, *TARGETS)
    assert result.success
    assert all(c.passed for c in result.get_asset_check_evaluations() if c.severity == dg.AssetCheckSeverity.ERROR)
    train = project.metadata("targets/train")
    assert train["files"] == len(shards(Path(train["file"]))) == 2
    checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    first = checks["enough_rows"].metadata["value"].value
    assert first == project.metadata("targets/prepared")["dagster/row_count"]

    project = build(**{**several, "targets__embedded_rows": "290"})
    checks = {check.check_name: check for check in project.run(*TARGETS).get_asset_check_evaluations()}
    assert checks["enough_rows"].metadata["value"].value < first


def test_an_embedding_model_of_the_profile_compares_the_problems(build, embedder):
    """A mapping of the profile; in the embedded source, sums of the same numbers can have the same result."""
    server, url = embedder
    chosen = {"model": "trigrams", "url": url, "semantic_duplicate": 50, "prefix": "sum of "}
    project = build(**SMALL, targets__embedding=json.dumps(chosen))
    assert project.run(*INPUTS, *TARGETS).success
    assert "sum of What is 1 + 1?" in server.texts and len(server.texts) > 200
    steps = [*project.metadata("targets/rejected")["reasons"].splitlines()]
    assert any("semantic_duplicate" in step for step in steps) and not any("paraphrased" in step for step in steps)
