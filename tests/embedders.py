"""A small OpenAI-compatible server of vectors for tests: hashed runs of three letters, a real if simple measure."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from json_server import serve_json

SIZE = 512


def ngram_vector(text: str, size: int = SIZE) -> list[float]:
    """How often each run of three characters occurs, by its hash."""
    letters = f" {' '.join(''.join(c if c.isalpha() else ' ' for c in text.lower()).split())} "
    vector = np.zeros(size)
    for start in range(len(letters) - 2):
        vector[crc32(letters[start : start + 3].encode()) % size] += 1
    return vector.tolist()


class Embedder:
    """What the server does, and what it was asked."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.size = SIZE
        self.seconds = 0.0
        self.status = 200
        self.body: Any = None  # instead of an answer

    def answer(self, request: dict[str, Any]) -> tuple[int, Any]:
        self.texts += request["input"]
        time.sleep(self.seconds)
        entries = [
            {"object": "embedding", "index": number, "embedding": ngram_vector(text, self.size)}
            for number, text in enumerate(request["input"])
        ]
        return self.status, self.body or {"object": "list", "model": request["model"], "data": entries[::-1]}


@contextmanager
def serve_ngrams() -> Iterator[tuple[Embedder, str]]:
    """The server and its address."""
    state = Embedder()

    def answer(path: str, request: dict[str, Any]) -> tuple[int, Any]:
        return state.answer(request) if path == "/v1/embeddings" else (404, {"error": "no page"})

    with serve_json(answer) as address:
        yield state, f"{address}/v1"


@pytest.fixture
def embedder() -> Iterator[tuple[Embedder, str]]:
    with serve_ngrams() as served:
        yield served


if __name__ == "__main__":  # python tests/embedders.py
    with serve_ngrams() as (_, address):
        print(address, flush=True)
        threading.Event().wait()
