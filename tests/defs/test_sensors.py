"""Sensors and schedules that ask for runs: changed sources, the weekly retraining, policies to score."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.shared.references import PreparedReference
from assets.shared.storage import Storage


def traces(file: Path, *problems: str) -> None:
    rows = [
        {"problem": problem, "answer": "4", "generation": f"<think>\n{problem}\n</think>\n\nSo \\boxed{{4}}."}
        for problem in problems
    ]
    pq.write_table(pa.Table.from_pylist(rows), file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "traces"
    made.mkdir()
    traces(made / "a.parquet", "What is 2 + 2?")
    return made


def test_changed_content_is_prepared_once(build, folder):
    project = build(targets__source=f"['{folder}']")
    first = project.tick("watch_sources")
    (request,) = first.run_requests
    assert request.run_key.startswith("1-")
    os.utime(folder / "a.parquet", (1, 1))
    again = project.tick("watch_sources", first.cursor)
    assert not again.run_requests and "unchanged" in again.skip_message
    traces(folder / "b.parquet", "What is 1 + 3?")
    second = project.tick("watch_sources", again.cursor)
    assert [request.run_key[:2] for request in second.run_requests] == ["2-"]
    (folder / "b.parquet").unlink()
    third = project.tick("watch_sources", second.cursor)
    assert [request.run_key[2:] for request in third.run_requests] == [request.run_key[2:]]


def test_a_glob_is_watched_and_what_is_prepared_already_is_not_asked_for(build, folder):
    project = build(targets__source=f"['{folder}/*.parquet']")
    cursor = json.loads(project.tick("watch_sources").cursor)
    reference = PreparedReference(
        path=str(folder),
        digest="d",
        rows=1,
        read=1,
        source=[str(folder)],
        source_digest=cursor["digest"],
        profile="profile.parquet",
        filter_counts=[],
        seed=0,
    )
    Storage(root=str(project.storage)).write_reference("targets/prepared", reference)
    assert "unchanged" in project.tick("watch_sources").skip_message


def test_changes_during_a_preparation_wait_and_coalesce(build, folder):
    project = build(targets__source=f"['{folder}']")
    cursor = project.tick("watch_sources").cursor
    job = project.defs.resolve_job_def("prepare_targets")
    run = project.instance.create_run_for_job(job)
    for number in range(3):
        traces(folder / f"new{number}.parquet", f"What is {number} + 4?")
        waiting = project.tick("watch_sources", cursor)
        assert not waiting.run_requests and run.run_id in waiting.skip_message
        cursor = waiting.cursor
    project.instance.report_run_failed(run)
    assert len(project.tick("watch_sources", cursor).run_requests) == 1


def test_a_new_commit_of_a_hub_dataset_is_prepared(build, monkeypatch):
    commits, asked = ["1" * 40], []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps({"id": "owner/traces", "sha": commits[-1]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    served = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{served.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    project = build(targets__source="[owner/traces]", targets__revision="curated")
    first = project.tick("watch_sources")
    assert len(first.run_requests) == 1
    again = project.tick("watch_sources", first.cursor)
    assert not again.run_requests
    commits.append("2" * 40)
    assert len(project.tick("watch_sources", again.cursor).run_requests) == 1
    served.shutdown()
    served.server_close()
    assert asked.count("/api/datasets/owner/traces/revision/curated") == 3


def test_the_embedded_source_is_not_watched(build):
    assert "same traces" in build().tick("watch_sources").skip_message


@pytest.mark.parametrize(("name", "other"), [("weekly_retrain", "everything"), ("weekly_retention", "score_policy")])
def test_a_weekly_run_waits_for_an_earlier_one(build, tmp_path, name: str, other: str):
    project = build()
    instance = dg.DagsterInstance.local_temp(str(tmp_path))
    schedule = next(schedule for schedule in project.defs.schedules if schedule.name == name)

    def requests() -> int:
        context = dg.build_schedule_context(instance=instance, repository_def=project.defs.get_repository_def())
        return len(schedule.evaluate_tick(context).run_requests or [])

    assert requests() == 1
    run = instance.create_run_for_job(project.defs.resolve_job_def(other))
    assert requests() == 0
    instance.report_run_failed(run)
    assert requests() == 1


def test_a_policy_that_was_trained_alone_is_scored_and_again_when_it_returns(build):
    project, keys = build(), []
    for version in "AABA":
        tags = {"dagster/data_version": version}
        project.instance.report_runless_asset_event(dg.AssetMaterialization(["training", "policy"], tags=tags))
        (request,) = project.tick("score_new_policies").run_requests
        keys.append(request.run_key)
    assert keys[0] == keys[1] and len(set(keys[1:])) == 3
