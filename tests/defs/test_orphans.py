"""Leftovers of dead runs are found and stopped, and nothing else is."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from processes import alive, wait_gone

from assets.shared.interpreter_process import RUN_VARIABLE
from assets.shared.launchpad import COMMAND
from core.machine.processes import start_ticks
from pipelines.definitions import orphans, sensors
from pipelines.definitions.instance import OWNER, owner_tag
from tests.defs.project import Project


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
def runs(build) -> Iterator[tuple[Project, list[subprocess.Popen]]]:
    started: list[subprocess.Popen] = []
    yield build(), started
    for process in started:
        process.kill()
        process.wait()


def test_leftovers_of_ended_runs_are_stopped_and_others_are_left_alone(runs, monkeypatch):
    project, started = runs
    job = project.defs.resolve_job_def("everything")
    ended, going = project.instance.create_run_for_job(job), project.instance.create_run_for_job(job)
    project.instance.report_run_failed(ended)
    processes = [spawn(run, stubborn=False) for run in (ended.run_id, going.run_id, "0" * 36)]
    started += [process for process, _ in processes]
    assert "0 leftover" in project.tick("stop_orphans").skip_message  # the run has only just ended
    monkeypatch.setattr(orphans, "SETTLE_SECONDS", 0.0)
    assert "2 leftover" in project.tick("stop_orphans").skip_message
    (dead, child), *others = processes
    assert dead.wait(10) == -signal.SIGTERM
    wait_gone([child], 10.0)
    assert all(alive(process.pid) and alive(child) for process, child in others)
    for _, child in others:
        os.kill(child, signal.SIGKILL)


def test_leftovers_that_ignore_term_are_killed(runs, monkeypatch):
    project, started = runs
    ended = project.instance.create_run_for_job(project.defs.resolve_job_def("everything"))
    project.instance.report_run_failed(ended)
    process, child = spawn(ended.run_id, stubborn=True)
    started.append(process)
    monkeypatch.setattr(orphans, "SETTLE_SECONDS", 0.0)
    first = project.tick("stop_orphans")
    time.sleep(0.3)
    second = project.tick("stop_orphans", first.cursor)
    assert process.poll() is None and alive(child)
    monkeypatch.setattr(orphans, "KILL_SECONDS", 0.0)
    project.tick("stop_orphans", second.cursor)
    assert process.wait(10) == -signal.SIGKILL
    wait_gone([child], 10.0)


def test_runs_whose_process_is_gone_are_ended_here_only(build):
    project = build()
    job = project.defs.resolve_job_def("everything")
    gone, here = json.dumps([socket.gethostname(), os.getpid(), 1]), owner_tag()[OWNER]
    elsewhere = json.dumps(["another-host", os.getpid(), 1])
    made: dict[str, str] = {}

    def begin(name: str, tags: dict[str, str], **more: str) -> None:
        made[name] = project.instance.create_run_for_job(job, tags=tags, **more).run_id
        start = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job.name)
        project.instance.report_dagster_event(start, run_id=made[name])

    begin("of a terminal", {OWNER: gone, COMMAND: "c"})
    begin("of a code server", {OWNER: gone})
    parent = made["of a code server"]
    begin("executed again", {OWNER: gone}, parent_run_id=parent, root_run_id=parent)  # not begun, with copied tags
    begin("elsewhere", {OWNER: elsewhere})
    begin("here", {OWNER: here})
    # A code server that lost its database for a while collects its children no more.
    killed = subprocess.Popen(["sleep", "60"])
    begin(
        "of a process that nobody collects",
        {OWNER: json.dumps([socket.gethostname(), killed.pid, start_ticks(killed.pid)])},
    )
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    assert "3 dead runs" in project.tick("stop_orphans").skip_message
    killed.wait()
    status = {name: project.instance.get_run_by_id(run).status.value for name, run in made.items()}
    ended = {"of a terminal": "CANCELED"}
    ended |= dict.fromkeys(("of a code server", "of a process that nobody collects"), "FAILURE")
    assert status == ended | dict.fromkeys(("executed again", "elsewhere", "here"), "STARTED")


def test_runs_of_a_code_server_under_another_host_name_are_ended_after_a_while(build, tmp_path, monkeypatch):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        project = replace(build(), instance=instance)
        job = project.defs.resolve_job_def("everything")
        elsewhere = json.dumps(["another-pod", os.getpid(), 1])
        renamed = json.dumps(["before", *json.loads(owner_tag()[OWNER])[1:]])
        made: dict[str, str] = {}
        for name, location, owner in (
            ("of this location", "luffy", elsewhere),
            ("of another location", "theirs", elsewhere),
            ("of this code server", "luffy", owner_tag()[OWNER]),
            ("of this code server, whose machine was renamed", "luffy", renamed),
            ("of a terminal", None, elsewhere),
        ):
            repository = location and RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), "__repository__")
            run = instance.create_run_for_job(job, tags={OWNER: owner})
            instance.delete_run(run.run_id)
            origin = repository and RemoteJobOrigin(repository, job.name)
            instance.add_run(run._replace(remote_job_origin=origin))
            made[name] = run.run_id
            start = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job.name)
            instance.report_dagster_event(start, run_id=run.run_id)
        monkeypatch.setattr(
            dg.SensorEvaluationContext, "code_location_origin", RegisteredCodeLocationOrigin("luffy"), raising=True
        )
        first = project.tick("stop_orphans")
        assert "0 dead runs" in first.skip_message  # a pod that is being replaced may still end it
        monkeypatch.setattr(sensors, "ELSEWHERE_SECONDS", 0.0)
        assert "1 dead runs" in project.tick("stop_orphans", first.cursor).skip_message
        status = {name: instance.get_run_by_id(run).status.value for name, run in made.items()}
        assert status == dict.fromkeys(made, "STARTED") | {"of this location": "FAILURE"}


def test_a_process_that_took_over_the_id_is_not_signalled(runs, monkeypatch):
    project, started = runs
    ended = project.instance.create_run_for_job(project.defs.resolve_job_def("everything"))
    project.instance.report_run_failed(ended)
    monkeypatch.setattr(orphans, "SETTLE_SECONDS", 0.0)
    process, child = spawn(ended.run_id, stubborn=False)
    started.append(process)
    (first, second) = orphans.find_leftovers(project.instance)
    assert {first.process.pid, second.process.pid} == {process.pid, child}
    assert all(leftover.process.is_alive() and leftover.command for leftover in (first, second))
    # As if the processes that were looked at had ended, and these innocent ones had got their ids.
    earlier = [replace(each, process=replace(each.process, since=each.process.since - 1)) for each in (first, second)]
    orphans.stop(earlier, {}, 0.0)
    orphans.stop(earlier, {each.key: 0.0 for each in earlier}, orphans.KILL_SECONDS)
    time.sleep(0.3)
    assert process.poll() is None and alive(child)
    os.kill(child, signal.SIGKILL)


def test_a_step_ends_even_if_its_run_was_killed_while_it_was_forked(tmp_path):
    code = (
        "import os, time\n"
        "from pipelines.definitions.executor import end_steps_with_run\n"
        "run = os.getpid()\n"
        "def outlive():\n"
        "    while os.getppid() == run: time.sleep(0.01)\n"
        "os.register_at_fork(after_in_child=outlive)\n"
        "end_steps_with_run()\n"
        "if pid := os.fork(): print(pid, flush=True); os._exit(0)\n"
        "time.sleep(300)\n"
    )
    with (tmp_path / "out").open("w") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, timeout=60, check=True)
    step = int((tmp_path / "out").read_text())
    try:
        wait_gone([step], 5)
    finally:
        if alive(step):
            os.kill(step, signal.SIGKILL)
