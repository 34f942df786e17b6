"""The user's own function: whatever it does is at worst an error of one sample, and leaves no process behind."""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from core.machine.processes import descendants
from grading.verdict import Grade
from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Item

FUNCTIONS = '''
import os, signal, subprocess, sys, time
from helper import HALF

KEPT = []

def echo(data_source, solution_str, ground_truth, extra_info=None):
    """Do what the response says."""
    return eval(solution_str.rpartition("</think>")[2].strip(), {**globals(), **extra_info, "source": data_source})

def stay():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

def fork(then=lambda: time.sleep(600)):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            then()
        os._exit(0)
    return 1.0

def both_return():
    os.fork()
    return 1.0

def raises(error):
    raise error

async def waits(**sample):
    return {"score": 0.25, "pred": 7, "reason": "a\\nb"}

def with_kwargs(data_source, solution_str, ground_truth, extra_info, *, bonus):
    return bonus
'''
SEVEN = "7: expected a number from 0 to 1, or a mapping with one as its score"


@pytest.fixture(scope="module", autouse=True)
def others() -> set[Any]:
    """The processes of other tests, which keep their verifiers open."""
    return set(descendants(os.getpid()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "functions.py").write_text(FUNCTIONS, encoding="utf-8")
    (tmp_path / "helper.py").write_text("HALF = 0.5\n", encoding="utf-8")
    return tmp_path


def python(folder: Path, name: str = "echo", **options: Any) -> dict[str, Any]:
    return {"type": "python", "path": f"{folder}/functions.py:{name}", "limit_s": 3, **options}


def outcome(grade: Grade) -> tuple[str, float, str]:
    return str(grade.verdict), grade.score, grade.reason


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("functions")
    (folder / "functions.py").write_text(FUNCTIONS, encoding="utf-8")
    (folder / "helper.py").write_text("HALF = 0.5\n", encoding="utf-8")
    with open_verifier(parse_spec(python(folder), "test"), workers=1) as verifier:
        yield lambda response, fields=None: verifier.verify(response, "g", fields=fields, thinking=False)


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        ("1", ("correct", 1.0, "")),
        ("HALF", ("partial", 0.5, "")),
        ("__import__('numpy').float32(1)", ("correct", 1.0, "")),
        ("{'score': 0.5, 'acc': 1, 'reason': 'half'}", ("partial", 0.5, "half")),
        ("source == 'law' and row['a'] == [1, 2]", ("correct", 1.0, "")),
        ("7", ("error", 0.0, f"returned {SEVEN}")),
        ("float('inf')", ("error", 0.0, "returned inf:")),
        ("{'acc': 1}", ("error", 0.0, "returned a mapping with acc and no score")),
        ("raises(ValueError('a' * 5000 + chr(10) + 'b'))", ("error", 0.0, "raised ValueError: aaa")),
        ("raises(SystemExit(3))", ("error", 0.0, "called sys.exit(3)")),
        ("os._exit(0)", ("error", 0.0, "the process that graded it ended")),
        ("os.kill(os.getppid(), signal.SIGKILL)", ("error", 0.0, "")),
        ("__import__('ctypes').string_at(0)", ("error", 0.0, "the process that graded it ended")),
        ("stay()", ("error", 0.0, "no reply within")),
        ("10 ** 10 ** 10", ("error", 0.0, "")),
        ("bytearray(4 << 30)", ("error", 0.0, "raised MemoryError")),
        ("(lambda x: [sys.stdout.buffer.write(x) for _ in range(1024)])(b'x' * (1 << 20)) and 1", ("correct", 1.0, "")),
        ("fork(stay) and stay()", ("error", 0.0, "no reply within")),
        ("both_return()", ("correct", 1.0, "")),
        ("subprocess.Popen(['sleep', '600'], start_new_session=True) and 1", ("correct", 1.0, "")),
        ("sys.setrecursionlimit(10**9) or (lambda f: f(f))(lambda f: f(f))", ("error", 0.0, "")),
        ("sys.stdin.read()", ("error", 0.0, "")),
    ],
)
def test_whatever_a_function_does(graded: Any, others: set[Any], does: str, expected: tuple[str, float, str]) -> None:
    began = time.monotonic()
    grade = graded(f"<think>\ud800</think>{does}", {"data_source": "law", "row": {"a": [1, 2]}})
    assert time.monotonic() - began < 20
    verdict, score, reason = outcome(grade)
    assert (verdict, score) == expected[:2] and reason.startswith(expected[2])
    assert len(reason) <= 220 and "\n" not in reason
    assert outcome(graded("<think></think>0.5")) == ("partial", 0.5, "")
    here = set(descendants(os.getpid())) - others
    assert len(here) <= 2, [Path(f"/proc/{one.pid}/cmdline").read_text() for one in here]  # the program and its fork


def test_no_process_is_left_and_many_are_graded_at_once(folder: Path) -> None:
    before = set(descendants(os.getpid()))
    with open_verifier(parse_spec(python(folder), "test"), workers=2) as verifier:
        grades = verifier.verify_many([Item(str(number % 2), "") for number in range(40)], thinking=False)
        assert [grade.score for grade in grades] == [float(number % 2) for number in range(40)]
        verifier.verify_many([Item("fork()", ""), Item("fork() and stay()", "")], thinking=False)
    deadline = time.monotonic() + 10
    while not set(descendants(os.getpid())) <= before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert set(descendants(os.getpid())) <= before


