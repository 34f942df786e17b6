"""A judge that misbehaves is never right, and no reply is paid twice."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from core.errors import InputError
from grading.verdict import Grade
from grading.verifiers.spec import open_verifier, parse_spec

REPLIES = {
    "right": '{"reason": "the same", "score": 1}',
    "half": '<think>hm {"score": 1}</think>{"reason": "half of it", "score": 0.5}',
    "twice": '{"score": 1} as said: {"reason": "the same", "score": 1.0}',
    "changes": '{"score": 0} No, wait: {"score": 1}',
    "prose": "This is correct. Score: 1",
    "cut": '{"reason": "the sa',
    "seven": '{"score": 7}',
    "nan": '{"score": NaN}',
    "keys": '{"score": 0, "score": 1}',
    "empty": "",
}


class Judge(BaseHTTPRequestHandler):
    """Does what the answer of the student says."""

    asked: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        self._send(200, {"data": []})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        word = request["messages"][1]["content"].split("<answer>\n")[1].split()[0]
        Judge.asked[word] += 1
        message: dict[str, Any] = {"role": "assistant", "content": REPLIES.get(word, REPLIES["right"])}
        body: dict[str, Any] = {
            "choices": [{"message": message, "finish_reason": "stop"}],
            "usage": {"total_tokens": 100},
        }
        if word == "slow":
            time.sleep(3)
        if word == "refuses":
            message |= {"content": None, "refusal": "I cannot grade this."}
        if word == "overloaded":
            body = {"error": "overloaded"}
        busy = word == "busy" or (word == "soon" and Judge.asked[word] < 3)
        status = 429 if busy else 400 if word == "bad" else 200
        self._send(status, "<html>" if word == "page" else body, cut=word == "truncated")

    def _send(self, status: int, body: Any, *, cut: bool = False) -> None:
        content = json.dumps(body).encode()
        content = content[: len(content) // 2] if cut else content
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("grading.judging.judge_client.PAUSE_S", 0.01)
    Judge.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def spec(url: str, folder: Path, **options: Any) -> dict[str, Any]:
    return {"type": "judge", "model": "m", "url": url, "cache": str(folder), "limit_s": 1, **options}


@pytest.mark.parametrize(
    ("word", "expected", "asked"),
    [
        ("right", ("correct", 1.0, "the same"), 1),
        ("half", ("partial", 0.5, "half of it"), 1),
        ("twice", ("correct", 1.0, "the same"), 1),
        ("changes", ("error", 0.0, "the judge gave no score: its reply has several scores"), 1),
        ("soon", ("correct", 1.0, "the same"), 3),
        *((word, ("error", 0.0, "the judge gave no score: its reply is"), 1) for word in list(REPLIES)[4:]),
        ("refuses", ("error", 0.0, "the judge gave no score: it refused: 'I cannot grade this.'"), 1),
        ("truncated", ("error", 0.0, "the judge gave no score: a response of no known form"), 1),
        ("overloaded", ("error", 0.0, 'a response of no known form: \'{"error"'), 1),
        ("page", ("error", 0.0, "a response of no known form: '\"<html>"), 1),
        ("busy", ("error", 0.0, "no answer after 5 retries"), 6),
        ("bad", ("error", 0.0, "the endpoint answered: "), 1),
        ("slow", ("error", 0.0, "the endpoint did not answer in time"), 1),
    ],
)
def test_whatever_is_no_score_is_an_error(
    url: str, tmp_path: Path, word: str, expected: tuple[str, float, str], asked: int
) -> None:
    with open_verifier(parse_spec(spec(url, tmp_path), "test")) as verifier:
        grade: Grade = verifier.verify(word, "gold", thinking=False)
        assert (str(grade.verdict), grade.score) == expected[:2] and grade.reason.startswith(expected[2])
        assert Judge.asked[word] == asked
        if asked == 1 and word not in ("bad", "slow"):
            assert verifier.verify(word, "gold", thinking=False) == grade
            assert Judge.asked[word] == 1 + (word in ("page", "overloaded"))  # what was answered is paid once


def test_equal_questions_at_once_are_asked_once(url: str, tmp_path: Path) -> None:
    with open_verifier(parse_spec(spec(url, tmp_path), "test")) as verifier, ThreadPoolExecutor(8) as threads:
        grades = list(threads.map(lambda _: verifier.verify("right", "gold", thinking=False), range(8)))
    assert all(grade.solved for grade in grades) and Judge.asked["right"] == 1


def test_a_budget_is_kept(url: str, tmp_path: Path) -> None:
    limited = spec(url, tmp_path, budget_tokens=1500)
    with open_verifier(parse_spec(limited, "test")) as verifier:
        grades = [verifier.verify(f"right {number}", "gold", thinking=False) for number in range(12)]
    right = sum(grade.solved for grade in grades)
    assert 0 < right < 12 and Judge.asked["right"] == right
    assert "the budget of the judge is spent" in grades[-1].reason and grades[-1].score == 0
    with open_verifier(parse_spec({**limited, "budget_tokens": 100_000}, "test")) as verifier:
        assert all(verifier.verify(f"right {number}", "gold", thinking=False).solved for number in range(12))
    assert Judge.asked["right"] == 12


def test_what_decides_a_verdict_is_the_identity(tmp_path: Path) -> None:
    plain = parse_spec(spec("http://a/v1", tmp_path), "test").digest
    assert parse_spec(spec("http://b/v1", tmp_path / "x", budget_tokens=7), "test").digest == plain
    for change in ({"model": "n"}, {"rubric": "Be strict."}, {"temperature": 0.5}, {"max_tokens": 9}):
        assert parse_spec(spec("http://a/v1", tmp_path, **change), "test").digest != plain


def test_an_endpoint_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"verifier judge: http://127\.0\.0\.1:1/v1 cannot be reached"):
        open_verifier(parse_spec(spec("http://127.0.0.1:1/v1", tmp_path), "test"))
    with pytest.raises(InputError, match="url: expected an address such as"):
        parse_spec(spec("localhost", tmp_path), "test")
