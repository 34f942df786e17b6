"""operations/retention: what goes, what stays, and that a dry run touches nothing."""

import json
import os
import time
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from assets.registry.removal_plan import Plan, plan_removals, remove
from assets.registry.retention import forget, is_ours, old_runs
from assets.shared.luffy import Names
from assets.shared.references import Reference
from assets.shared.settings import RetentionSettings
from assets.shared.storage import Storage
from core.files import write_json
from tests.defs.project import Project, message

OLD = time.time() - 90 * 86_400


def output(storage: Path, name: str, *, old: bool = True, size: int = 1000, policy: bool = False) -> Path:
    folder = storage / name
    (folder / "policy" if policy else folder).mkdir(parents=True)
    (folder / "data.bin").write_bytes(b"x" * size)
    if policy:
        (folder / "policy" / "lineage.json").write_text("{}")
        (folder / "checkpoints").mkdir()
        (folder / "checkpoints" / "optimizer.bin").write_bytes(b"x" * size)
    age(folder, OLD if old else time.time())
    return folder


def age(folder: Path, when: float) -> None:
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (when, when))


def refer(storage: Path, key: str, path: Path) -> None:
    write_json({"path": str(path), "digest": "d"}, storage / "references" / f"{key}.json")


def champion(storage: Path, *runs: Path) -> None:
    """Champions one after the other; the last is the present one."""
    for number, run in enumerate(runs):
        record = {"checkpoint": f"{number}" * 64, "policy": str(run / "policy"), "scores": {}, "time": "2026-01-01"}
        record["decision"] = {"promoted": True, "reasons": []}
        write_json(record, storage / "registry" / "decisions" / f"{number}.json")
        write_json(record, storage / "registry" / "champion.json")


def plan(storage: Path, rules: RetentionSettings | None = None) -> Plan:
    """What the asset would plan if no materialization named anything."""
    return plan_removals(storage, rules or RetentionSettings(), named=[], now=time.time())


@pytest.fixture
def filled(build) -> tuple[Project, dict[str, Path]]:
    """A storage with one output of each kind."""
    project = build()
    s = project.storage
    made = {
        "unused": output(s, "generations/arithmetic/aaaa", size=5000),
        "young": output(s, "generations/arithmetic/bbbb", old=False),
        "referenced": output(s, "targets/train/cccc"),
        "champion": output(s, "training/policy/dddd", policy=True),
        "before": output(s, "training/policy/eeee", policy=True),
        "kept": output(s, "training/policy/ffff", policy=True),
        "old": output(s, "training/policy/gggg", policy=True),
        "newest": output(s, "training/policy/hhhh", policy=True),
        "shown": output(s, "graded/arithmetic/iiii"),
        "temporary": output(s, "graded/arithmetic/.jjjj.tmp"),
        "settings": output(s, "runs/kkkk"),
    }
    os.utime(made["newest"] / "policy" / "lineage.json", (OLD + 60, OLD + 60))
    refer(s, "targets/train", made["referenced"] / "data.bin")
    refer(s, "training/policy", made["kept"] / "policy")
    champion(s, made["before"], made["champion"])
    path = dg.MetadataValue.path(str(made["shown"] / "data.bin"))
    project.instance.report_runless_asset_event(dg.AssetMaterialization("x", metadata={"file": path}))
    return project, made


GONE = {"unused", "old", "temporary", "settings"}


def test_a_dry_run_touches_nothing_and_then_what_nobody_refers_to_goes(filled):
    project, made = filled
    before = project.files()
    assert project.run_job("retention").success
    shown = project.metadata("operations/retention")
    assert shown["dry run"] is True and shown["bytes freed"] == 0
    # four folders, and the trainer's own checkpoints of two complete runs
    assert shown["folders"] == 6 and shown["bytes to free"] == 5000 + 2002 + 2 * 1000 + 2 * 1000
    assert "generations/arithmetic/aaaa" in shown["list"]
    assert project.files() == before and all(folder.exists() for folder in made.values())

    assert project.run_job("retention", dry_run=False).success
    assert {name for name, folder in made.items() if not folder.exists()} == GONE
    assert (made["champion"] / "checkpoints").exists() and (made["before"] / "checkpoints").exists()
    for name in ("kept", "newest"):
        assert not (made[name] / "checkpoints").exists() and (made[name] / "policy" / "lineage.json").exists()
    assert project.metadata("operations/retention")["bytes freed"] == 11_002
    assert project.run_job("retention", dry_run=False).success
    assert project.metadata("operations/retention")["folders"] == 0


def test_what_was_rolled_back_takes_no_place_of_a_champion(filled):
    project, made = filled
    champion(project.storage, made["before"], made["kept"], made["old"], made["champion"])
    file = project.storage / "registry" / "champion.json"
    write_json({**json.loads(file.read_text()), "rejected": ["1" * 64, "2" * 64]}, file)
    paths = {removal.path for removal in plan(project.storage, RetentionSettings(keep_champions=2)).removals}
    assert made["before"] not in paths and made["old"] in paths
    paths = {removal.path for removal in plan(project.storage, RetentionSettings(keep_champions=1)).removals}
    assert made["before"] in paths and made["champion"] not in paths


