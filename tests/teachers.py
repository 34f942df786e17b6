"""A paid teacher for tests: a small OpenAI-compatible server that counts what it is asked and can be unwell."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from json_server import serve_json

ANSWER = "<think>\nwe add\n</think>\n\n\\boxed{4}"
TOKENS = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}


class Teacher:
    """What the server does, and what it was asked."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int | None]] = Counter()  # (problem, seed)
        self.requests: list[dict[str, Any]] = []  # what was asked, as it was sent
        self.answered = 0
        self.most = 0  # requests at once
        self.seconds = 0.0
        self.fails_after: int | None = None  # answers
        self.status = 200
        self.body: Any = None  # instead of an answer
        self.refuses: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda request: None  # with status 400
        self.odd: Callable[[str], Any] = lambda problem: None  # the message of an answer, of another form
        self._now = 0
        self._lock = threading.Lock()

    def answer(self, request: dict[str, Any]) -> tuple[int, Any]:
        with self._lock:
            self.asked[request["messages"][-1]["content"], request.get("seed")] += 1
            self.requests.append(request)
            self._now += 1
            self.most = max(self.most, self._now)
            fails = self.fails_after is not None and sum(self.asked.values()) > self.fails_after
        time.sleep(self.seconds)
        with self._lock:
            self._now -= 1
            self.answered += not fails
        if fails:
            return 402, {"error": {"message": "the account is empty"}}
        if refusal := self.refuses(request):
            return 400, refusal
        message = self.odd(request["messages"][-1]["content"]) or {"content": ANSWER}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
        return self.status, self.body or {"id": "x", "object": "chat.completion", "choices": [choice], "usage": TOKENS}


@pytest.fixture
def teacher() -> Iterator[tuple[Teacher, str]]:
    """A teacher, and its name as ``MODEL@URL``."""
    state = Teacher()

    with serve_json(lambda _, request: state.answer(request)) as address:
        yield state, f"teacher@{address}/v1"
