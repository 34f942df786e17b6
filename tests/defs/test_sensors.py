"""Sensors on real instances: changed sources, failures that are told, leftovers of dead runs, policies to score."""

import asyncore
import json
import os
import signal
import smtpd
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.interpreter import RUN_VARIABLE
from assets.storage import Reference, Storage
from evaluation.errors import InputError
from pipelines import orphans
from pipelines.home import OWNER, owner_tag
from pipelines.notify import Notice, NotifySettings, redact, send
from pipelines.sensors import failure_notice
from tests.defs.house import House

PLANTED = "planted-5ecret-7781"


def tick(house: House, name: str, cursor: str | None = None):
    sensor = next(sensor for sensor in house.defs.sensors if sensor.name == name)
    context = dg.build_sensor_context(
        instance=house.instance,
        cursor=cursor,
        definitions=house.defs,
        resources={"storage": house.defs.resources["storage"]},
    )
    return sensor.evaluate_tick(context)


# --- sources


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
    house = build(targets__source=f"['{folder}']")
    first = tick(house, "watch_sources")
    (request,) = first.run_requests
    assert request.run_key.startswith("1-")
    again = tick(house, "watch_sources", first.cursor)
    assert not again.run_requests and "unchanged" in again.skip_message
    traces(folder / "b.parquet", "What is 1 + 3?")
    second = tick(house, "watch_sources", again.cursor)
    assert [request.run_key[:2] for request in second.run_requests] == ["2-"]
    (folder / "b.parquet").unlink()
    third = tick(house, "watch_sources", second.cursor)
    assert [request.run_key[2:] for request in third.run_requests] == [request.run_key[2:]]


def test_a_file_that_was_only_touched_is_no_change(build, folder):
    house = build(targets__source=f"['{folder}']")
    first = tick(house, "watch_sources")
    os.utime(folder / "a.parquet", (1, 1))
    assert "unchanged" in tick(house, "watch_sources", first.cursor).skip_message


def test_a_glob_is_watched_and_what_is_prepared_already_is_not_asked_for(build, folder):
    house = build(targets__source=f"['{folder}/*.parquet']")
    cursor = json.loads(tick(house, "watch_sources").cursor)
    reference = Reference(str(folder), "d", details={"source_digest": cursor["digest"]})
    Storage(root=str(house.storage)).write_reference("targets/prepared", reference)
    assert "unchanged" in tick(house, "watch_sources").skip_message


def test_changes_during_a_preparation_wait_and_coalesce(build, folder):
    house = build(targets__source=f"['{folder}']")
    cursor = tick(house, "watch_sources").cursor
    job = house.defs.resolve_job_def("prepare_targets")
    run = house.instance.create_run_for_job(job)
    for number in range(3):
        traces(folder / f"new{number}.parquet", f"What is {number} + 4?")
        waiting = tick(house, "watch_sources", cursor)
        assert not waiting.run_requests and run.run_id in waiting.skip_message
        cursor = waiting.cursor
    house.instance.report_run_failed(run)
    assert len(tick(house, "watch_sources", cursor).run_requests) == 1


def test_a_source_that_is_gone_fails_the_tick_with_its_name(build, tmp_path):
    house = build(targets__source=f"['{tmp_path}/nothing.parquet']")
    with pytest.raises(Exception, match=r"nothing\.parquet: no such file"):
        tick(house, "watch_sources")


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
    house = build(targets__source="[owner/traces]", targets__revision="curated")
    first = tick(house, "watch_sources")
    assert len(first.run_requests) == 1
    again = tick(house, "watch_sources", first.cursor)
    assert not again.run_requests
    commits.append("2" * 40)
    assert len(tick(house, "watch_sources", again.cursor).run_requests) == 1
    served.shutdown()
    served.server_close()
    assert asked.count("/api/datasets/owner/traces/revision/curated") == 3


def test_the_embedded_source_is_not_watched(build):
    assert "same traces" in tick(build(), "watch_sources").skip_message


def test_the_weekly_run_waits_for_the_last_one(build, tmp_path):
    house = build()
    instance = dg.DagsterInstance.local_temp(str(tmp_path))
    schedule = next(schedule for schedule in house.defs.schedules if schedule.name == "weekly_retrain")

    def requests() -> int:
        context = dg.build_schedule_context(instance=instance, repository_def=house.defs.get_repository_def())
        return len(schedule.evaluate_tick(context).run_requests or [])

    assert requests() == 1
    run = instance.create_run_for_job(house.defs.resolve_job_def("everything"))
    assert requests() == 0
    instance.report_run_failed(run)
    assert requests() == 1


