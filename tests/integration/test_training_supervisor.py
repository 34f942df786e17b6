"""The supervisor, on real processes: nothing of a job outlives its end, whoever is stopped and however."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import alive, wait_gone

ROOT = Path(__file__).parents[2]
# A job as Ray makes them: a child in a session of its own that ignores TERM, and an orphan that nobody waits for.
JOB = """
import os, signal, subprocess, sys, time
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True)
orphan = subprocess.run(
    [sys.executable, "-c",
     "import subprocess, sys; p = subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=-3, stderr=-3);"
     "print(p.pid)"],
    capture_output=True, text=True)
time.sleep(0.5)  # the child has installed its handler by now
print(os.getpid(), child.pid, orphan.stdout.strip(), flush=True)
ENDING
"""


def start(ending: str, *, through: str = "") -> tuple[subprocess.Popen[str], list[int]]:
    """Start the job under the supervisor, optionally below an intermediate parent; return it and the job's pids."""
    command = [sys.executable, "-m", "core.backends.supervisor", "--grace", "1", "--"]
    command += [sys.executable, "-c", JOB.replace("ENDING", ending)]
    if through:
        command = [sys.executable, "-c", through, *command]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, [int(pid) for pid in process.stdout.readline().split()]


@pytest.mark.parametrize(("ending", "status"), [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.abort()", 128 + 6)])
def test_the_status_is_the_commands_and_nothing_is_left(ending: str, status: int) -> None:
    process, pids = start(ending)
    assert process.wait(20) == status
    assert len(pids) == 3
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_every_descendant(signum: signal.Signals) -> None:
    process, pids = start("time.sleep(600)")
    process.send_signal(signum)
    assert process.wait(20) == 128 + signum
    assert not any(alive(pid) for pid in pids)


def test_a_parent_that_ended_before_the_supervisor_began_starts_nothing(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    supervisor = [sys.executable, "-m", "core.backends.supervisor", "--parent", str(gone.pid), "--"]
    done = subprocess.run([*supervisor, "touch", str(tmp_path / "file")], cwd=ROOT, check=False)
    assert done.returncode == 128 + signal.SIGTERM and not any(tmp_path.iterdir())


def test_nohup_keeps_the_job_when_the_terminal_hangs_up() -> None:
    nohup = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    process, pids = start("time.sleep(600)", through=nohup)
    process.send_signal(signal.SIGHUP)
    time.sleep(1.0)
    assert process.poll() is None and all(alive(pid) for pid in pids)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert not any(alive(pid) for pid in pids)


def test_a_server_outlives_the_shell_that_started_it() -> None:
    shell = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True)"
    command = [sys.executable, "-c", shell, sys.executable, "-m", "core.backends.supervisor", "--outlive-parent", "--"]
    ended = subprocess.Popen([*command, "sleep", "600"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert ended.stdout is not None
    supervisor = int(ended.stdout.readline())
    assert ended.wait(20) == 0
    time.sleep(2.0)
    assert alive(supervisor)
    os.kill(supervisor, signal.SIGTERM)
    wait_gone([supervisor], 20.0)


def test_a_killed_parent_takes_the_job_with_it() -> None:
    parent = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(600)"
    process, pids = start("time.sleep(600)", through=parent)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(20)
    wait_gone(pids, 20.0)