def test_records_of_old_runs_go_unless_an_asset_shows_what_they_made(build, tmp_path):
    project = build()
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        project.instance = instance
        first, second = (project.run_job("observe_sources").run_id for _ in range(2))
        job = project.defs.resolve_job_def("everything")
        failed, partition, newest = (
            instance.create_run_for_job(job, tags=tags) for tags in ({}, {"dagster/partition": "luffy|0"}, {})
        )
        for run in (failed, partition, newest):
            instance.report_run_failed(run)
        files = {run: tmp_path / "home" / "history" / "runs" / f"{run}.db" for run in (first, second)}
        assert all(file.exists() for file in files.values())
        assert project.run_job("retention", dry_run=False).success
        assert project.metadata("operations/retention")["runs"] == 0  # all of them are young

        old = {run.run_id for run in old_runs(instance, time.time() + 60)}
        assert old == {first, failed.run_id}  # the last of an asset stay
        forget(instance, first)
        assert instance.get_run_by_id(first) is None
        assert not files[first].exists() and files[second].exists()
        key = dg.AssetKey(["targets", "source"])
        (seen,) = instance.fetch_observations(key, limit=10).records
        assert seen.run_id == second


def test_the_newest_run_of_an_identity_is_the_one_of_the_highest_number(tmp_path):
    storage = Storage(root=str(tmp_path))
    first = storage.folder("training", "policy", "f" * 64)
    for name in (first.name, f"{first.name}-3", f"{first.name}-12"):  # retention has removed the others
        (first.with_name(name) / "policy").mkdir(parents=True)
    forced, run = Storage(root=str(tmp_path), force=True), ("training", "policy", "f" * 64, "policy")
    assert storage.result(*run).name == f"{first.name}-12"
    again = forced.result(*run)
    assert again.name == f"{first.name}-13"
    again.mkdir()  # it is interrupted
    assert storage.result(*run) == forced.result(*run) == again
    assert forced.result("training", "policy", "e" * 64, "policy") == storage.folder("training", "policy", "e" * 64)


def run_of(job: str, *keys: str, location: str | None = None) -> dg.DagsterRun:
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location or ""), "__repository__")
    return dg.DagsterRun(
        job_name=job,
        asset_selection={dg.AssetKey.from_user_string(key) for key in keys} or None,
        remote_job_origin=RemoteJobOrigin(repository, job) if location else None,
    )


@pytest.mark.parametrize(
    ("run", "ours"),
    [
        (run_of("reasoner_everything"), True),
        (run_of("__ASSET_JOB", "reasoner/targets/train", "reasoner/models/base"), True),
        (run_of("__ASSET_JOB", "reasoner/targets/train", "revenue"), False),
        (run_of("billing"), False),
    ],
)
def test_runs_of_the_project_around_us_are_not_ours(run, ours):
    assert is_ours(run, run_of("reasoner_retention", location="here"), Names(("reasoner",))) is ours


@pytest.mark.parametrize(("location", "ours"), [(None, True), ("luffy", True), ("billing", False)])
def test_runs_of_another_code_location_are_not_ours(location, ours):
    assert is_ours(run_of("everything", location=location), run_of("retention", location="luffy"), Names()) is ours


def test_pages_that_the_last_events_link_to_stay(filled):
    project, made = filled
    page = output(project.storage, "training/ledger/kkkk")
    docs = output(project.storage, "targets/checks/llll")
    entries = {"page": dg.MetadataValue.url("/files/training/ledger/kkkk/data.bin")}
    project.instance.report_runless_asset_event(dg.AssetMaterialization("ledger", metadata=entries))
    entries = {"page": dg.MetadataValue.url("/files/targets/checks/llll/data.bin")}
    check = dg.AssetCheckKey(dg.AssetKey(["targets", "train"]), "every_trace_accounted_for")
    project.instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(check.asset_key, check.name, passed=True, metadata=entries)
    )
    assert project.run_job("retention", dry_run=False).success
    assert page.exists() and docs.exists() and not made["unused"].exists()


def test_a_storage_that_was_moved_still_has_what_its_references_name(tmp_path):
    first, moved = Storage(root=str(tmp_path / "first")), Storage(root=str(tmp_path / "moved"))
    folder = output(first.path, "targets/train/cccc")
    first.write_reference("targets/train", Reference(path=str(folder), digest="d"))
    output(first.path, "targets/train/dddd")
    first.path.rename(moved.path)
    assert moved.read_reference("targets/train", Reference).path == str(moved.path / "targets/train/cccc")
    assert [removal.path.name for removal in plan(moved.path).removals] == ["dddd"]
    inside_events = [str(tmp_path / "first/targets/train/dddd/train.parquet")]
    assert not plan_removals(moved.path, RetentionSettings(), named=inside_events, now=time.time()).removals