def test_a_policy_that_was_trained_alone_is_scored(build):
    house = build()
    tags = {"dagster/data_version": "d" * 64}
    house.instance.report_runless_asset_event(dg.AssetMaterialization(["training", "policy"], tags=tags))
    (request,) = tick(house, "score_new_policies").run_requests
    assert request.run_key == "d" * 64


# --- telling


@pytest.fixture
def failed(build, tmp_path) -> dg.RunFailureSensorContext:
    """A run that failed, whose message holds a secret that someone put into a path."""
    house = build(targets__source=f"['{tmp_path}/{PLANTED}.parquet']")
    assert not house.run("targets/prepared", "targets/rejected", "models/base", "benchmarks/suite").success
    run = house.instance.get_runs()[0]
    event = house.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)[0].dagster_event
    return dg.build_run_status_sensor_context("x", event, house.instance, run).for_run_failure()


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[str, dict]], list[int]]]:
    """A real HTTP server: its address, what was posted to it, and the statuses that it answers with (then 200)."""
    received: list[tuple[str, dict]] = []
    statuses: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = statuses.pop(0) if statuses else 200
            if status == 200:
                received.append((self.path, json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}/{PLANTED}", received, statuses
    served.shutdown()
    served.server_close()


def test_a_failure_reaches_the_webhook_without_secrets(failed, server, monkeypatch):
    address, received, statuses = server
    monkeypatch.setenv("LUFFY_WEBHOOK_URL", address)
    monkeypatch.setenv("SOME_TOKEN", PLANTED)
    monkeypatch.setattr("pipelines.notify.PAUSE_SECONDS", 0)
    statuses += [503, 500]
    send(NotifySettings(channel="webhook"), failure_notice(failed))
    ((path, body),) = received
    assert path == f"/{PLANTED}"
    assert failed.dagster_run.run_id in body["text"] and "targets__prepared" in body["text"]
    assert "no such file" in body["text"] and PLANTED not in body["text"]


def test_a_webhook_that_fails_is_an_error_without_its_address(server, monkeypatch):
    address, received, statuses = server
    monkeypatch.setattr("pipelines.notify.PAUSE_SECONDS", 0)
    settings = NotifySettings(channel="webhook")
    statuses += [404, 404, 404]
    for url in (address, "http://127.0.0.1:1/" + PLANTED, f"nonsense {PLANTED}"):
        with pytest.raises(InputError) as caught:
            send(settings, Notice("s", "t"), {"LUFFY_WEBHOOK_URL": url})
        assert "webhook in LUFFY_WEBHOOK_URL" in str(caught.value) and PLANTED not in str(caught.value)
        assert caught.value.__cause__ is None and caught.value.__suppress_context__
    with pytest.raises(InputError, match="LUFFY_WEBHOOK_URL is not set"):
        send(settings, Notice("s", "t"), {})
    assert not received


def test_the_failure_sensor_logs_and_tells(failed, server, monkeypatch, build, tmp_path):
    address, received, _ = server
    monkeypatch.setenv("LUFFY_WEBHOOK_URL", address)
    house = build(notify__channel="webhook")
    sensor = next(sensor for sensor in house.defs.sensors if sensor.name == "notify_run_failures")
    sensor(failed)
    assert len(received) == 1


def test_a_failure_is_mailed(failed, monkeypatch):
    received: list[str] = []

    class Server(smtpd.SMTPServer):
        def process_message(self, peer, mailfrom, rcpttos, data, **_: object) -> None:
            received.append(f"{mailfrom} {rcpttos} {data.decode()}")

    monkeypatch.setenv("SOME_TOKEN", PLANTED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        served = Server(("127.0.0.1", 0), None)
    stop = threading.Event()
    thread = threading.Thread(target=lambda: [asyncore.loop(0.05, count=1) for _ in iter(stop.is_set, True)])
    thread.start()
    try:
        port = served.socket.getsockname()[1]
        settings = NotifySettings(channel="email", mail_host="127.0.0.1", mail_port=port, mail_to=("ops@example.org",))
        send(settings, failure_notice(failed))
    finally:
        stop.set()
        thread.join()
        served.close()
    (mail,) = received
    assert "ops@example.org" in mail and "Subject: run " in mail and PLANTED not in mail


def test_secrets_are_known_by_the_names_of_their_variables():
    environment = {
        "HF_TOKEN": "hf_12345678",
        "LUFFY_WEBHOOK_URL": "https://x/yyy",
        "PASSWORD_LENGTH": "8",
        "A": "bbbbbb",
    }
    assert redact("hf_12345678 https://x/yyy 8 bbbbbb", environment) == "[secret] [secret] 8 bbbbbb"


# --- leftovers


def spawn(run_id: str, *, stubborn: bool) -> tuple[subprocess.Popen, int]:
    """A process of a run, with a child without the run's mark in its environment; ``stubborn`` ones ignore TERM."""
    sleep = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(300)"
    sleep = sleep if stubborn else "import time; print(flush=True); time.sleep(300)"
    code = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {sleep!r}], env={{}}, stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True)\n" + sleep
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, RUN_VARIABLE: run_id}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.fixture
def runs(build) -> Iterator[tuple[House, list[subprocess.Popen]]]:
    started: list[subprocess.Popen] = []
    yield build(), started
    for process in started:
        process.kill()
        process.wait()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_gone(*pids: int) -> None:
    end = time.monotonic() + 10
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < end, pids
        time.sleep(0.05)


