"""Programs of a model: right and wrong ones, hostile ones, and places where there is no sandbox."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from core.machine.processes import descendants, running
from grading.isolation.sandbox import Bubblewrap, Limits, Run
from grading.verdict import Grade, UnfitGold
from grading.verifiers.code import read_tests
from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Verifier
from tests.components.grading.hostile_programs import hostile_programs

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bwrap: make test-deps installs it")
DOUBLE = json.dumps({"inputs": ["1\n", "4\n"], "outputs": ["2\n", "8\n"]})


@pytest.fixture(scope="module")
def code() -> Iterator[Verifier]:
    with open_verifier(parse_spec({"type": "code", "limit_s": 5}, "test")) as verifier:
        yield verifier


def outcome(verifier: Verifier, program: str, gold: str, **options: Any) -> tuple[str, str]:
    grade: Grade = verifier.verify(f"```python\n{program}\n```", gold, thinking=False, **options)
    assert grade.score == (1.0 if str(grade.verdict) == "correct" else 0.0)
    return str(grade.verdict), grade.reason


@pytest.mark.parametrize(
    ("program", "gold", "expected"),
    [
        ("print(int(input()) * 2)", DOUBLE, ("correct", "all tests pass")),
        ("open('note', 'w').write('x'); print(int(input()) * 2)", DOUBLE, ("correct", "all tests pass")),
        ("print(2)", DOUBLE, ("wrong", "test 2: printed '2\\n', expected '8\\n'")),
        ("print(", DOUBLE, ("wrong", "test 1: SyntaxError: '(' was never closed")),
        ("raise ValueError('no')", DOUBLE, ("wrong", "test 1: ValueError: no")),
        ("def f(x): return 2 * x", "assert f(2) == 4", ("correct", "all tests pass")),
        ("from __future__ import annotations\ndef f(x): return x", "assert f(2) == 4", ("wrong", "AssertionError")),
        ("import sys; sys.exit(0)", "assert f(2) == 4", ("wrong", "it ended before the last assertion")),
        ("def f(x): return x", "x = 1", ("gold_unparsed", "there are no tests: expected")),
        ("print(1)", "{}", ("gold_unparsed", "tests that are not read: expected")),
        ("print(1)", "[1", ("gold_unparsed", "the tests are not JSON")),
    ],
)
def test_a_program_passes_or_says_where_it_fails(code: Verifier, program: str, gold: str, expected: Any) -> None:
    verdict, reason = outcome(code, program, gold)
    assert verdict == expected[0] and reason.startswith(expected[1])
    assert (code.gold_problem(gold) is None) == (verdict != "gold_unparsed")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([{"input": "1", "output": "2"}], ([("1", "2")], "")),
        ({"inputs": ["1"], "outputs": ["2"]}, ([("1", "2")], "")),
        (["assert f(1)", "assert f(2)"], ((), "assert f(1)\nassert f(2)")),
    ],
)
def test_forms_of_tests(value: Any, expected: Any) -> None:
    assert tuple(read_tests(value)) == expected
    assert tuple(read_tests(json.dumps(value))) == expected


@pytest.mark.parametrize(
    "value",
    [
        *(None, 7, "", "x", [], [1], "assert (", "[" * 9000, {"inputs": ["1"]}, [{"input": "1"}]),
        *({"inputs": ["1"], "outputs": []}, {"inputs": [1], "outputs": [2]}),
        {"inputs": [[1]], "outputs": [[2]], "fn_name": "f"},
    ],
    ids=lambda value: str(value)[:30],
)
def test_tests_of_no_known_form_are_refused(value: Any) -> None:
    with pytest.raises(UnfitGold):
        read_tests(value)


@pytest.mark.parametrize(
    "others", ["Run it:\n```sh\npython a.py\n```\n", "It prints:\n```\n6\n```\n", "~~~text\nprints 6\n~~~\n"]
)
def test_the_program_is_the_last_block_of_python(code: Verifier, others: str) -> None:
    program = "```python\nprint(1)\n```\nor\n```Python\nprint(int(input()) * 2)\n```\n"
    assert code.verify(program + others, DOUBLE, thinking=False).solved
    assert code.verify(others + program.replace("Python", "").replace("python", ""), DOUBLE, thinking=False).solved


def test_tests_in_a_field_of_the_row() -> None:
    spec = parse_spec({"type": "code", "tests": "checks"}, "test")
    assert spec.requires_fields == ("checks",)
    with open_verifier(spec) as verifier:
        fields = {"checks": ["assert f(1) == 1"]}
        assert outcome(verifier, "def f(x): return x", "anything", fields=fields)[0] == "correct"
        assert outcome(verifier, "def f(x): return x", "x") == (
            "gold_unparsed",
            "the row has no field 'checks', which tests names",
        )


CHECK = "def check(candidate):\n    assert candidate(3) == 9\n"
HELPED = "def same(a, b):\n    if a != b: raise ValueError(a)\n"


@pytest.mark.parametrize(
    ("tests", "entry_point", "expected"),
    [
        (CHECK, "square", ["correct", "wrong"]),
        (CHECK, None, ["gold_unparsed"] * 2),
        (CHECK, "square(", ["gold_unparsed"] * 2),
        (CHECK + "check(square)", None, ["correct", "wrong"]),
        (CHECK + "assert True", None, ["gold_unparsed"] * 2),
        (HELPED + "same(square(3), 9)", None, ["correct", "wrong"]),
        (HELPED, None, ["gold_unparsed"] * 2),
        ("class T:\n    def test(self):\n        assert square(3) == 9\n", None, ["gold_unparsed"] * 2),
        ("class T:\n    def test(self):\n        assert square(3) == 9\nT().test()", None, ["correct", "wrong"]),
        ("async def test():\n    assert square(3) == 9\n", None, ["gold_unparsed"] * 2),
        ("for n in (3, 4):\n    assert square(n) == n * n", None, ["correct", "wrong"]),
    ],
)
def test_only_tests_that_run_count(code: Verifier, tests: str, entry_point: str | None, expected: list[str]) -> None:
    fields = {} if entry_point is None else {"entry_point": entry_point}
    programs = ("def square(x): return x * x", "def square(x): return 6")
    assert [outcome(code, program, tests, fields=fields)[0] for program in programs] == expected
    assert (code.gold_problem(tests, fields) is None) == (expected == ["correct", "wrong"])


@pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_hostile_programs_reach_nothing(monkeypatch: pytest.MonkeyPatch, share: int) -> None:
    monkeypatch.setenv("SECRET", "sesame")
    canary = Path(tempfile.mkdtemp(dir="/var/tmp")) / "canary"  # the sandbox has a /tmp of its own
    canary.write_text("sesame", encoding="utf-8")
    reached: list[Any] = []
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.1)
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    before = {process.pid for process in running()}
    programs = hostile_programs(str(canary), server.getsockname()[1], victim.pid)[::share]  # of all kinds
    spec = {"type": "code", "limit_s": 1, "memory_mb": 256}
    gold = json.dumps({"inputs": [""], "outputs": ["escaped"]})
    try:
        with open_verifier(parse_spec(spec, "test")) as verifier, ThreadPoolExecutor(4) as threads:

            def attack(named: tuple[str, str]) -> tuple[str, str, str, float]:
                started = time.monotonic()
                tests = "assert f(2) == 4" if named[0] == "cheats" else gold
                verdict, reason = outcome(verifier, named[1], tests)
                return named[0], verdict, reason, time.monotonic() - started

            outcomes = list(threads.map(attack, programs))
        escaped = [
            (kind, program, reason)
            for (kind, program), (_, verdict, reason, _) in zip(programs, outcomes, strict=True)
            if verdict != "wrong"
        ]
        assert escaped == []
        assert canary.read_text(encoding="utf-8") == "sesame" and victim.poll() is None
        with pytest.raises(TimeoutError):
            reached.append(server.accept())
        assert max(seconds for *_, seconds in outcomes) < 60  # the limit on wall time is 4 s
        left = [one for one in descendants(os.getpid()) if one.pid not in before]
        assert left == []
    finally:
        victim.kill()
        victim.wait()
        server.close()
        shutil.rmtree(canary.parent)


def test_without_bubblewrap_nothing_runs_unless_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(InputError, match=r"no program bwrap: install bubblewrap .* sandbox: none runs"):
        open_verifier(parse_spec("code", "test"))
    with open_verifier(parse_spec({"type": "code", "sandbox": "none"}, "test")) as verifier:
        assert outcome(verifier, "print(int(input()) * 2)", DOUBLE)[0] == "correct"
        assert outcome(verifier, "while True: pass", DOUBLE)[0] == "wrong"


def test_a_bwrap_that_may_not_make_namespaces_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(InputError, match=r"bwrap: No permissions to create new namespace: install bubblewrap"):
        open_verifier(parse_spec("code", "test"))


@pytest.mark.parametrize("sandbox", ["docker", "", "ftp://host", "http://"])
def test_an_unknown_sandbox_is_refused(sandbox: str) -> None:
    with pytest.raises(InputError, match="sandbox: expected bubblewrap, the url of a SandboxFusion server, or none"):
        parse_spec({"type": "code", "sandbox": sandbox}, "test")


class Fusion(BaseHTTPRequestHandler):
    """A stand-in for a SandboxFusion server: runs programs, and answers badly where their text asks for it."""

    refusals = 0

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        program = request["code"]
        status, body = 200, {"status": "SandboxError", "message": "no more processes"}
        if "busy" in program and Fusion.refusals < 2:
            Fusion.refusals += 1
            status = 429
        elif "slow" in program:
            body = {"status": "Failed", "run_result": {"status": "TimeLimitExceeded"}}
        elif "lost" not in program:
            ended = subprocess.run(
                [sys.executable, "-c", program], input=request["stdin"], capture_output=True, text=True, check=False
            )
            result = {
                "status": "Finished",
                "return_code": ended.returncode,
                "stdout": ended.stdout,
                "stderr": ended.stderr,
            }
            body = {"status": "Success" if not ended.returncode else "Failed", "run_result": result}
        content = json.dumps(body).encode()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content if "half" not in program else content[:5])

    def log_message(self, *_: Any) -> None:
        return


def test_a_server_runs_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grading.isolation.sandbox_fusion.PAUSE_S", 0.01)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Fusion)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        with open_verifier(parse_spec({"type": "code", "sandbox": url}, "test")) as verifier:
            assert outcome(verifier, "print(int(input()) * 2)", DOUBLE)[0] == "correct"
            assert outcome(verifier, "print(int(input()) * 2)  # busy", DOUBLE)[0] == "correct"
            assert outcome(verifier, "print(1)", DOUBLE)[0] == "wrong"
            assert outcome(verifier, "1 / 0", DOUBLE) == ("wrong", "test 1: ZeroDivisionError: division by zero")
            assert outcome(verifier, "1  # slow", DOUBLE)[0] == "wrong"
            assert outcome(verifier, "1  # lost", DOUBLE) == ("error", f"the sandbox failed: {url}: no more processes")
            assert outcome(verifier, "1  # half", DOUBLE)[0] == "error"
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(InputError, match=r"Connection refused.*expected a SandboxFusion server"):
        open_verifier(parse_spec({"type": "code", "sandbox": url}, "test"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a program a user of its own")
def test_root_runs_a_program_as_nobody_else_or_within_a_namespace_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(seconds=5, memory=512 << 20, processes=4)
    forks = "import os, time\nfor _ in range(100):\n    if not os.fork(): time.sleep(60)\ntime.sleep(60)"
    user = "import os; print(os.getuid() >= 1_000_000_000)"
    sandbox = Bubblewrap(limits)
    assert sandbox.run(user, "") == Run("True\n", "")
    assert sandbox.run(forks, "").problem in (
        "more than 4 processes",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    within = Bubblewrap(limits)
    assert within.run(user, "") == Run("False\n", "")
    assert within.run(forks, "").problem == "more than 4 processes"
