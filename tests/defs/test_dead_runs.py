"""Runs whose process is gone are ended, and no others; what a killed supervisor left is named."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import dagster as dg
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from assets.shared.interpreter_process import RUN_VARIABLE
from assets.shared.launchpad import COMMAND, OWNER
from core.machine.processes import start_ticks
from pipelines.cli.doctor import leftovers
from pipelines.definitions import sensors
from pipelines.definitions.dead_runs import owner_tag


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
    assert project.tick("stop_orphans").skip_message == "3 dead runs ended"
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
        assert first.skip_message == "0 dead runs ended"  # a pod that is being replaced may still end it
        monkeypatch.setattr(sensors, "ELSEWHERE_SECONDS", 0.0)
        assert project.tick("stop_orphans", first.cursor).skip_message == "1 dead runs ended"
        status = {name: instance.get_run_by_id(run).status.value for name, run in made.items()}
        assert status == dict.fromkeys(made, "STARTED") | {"of this location": "FAILURE"}


def test_what_a_killed_supervisor_left_is_named():
    start = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); time.sleep(0.5)"
    program, variables = "import time; time.sleep(60)", {**os.environ, RUN_VARIABLE: "a-run"}
    subprocess.run([sys.executable, "-c", start, program], env=variables, check=True)
    (line,) = [line for line in leftovers() if program in line]
    assert "is left over from a run, end it by kill -9" in line
    os.kill(int(line.split()[1]), signal.SIGKILL)