def test_samples_go_with_their_policy(filled):
    project, made = filled
    groups = {}
    for name, checkpoint in {"gone": "0" * 64, "present": "1" * 64, "teacher": "t" * 64}.items():
        groups[name] = project.storage / "samples" / name
        write_json({"checkpoint": checkpoint}, groups[name] / "group.json")
        age(groups[name], OLD)
    write_json({"checkpoint_digest": "1" * 64}, made["champion"] / "policy" / "lineage.json")
    paths = {removal.path for removal in plan(project.storage).removals}
    assert groups["gone"] in paths and not {groups["present"], groups["teacher"]} & paths
    age(groups["gone"], time.time())
    assert groups["gone"] not in {removal.path for removal in plan(project.storage).removals}


def begin(project: Project, status: str) -> None:
    """Another run that is not finished."""
    job = project.defs.resolve_job_def("everything")
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("here"), "__repository__"), job.name)
    run = project.instance.create_run_for_job(job, remote_job_origin=origin)
    if status != "not_started":
        event = {"queued": dg.DagsterEventType.RUN_ENQUEUED, "started": dg.DagsterEventType.RUN_START}[status]
        project.instance.report_dagster_event(dg.DagsterEvent(event.value, run.job_name), run_id=run.run_id)


@pytest.mark.parametrize("status", ["not_started", "queued", "started"])
def test_nothing_goes_while_a_run_is_queued_or_under_way(filled, status):
    project, made = filled
    begin(project, status)
    assert f"is {status} and may use outputs" in message(project.run_job("retention", dry_run=False))
    assert all(folder.exists() for folder in made.values())


@pytest.mark.parametrize("moment", [2, 3], ids=["before the folder is moved", "after it"])
def test_a_run_that_starts_meanwhile_finds_everything(filled, monkeypatch, moment):
    project, made = filled
    looks = []

    def named(*of):
        looks.append(of)
        if len(looks) == moment - 1:  # the run begins after this look; the next one sees it
            begin(project, "started")
        return []

    monkeypatch.setattr("assets.registry.retention.named_by_events", named)
    assert "is started and may use outputs" in message(project.run_job("retention", dry_run=False))
    assert all(folder.exists() for folder in made.values())


def test_what_began_to_be_used_or_written_to_after_the_plan_stays(filled):
    project, made = filled
    storage, looks = project.storage, []

    def named():
        looks.append(1)
        if len(looks) == 1:  # between the first look at the first folder and the second
            refer(storage, "x", made["unused"] / "data.bin")
        return []

    removals = plan(storage).removals
    assert removals[0].path == made["unused"]
    refer(storage, "y", made["old"] / "data.bin")
    (made["settings"] / "data.bin").write_text("somebody writes to it")
    gone = [removal.path for removal in remove(storage, removals, RetentionSettings(), named=named)]
    assert made["unused"].exists() and made["old"].exists() and made["settings"].exists()
    assert made["temporary"] in gone and made["unused"] not in gone and made["old"] not in gone


def test_what_a_champion_and_other_trainings_read_stays(filled):
    project, made = filled
    storage = project.storage
    read = {name: output(storage, f"targets/train/{name}") for name in ("champions", "firsts", "unfinished", "unread")}
    read["base"] = output(storage, "training/policy/base", policy=True)
    targets = "../../../../targets/train"
    lineage = {"targets": {"path": f"{targets}/champions/data.bin"}, "base_model": {"path": "../../base/policy"}}
    lineage["first_stage"] = {"targets": {"path": f"{targets}/firsts/data.bin"}}
    write_json(lineage, made["champion"] / "policy" / "lineage.json")
    interrupted = output(storage, "training/policy/interrupted")
    write_json({"data": {"train_files": str(read["unfinished"] / "data.bin")}}, interrupted / "config.yaml")
    for folder in (made["champion"], interrupted):
        age(folder, OLD)
    os.utime(made["newest"] / "policy" / "lineage.json", (OLD + 60, OLD + 60))
    assert project.run_job("retention", dry_run=False).success
    assert {name for name, folder in read.items() if not folder.exists()} == {"unread"}
    assert project.run_job("retention", dry_run=False).success
    assert not read["unfinished"].exists()  # the interrupted run went the time before


def test_a_removal_that_was_interrupted_is_finished_by_the_next(filled, monkeypatch):
    project, made = filled
    found = [removal for removal in plan(project.storage).removals if removal.path == made["unused"]]
    monkeypatch.setattr("assets.registry.removal_plan.shutil.rmtree", lambda folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(remove(project.storage, found, RetentionSettings(), named=list))
    monkeypatch.undo()
    assert not made["unused"].exists()
    (trash_path,) = made["unused"].parent.glob(".*.tmp")
    assert trash_path not in {removal.path for removal in plan(project.storage).removals}  # its process, ours, is at it
    machine, pid, since, number = trash_path.name.split("-")
    left = trash_path.rename(trash_path.with_name("-".join([machine, pid, str(int(since) - 1), number])))
    assert left in {removal.path for removal in plan(project.storage).removals}
