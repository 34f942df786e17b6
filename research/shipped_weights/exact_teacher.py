"""A teacher of the embedded task that is a program, behind an OpenAI-compatible endpoint with a price per token.

``python -m research.shipped_weights.exact_teacher --port 8123 --problems 160 problems.jsonl`` writes a file of problems
with gold answers, and then answers each of them exactly as its trace does, until it is stopped. Tokens are the embedded
model's.
"""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import typer

from core.arithmetic import as_problem, problems
from core.cli import run_command
from core.files import write_text
from core.model.base_model import SHIPPED
from core.model.token_counts import load_lengths
from core.text.patterns import compile_quick_pattern

MODEL = "exact"
TERM = compile_quick_pattern(r"\d+|[-+*]")


def answer(messages: list[dict[str, str]], lengths: Any) -> dict[str, Any]:
    """The completion of a conversation that ends with a problem of `core.arithmetic`, and its tokens."""
    terms = TERM.findall(messages[-1]["content"])
    trace = as_problem(tuple(int(term) if term.isdigit() else term for term in terms), "train").trace
    prompt, response, _ = lengths.count_examples([(messages, [{"role": "assistant", "content": trace}])])[0]
    usage = {"prompt_tokens": prompt, "completion_tokens": response, "total_tokens": prompt + response}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": trace}}
    return {"id": "exact", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    lengths = load_lengths(SHIPPED)

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send(answer(request["messages"], self.lengths))

    def _send(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serve(port: int = 0) -> Iterator[str]:
    """Serve the teacher on this machine, on a free port by default; yields its name as ``MODEL@URL``."""
    with ThreadingHTTPServer(("127.0.0.1", port), _Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"{MODEL}@http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def write_problems(file: Path, count: int, seed: int = 0) -> None:
    """Write ``count`` problems of the embedded task with their gold answers, as JSON lines."""
    rows = [{"problem": one.problem, "answer": one.answer} for one in problems("train", count, seed)]
    write_text("".join(f"{json.dumps(row)}\n" for row in rows), file)


def main(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="Where the problems are written.")],
    problems: Annotated[int, typer.Option(metavar="N", help="Number of problems.")] = 160,
    port: Annotated[int, typer.Option(metavar="N", help="Port of the endpoint.")] = 8123,
) -> None:
    """Write problems of the embedded task, and answer them exactly behind an endpoint until you press Ctrl-C."""
    write_problems(file, problems)
    with serve(port) as name:
        print(f"{problems} problems in {file}; generate.teacher={name}", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    sys.exit(run_command(main, None, "python -m research.shipped_weights.exact_teacher"))
