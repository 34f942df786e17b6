"""Processes: the right ones are found, signals reach only the right process, and no interrupt is lost."""

import signal
import subprocess
import sys
from pathlib import Path

from core.machine.processes import Process, descendants, running, start_ticks

ROOT = Path(__file__).resolve().parents[3]
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def named(process: "subprocess.Popen[bytes]") -> Process:
    since = start_ticks(process.pid)
    assert since is not None
    return Process(process.pid, since)


def end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def test_a_signal_reaches_its_process_and_nobody_after_its_end() -> None:
    child = subprocess.Popen(SLEEP)
    process = named(child)
    assert process.is_alive() and process in running()
    assert process.send_signal(signal.SIGTERM)
    assert child.wait(10) == -signal.SIGTERM
    assert not process.is_alive() and not process.send_signal(signal.SIGKILL)


def test_a_process_that_got_the_id_is_left_alone() -> None:
    child = subprocess.Popen(SLEEP)
    try:
        other = Process(child.pid, named(child).since - 1)
        assert not other.is_alive() and not other.send_signal(signal.SIGKILL)
        assert child.poll() is None
    finally:
        end(child)


def test_descendants_are_found_through_their_parents() -> None:
    code = f"import subprocess; child = subprocess.Popen({SLEEP!r}); print(child.pid, flush=True); child.wait()"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    grandchild = int(parent.stdout.readline())
    ours = [process for process in descendants() if process.pid in (parent.pid, grandchild)]
    assert [process.pid for process in ours] == [parent.pid, grandchild]
    assert [process.pid for process in descendants(parent.pid)] == [grandchild]
    for process in reversed(ours):
        assert process.send_signal(signal.SIGKILL)
    parent.wait()
    assert not descendants(parent.pid) and not [process for process in ours if process in descendants()]


# Python drops the exception of a signal that arrives while it runs the callback of a weak reference.
LOST = """
import os, signal, time, weakref
from core.machine.interruptible import raise_interrupts

class Garbage: pass

def collect(*_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0)

signal.signal(signal.SIGINT, signal.default_int_handler)
raise_interrupts()
garbage = Garbage()
seen = weakref.ref(garbage, collect)
try:
    del garbage
    time.sleep(30)
except KeyboardInterrupt:
    print("interrupted")
"""
FAILING = "import weakref; garbage = {1}; seen = weakref.ref(garbage, lambda _: 1 / 0); del garbage"


def test_an_interrupt_that_python_drops_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
    program = f"from core.machine.interruptible import raise_interrupts\nraise_interrupts()\n{FAILING}"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "ZeroDivisionError" in done.stderr  # what else is dropped is reported as before
