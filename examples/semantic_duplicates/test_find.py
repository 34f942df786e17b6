"""The review that the script writes is one that a preparation reads, and it refuses the paraphrase alone."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from targets.prepare import prepare
from targets.settings import build_config

HERE = Path(__file__).parent
MODEL = HERE.parents[1] / "training" / "embedded_model" / "model"
PROBLEMS = [
    ("Anna has 3 apples and buys 4 more. How many apples does she have?", "7"),
    ("Anna buys four apples and had three before. How many apples are these?", "7"),
    ("Anna has 2 apples and buys 5 more. How many apples does she have?", "7"),
    ("How many sheep are 3 sheep and 4 sheep?", "7"),
]


class Server(BaseHTTPRequestHandler):
    """An embedding model that knows one word: all problems about apples are alike."""

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        vectors = [[1.0, 0.1] if "apples" in text else [0.1, 1.0] for text in texts]
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        body = json.dumps({"object": "list", "model": "m", "data": data, "usage": None}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def test_a_paraphrase_is_refused_and_other_numbers_are_not(
    url: str, python: Callable[..., str], tmp_path: Path
) -> None:
    rows = [
        {"problem": problem, "answer": gold, "response": f"<think>\nIt is {gold}.\n</think>\n\n\\boxed{{{gold}}}"}
        for problem, gold in PROBLEMS
    ]
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.table({"id": ["b1"], "problem": ["3 and 4 sheep"]}), tmp_path / "benchmarks.parquet")

    def kept(**review: str) -> int:
        config = build_config({"source": str(tmp_path / "traces.jsonl"), "workers": 1, **review})
        return prepare(config, tmp_path / "out", benchmarks=None, tokenizer_json=MODEL).counts["kept"]

    assert kept() == 4
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    command = [str(HERE / "find.py"), "out", "--url", url, "--model", "m", "--threshold", "95"]
    assert "1 of 4 targets refused" in python(*command, env=environment)
    assert "2 of 4 targets refused" in python(*command, "--benchmarks", "benchmarks.parquet", env=environment)
    assert kept(review=str(tmp_path / "review.csv")) == 2