@pytest.mark.parametrize(
    ("name", "options", "response", "expected"),
    [
        ("waits", {}, "x", ("partial", 0.25, "a")),
        ("waits", {"threshold": 0.25}, "x", ("correct", 0.25, "a")),
        ("with_kwargs", {"kwargs": {"bonus": 0.75}}, "x", ("partial", 0.75, "")),
        ("echo", {"answer": "last_line"}, "0\n1", ("correct", 1.0, "")),
        ("echo", {"answer": "boxed"}, "1", ("no_answer", 0.0, "nothing boxed")),
    ],
)
def test_options(folder: Path, name: str, options: Mapping[str, Any], response: str, expected: Any) -> None:
    with open_verifier(parse_spec(python(folder, name, **options), "test")) as verifier:
        grade = verifier.verify(response, "", thinking=False)
    assert outcome(grade) == expected
    assert grade.extracted == ("7" if name == "waits" else "1" if options.get("answer") == "last_line" else None)


def test_a_field_that_is_no_json_is_an_error_of_its_row(graded: Any) -> None:
    grade = graded("1", {"x": object()})
    assert outcome(grade) == ("error", 0.0, "the fields of the row cannot be passed on: a object")


BROKEN = {
    "raises.py": "raise ValueError('no data\\nat all')",
    "missing.py": "import no_such_package",
    "dies.py": "import os; os._exit(0)",
    "prints.py": "print('x' * (1 << 28))\ndef f(data_source, solution_str, ground_truth, extra_info): return 1",
    "other.py": "def f(answer, gold): return 1",
}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("raises.py:f", "its import raised ValueError: no data"),
        ("missing.py:f", "its import raised ModuleNotFoundError: No module named 'no_such_package'"),
        ("dies.py:f", "the process that imports it ended"),
        ("prints.py:g", "prints.py has no function g"),
        ("other.py:f", "f does not take data_source, solution_str, ground_truth, extra_info by name"),
        ("no_such_package.x:f", "no module no_such_package.x: install its package, put its folder on PYTHONPATH"),
    ],
)
def test_a_function_that_cannot_be_imported_is_one_message(tmp_path: Path, path: str, said: str) -> None:
    for name, text in BROKEN.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    spec = parse_spec({"type": "python", "path": path}, "test", folder=tmp_path)
    before = set(descendants(os.getpid()))
    with pytest.raises(InputError) as refused:
        open_verifier(spec)
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert set(descendants(os.getpid())) <= before


def test_an_import_that_does_not_end_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grading.pool.START_S", 3)
    (tmp_path / "slow.py").write_text("while True: pass", encoding="utf-8")
    before = set(descendants(os.getpid()))
    with pytest.raises(InputError, match="its import takes minutes"):
        open_verifier(parse_spec({"type": "python", "path": "slow.py:f"}, "test", folder=tmp_path))
    assert set(descendants(os.getpid())) <= before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "none.py:f"}, "none.py"),
        ({"path": "functions.py"}, "expected file.py:function or package.module:function"),
        ({}, "path: Field required"),
        ({"path": "functions.py:echo", "kwargs": {"ground_truth": 1}}, "ground_truth comes from the row"),
        ({"path": "functions.py:echo", "retries": 1}, "retries is not a setting"),
    ],
)
def test_a_spec_that_does_not_fit(folder: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=r"^sources\.x: verifier python: ") as refused:
        parse_spec({"type": "python", **options}, "sources.x", folder=folder)
    assert said in str(refused.value)


def test_the_digest_covers_the_file_and_what_it_imports_beside_it(folder: Path) -> None:
    def digest() -> str:
        return parse_spec(python(folder), "test").digest

    before = digest()
    (folder / "other.py").write_text("# not imported", encoding="utf-8")
    assert digest() == before
    (folder / "helper.py").write_text("HALF = 0.25\n", encoding="utf-8")
    assert (changed := digest()) != before
    (folder / "functions.py").write_text(FUNCTIONS + "# a comment", encoding="utf-8")
    assert digest() not in (changed, before)


def test_a_worker_does_not_search_the_current_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("types", "queue", "grading", "core"):
        (folder / f"{name}.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    with open_verifier(parse_spec(python(folder), "test"), workers=1) as verifier:
        assert verifier.verify("1", "g", thinking=False).solved


def test_a_third_party_declares_a_verifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is installed in the worker's interpreter, too: its folder is on PYTHONPATH."""
    (tmp_path / "court.py").write_text(
        "def score(data_source, solution_str, ground_truth, extra_info, *, least=1):\n"
        "    return float(len(solution_str) >= least)\n",
        encoding="utf-8",
    )
    info = tmp_path / "court-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: court\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[luffy.verifiers]\ncourt = court:score\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    spec = parse_spec({"type": "court", "least": 3, "limit_s": 5}, "test")
    assert spec.to_json() == {"type": "python", "path": "court:score", "kwargs": {"least": 3}, "limit_s": 5.0}
    with open_verifier(spec) as verifier:
        assert [verifier.verify(text, "", thinking=False).score for text in ("ab", "abc")] == [0.0, 1.0]
    with pytest.raises(InputError, match="no verifier 'curt'; did you mean court"):
        parse_spec("curt", "test")