def test_leftovers_of_ended_runs_are_stopped_and_others_are_left_alone(runs, monkeypatch):
    house, started = runs
    job = house.defs.resolve_job_def("everything")
    ended, going = house.instance.create_run_for_job(job), house.instance.create_run_for_job(job)
    house.instance.report_run_failed(ended)
    processes = [spawn(run, stubborn=False) for run in (ended.run_id, going.run_id, "0" * 36)]
    started += [process for process, _ in processes]
    assert "0 leftover" in tick(house, "stop_orphans").skip_message  # the run has only just ended
    monkeypatch.setattr(orphans, "SETTLE_SECONDS", 0.0)
    assert "2 leftover" in tick(house, "stop_orphans").skip_message
    (dead, child), *others = processes
    assert dead.wait(10) == -signal.SIGTERM
    wait_gone(child)
    assert all(alive(process.pid) and alive(child) for process, child in others)
    for _, child in others:
        os.kill(child, signal.SIGKILL)


def test_leftovers_that_ignore_term_are_killed(runs, monkeypatch):
    house, started = runs
    ended = house.instance.create_run_for_job(house.defs.resolve_job_def("everything"))
    house.instance.report_run_failed(ended)
    process, child = spawn(ended.run_id, stubborn=True)
    started.append(process)
    monkeypatch.setattr(orphans, "SETTLE_SECONDS", 0.0)
    first = tick(house, "stop_orphans")
    time.sleep(0.3)
    second = tick(house, "stop_orphans", first.cursor)
    assert process.poll() is None and alive(child)
    monkeypatch.setattr(orphans, "KILL_SECONDS", 0.0)
    tick(house, "stop_orphans", second.cursor)
    assert process.wait(10) == -signal.SIGKILL
    wait_gone(child)


def test_runs_of_terminals_that_are_gone_are_ended_here_only(build):
    house = build()
    job = house.defs.resolve_job_def("everything")
    owners = {"gone": [socket.gethostname(), os.getpid(), 1], "elsewhere": ["another-host", os.getpid(), 1]}
    owners["here"] = json.loads(owner_tag()[OWNER])
    made = {}
    for name, owner in owners.items():
        made[name] = house.instance.create_run_for_job(job, tags={OWNER: json.dumps(owner)}).run_id
        start = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job.name)
        house.instance.report_dagster_event(start, run_id=made[name])
    assert "1 dead runs" in tick(house, "stop_orphans").skip_message
    status = {name: house.instance.get_run_by_id(run).status.value for name, run in made.items()}
    assert status == {"gone": "CANCELED", "elsewhere": "STARTED", "here": "STARTED"}


def test_a_process_that_took_over_the_id_is_not_signalled(runs):
    _, started = runs
    process, child = spawn("0" * 36, stubborn=False)
    started.append(process)
    since = orphans.started(process.pid)
    assert since is not None
    orphans.stop([orphans.Leftover(process.pid, since - 1, "r", "")], {}, 0.0)
    time.sleep(0.3)
    assert process.poll() is None
    os.kill(child, signal.SIGKILL)
