"""The processes that compare answers: hostile answers, hangs, deaths, ends; the answer after them is graded."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from processes import alive, children, descendants, wait_gone

from grading.grader import Grader
from grading.pool import WorkerPool
from grading.verdict import Verdict

ROOT = Path(__file__).resolve().parents[2]


def test_hostile_answers_end_in_time_and_the_next_one_is_graded():
    with Grader(workers=1, limit_s=1.0) as grader:
        assert grader.verify("\\sqrt{4}", "2") is Verdict.CORRECT
        for hostile in ("9^{9^{9^9}}", "100000000!", "(1+x)^{50000}", "(" * 500, "\\sqrt" * 150 + "{x}"):
            began = time.monotonic()
            assert grader.verify(hostile, "5") in (Verdict.TIMEOUT, Verdict.WRONG, Verdict.ERROR)
            assert time.monotonic() - began < 4.0
        assert grader.verify("\\sqrt{4}", "2") is Verdict.CORRECT


def test_a_comparison_that_hangs_or_dies_is_replaced():
    before = set(children(os.getpid()))
    with Grader(workers=1, limit_s=0.5) as grader:
        assert grader.verify("\\sqrt{4}", "2") is Verdict.CORRECT
        (worker,) = set(children(os.getpid())) - before
        (compares,) = children(worker)
        os.kill(compares, signal.SIGSTOP)  # no alarm reaches it, as in one long call into C
        began = time.monotonic()
        grade = grader.compare("\\sqrt{9}", "3")
        assert grade == (Verdict.TIMEOUT, "no reply within 0.5 s")
        assert time.monotonic() - began < 5.0  # a new program would have to import sympy again
        assert not alive(compares) and alive(worker)
        assert grader.verify("\\sqrt{16}", "4") is Verdict.CORRECT
        (compares,) = children(worker)
        os.kill(compares, signal.SIGKILL)  # while it is idle: the next one answers
        wait_gone({compares}, 5.0)
        assert grader.verify("\\sqrt{25}", "5") is Verdict.CORRECT
        (compares,) = children(worker)
        os.kill(compares, signal.SIGSTOP)
        threading.Timer(0.2, os.kill, (compares, signal.SIGKILL)).start()
        grade = grader.compare("\\sqrt{36}", "5")
        assert grade == (Verdict.ERROR, "the process that graded it ended")
        assert grader.verify("\\sqrt{48}", "7") is Verdict.WRONG  # and not the answer before it
        assert grader.verify("\\sqrt{49}", "7") is Verdict.CORRECT
        os.kill(worker, signal.SIGKILL)
        time.sleep(0.1)
        assert grader.verify("\\sqrt{64}", "8") is Verdict.CORRECT


def test_a_comparison_that_left_its_process_large_gets_a_new_one():
    pool = WorkerPool(1, 5.0, ("tests.integration.growing_worker",))
    before = set(children(os.getpid()))
    try:
        assert pool.ask("1", "1") == ("correct", "0")
        (worker,) = set(children(os.getpid())) - before
        compares = children(worker)
        assert pool.ask("grow", "1") == ("wrong", "1")
        wait_gone(set(compares), 5.0)
        assert pool.ask("2", "2") == ("correct", "0")
        assert alive(worker)
    finally:
        pool.close()


def test_no_worker_survives_close():
    grader = Grader(workers=2, limit_s=2.0)
    before = set(children(os.getpid()))
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda number: grader.verify(f"\\sqrt{{{number}}}", "3"), range(4)))
    started = set(children(os.getpid())) - before
    forks = {fork for worker in started for fork in children(worker)}
    assert started and len(forks) == len(started)
    grader.close()
    assert not started & set(children(os.getpid()))
    wait_gone(forks, 5.0)
    with pytest.raises(RuntimeError, match="closed"):
        grader.verify("\\sqrt{5}", "3")
    assert grader.verify("3", "3") is Verdict.CORRECT  # needs no worker


def test_workers_end_when_their_parent_is_killed():
    program = (
        "from grading.grader import Grader\n"
        "import threading, sys, time\n"
        "g = Grader(workers=2, limit_s=2.0)\n"
        "print(g.verify('\\\\sqrt{4}', '2'), flush=True)\n"
        "threading.Thread(target=lambda: g.verify('9^{9^{9^9}}', '2'), daemon=True).start()\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline().strip() == "correct"
    time.sleep(0.3)
    workers = descendants(parent.pid)
    assert len(workers) > 1
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_gone(workers, 15.0)


def test_a_worker_whose_parent_was_killed_before_it_was_ready_ends():
    command = [sys.executable, "-m", "grading.equivalence_worker", "1.0"]
    program = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    program.stdin.close()
    program.stdout.close()
    try:
        assert program.wait(60) == 0
    finally:
        program.kill()
