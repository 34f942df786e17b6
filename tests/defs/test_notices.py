"""Failures that are told: to the log, a webhook, by mail; never with a secret."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dagster as dg
import pytest

from assets.shared.live_metrics import METRICS
from pipelines.definitions.notices import Notice, send
from pipelines.definitions.sensors import failure_notice
from pipelines.settings import NotifySettings
from tests.defs.small_targets import OWN

PLANTED = "planted-5ecret-7781"


@pytest.fixture
def failed(build_on_small, tmp_path) -> dg.RunFailureSensorContext:
    """A run that failed, whose message holds a secret that someone put into a path."""
    project = build_on_small(**OWN, targets__source=f"['{tmp_path}/{PLANTED}.parquet']")
    assert not project.run("targets/prepared", "targets/rejected").success
    run = project.instance.get_runs()[0]
    event = project.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)[0].dagster_event
    return dg.build_run_status_sensor_context("x", event, project.instance, run).for_run_failure()


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
    monkeypatch.setattr("pipelines.definitions.notices.PAUSE_SECONDS", 0)
    statuses += [503, 500]
    send(NotifySettings(url_variables=["LUFFY_WEBHOOK_URL"]), failure_notice(failed))
    ((path, body),) = received
    assert path == f"/{PLANTED}"
    assert failed.dagster_run.run_id in body["text"] and "targets__prepared" in body["text"]
    assert "no such file" in body["text"] and PLANTED not in body["text"]


def test_an_address_that_fails_is_told_without_it_and_silences_no_other(server, monkeypatch, caplog):
    address, received, statuses = server
    monkeypatch.setattr("pipelines.definitions.notices.PAUSE_SECONDS", 0)
    statuses += [404, 404, 404]
    addresses = [address, "http://127.0.0.1:1/" + PLANTED, f"nonsense {PLANTED}", f"nosuch://{PLANTED}", "", address]
    variables = {f"NOTIFY_{number}": url for number, url in enumerate(addresses)}
    failures = send(NotifySettings(url_variables=[*variables]), Notice("s", "t"), variables)
    assert len(failures) == 5
    for name, failure in zip(variables, failures, strict=False):
        assert f"variable {name}" in failure or f"the address in {name}" in failure
    assert "NOTIFY_4 is not set" in failures[4]
    assert PLANTED not in caplog.text + " ".join(failures)
    assert len(received) == 1


def test_the_failure_sensor_logs_and_tells(failed, server, monkeypatch, build, tmp_path):
    address, received, _ = server
    monkeypatch.setenv("LUFFY_WEBHOOK_URL", address)
    project = build(notify__url_variables="[LUFFY_WEBHOOK_URL]")
    sensor = next(sensor for sensor in project.defs.sensors if sensor.name == "notify_run_failures")
    sensor(failed)
    assert len(received) == 1


def test_a_training_that_goes_wrong_is_told_once_while_it_runs(server, monkeypatch, build):
    address, received, _ = server
    monkeypatch.setenv("LUFFY_WEBHOOK_URL", address)
    project = build(notify__url_variables="[MISSING_URL, LUFFY_WEBHOOK_URL]")

    def observe(step: int, **entries: str) -> None:
        observation = dg.AssetObservation(METRICS, metadata={"step": step, **entries})
        project.instance.report_runless_asset_event(observation)

    observe(1, alert="warning: from before the sensor was switched on")
    cursor = project.tick("notify_training_alerts").cursor
    observe(2)
    observe(3, alert="warning: the reward collapses")
    tick = project.tick("notify_training_alerts", cursor)
    assert tick.skip_message == "warnings reported: 1"
    assert project.tick("notify_training_alerts", tick.cursor).skip_message == "warnings reported: 0"
    ((_, body),) = received
    assert "training/metrics, step 3\nwarning: the reward collapses" in body["text"]
