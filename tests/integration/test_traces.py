"""Traces of a paid endpoint: what a request costs is paid once. Runs in the training interpreter, which has openai.

The endpoint is a small server that speaks the protocol, counts what it is asked and can be unwell: no paid one can be
reached from here.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("openai")

from teachers import ANSWER

from core.files import write_table
from core.schemas import BENCHMARK
from evaluation.__main__ import main
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite

BOX = r"\boxed{4}"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps({"problem": f"2+2+{k}-{k}=?", "answer": 4}) + "\n" for k in range(12)))
    return path


def command(teacher: str, problems: Path, *options: object) -> list[str]:
    folder = problems.parent
    arguments = ["--teacher", teacher, "--problems", problems, "--out", folder / "traces.parquet"]
    arguments += ["--cache", folder / "cache", "--set", "generate.max_tokens=50", *options]
    return [sys.executable, "-m", "evaluation", "traces", *map(str, arguments)]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> "Callable[..., subprocess.CompletedProcess[str]]":
    """Runs the command in this process: what it imports takes longer than it does."""

    def call(*arguments: Any) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess((), main(command(*arguments)[3:]), *capsys.readouterr())

    return call


def traces(problems: Path) -> list[dict[str, Any]]:
    return pq.read_table(problems.parent / "traces.parquet").to_pylist()


def test_every_problem_gets_its_traces_once(teacher: Any, problems: Path, run: Any) -> None:
    state, name = teacher
    state.seconds = 0.05
    options = ("--samples", 2, "--set", "generate.concurrency=3", "--set", "generate.system_prompt=Think.")
    done = run(name, problems, *options)
    assert done.returncode == 0, done.stderr
    assert "24 of 24 traces" in done.stdout
    rows = traces(problems)
    assert [(row["id"], row["sample"]) for row in rows] == [(str(k), s) for k in range(1, 13) for s in (0, 1)]
    assert {(row["answer"], row["response"], row["teacher"]) for row in rows} == {("4", ANSWER, "teacher")}
    assert len({row["generation"] for row in rows}) == 1 and state.most == 3
    content = (problems.parent / "traces.parquet").read_bytes()
    assert run(name, problems, *options).returncode == 0
    assert set(state.asked.values()) == {1} and len(state.asked) == 24
    assert (problems.parent / "traces.parquet").read_bytes() == content
    assert run(name, problems, "--set", "generate.system_prompt=Think hard.").returncode == 0
    assert traces(problems)[0]["generation"] != rows[0]["generation"] and len(state.asked) == 36


def test_answers_without_a_text_are_counted_and_are_no_traces_alone(teacher: Any, problems: Path, run: Any) -> None:
    state, name = teacher
    state.odd = lambda problem: {"content": ""} if problem.startswith("2+2+0") else None
    done = run(name, problems)
    assert done.returncode == 0 and "note: 1 of 12 answers are empty (stop 1)" in done.stdout, done.stderr
    (problems.parent / "traces.parquet").unlink()
    state.odd = lambda problem: {"content": None}
    done = run(name, problems, "--set", "generate.system_prompt=Another.")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "teacher: 12 of 12 answers are empty (stop 12), so there is no trace to write" in done.stderr
    assert not (problems.parent / "traces.parquet").exists()
    assert run(name, problems, "--set", "generate.system_prompt=Another.").returncode == 1
    assert sum(state.asked.values()) == 24, "the answers are not paid for twice"


def test_a_generation_is_the_same_whatever_is_asked_first(teacher: Any, problems: Path, run: Any) -> None:
    _, name = teacher
    digests, prompts = set(), set()
    for first in (r"Compute $\frac{8}{2}$.", 'The "größer"\nof 2 and 2?'):
        problems.write_text(json.dumps({"problem": first, "answer": 4}) + "\n")
        assert run(name, problems, "--set", "generate.system_prompt=Be brief.").returncode == 0
        digests.add(traces(problems)[0]["generation"])
        lineage = pq.read_schema(problems.parent / "traces.parquet").metadata[b"lineage"]
        prompts.add(json.loads(lineage)["prompt"])
    (prompt,) = prompts
    assert len(digests) == 1
    assert [message["content"] for message in json.loads(prompt)] == ["Be brief.", "{problem}"]


def test_a_teacher_that_calls_tools_writes_chats(teacher: Any, problems: Path, run: Any) -> None:
    state, name = teacher

    def says(last: str) -> dict[str, Any]:
        function = {"name": "calculator", "arguments": json.dumps({"expression": last.removesuffix("=?")})}
        calls = [{"id": "a", "type": "function", "function": function}]
        return {"content": "I ask." if last.endswith("?") else f"\\boxed{{{last}}}"} | (
            {"tool_calls": calls} if last.endswith("?") else {}
        )

    state.odd = says
    tools = ("--set", "tools.use=[{type: calculator}]", "--set", "tools.turns=2", "--set", "tools.calls=1")
    done = run(name, problems, *tools, "--samples", 2)
    assert done.returncode == 0 and "spent 1,440 tokens" in done.stdout, done.stderr
    rows = traces(problems)
    assert {row["verdict"] for row in rows} == {"correct"} and len(rows) == 24 == sum(state.asked.values()) / 2
    question, turn, *rest = rows[0]["messages"]
    assert question == {"role": "user", "content": "2+2+0-0=?"} and turn["content"].startswith("I ask.<tool_call>")
    assert rest == [{"role": "tool", "content": "4"}, {"role": "assistant", "content": BOX}]

    out = problems.parent / "difficulty.parquet"
    assert main(["difficulty", "--samples", str(problems.parent / "traces.parquet"), "--out", str(out)]) == 0
    assert pq.read_table(out)["pass_rate"].to_pylist() == [1.0] * 12

    # Two turns may ask with 1,000 characters of observation, and everything before it; another row, another request.
    problems.write_text(json.dumps({"problem": "2+2+9-9=?", "answer": 4, "shop": "x"}) + "\n")
    done = run(name, problems, *tools, "--fields", "[shop]", "--budget-tokens", 1000)
    assert "0 of 1 traces" in done.stdout and "the budget ends here" in done.stdout
    assert run(name, problems, *tools, "--fields", "[shop]", "--budget-tokens", 3000).returncode == 0
    assert len(traces(problems)) == 1 and sum(state.asked.values()) == 50


def test_rows_that_repeat_a_problem_share_its_samples(teacher: Any, problems: Path, run: Any) -> None:
    state, name = teacher
    problems.write_text(problems.read_text() * 2)
    done = run(name, problems)
    assert "24 of 24 traces" in done.stdout and sum(state.asked.values()) == 12
    assert f"note: 12 rows of {problems} repeat an earlier problem, and have the same samples" in done.stdout


def test_a_killed_command_goes_on_where_it_was(teacher: Any, problems: Path, run: Any) -> None:
    state, name = teacher
    state.seconds = 0.4
    options = ("--samples", 3, "--set", "generate.concurrency=2")
    process = subprocess.Popen(command(name, problems, *options), cwd=ROOT, stdout=subprocess.DEVNULL)
    while state.answered < 12:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    assert not (problems.parent / "traces.parquet").exists()
    state.seconds = 0.0
    done = run(name, problems, *options)
    assert done.returncode == 0, done.stderr
    assert len(traces(problems)) == len(state.asked) == 36
    # Two under way, and what two at a time get answered in the second between writes and the time of an answer.
    assert sum(state.asked.values()) - 36 <= 2 + 2 * (1.4 / 0.4)


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        # A request starts if the most that it may take fits: about 40 tokens of prompt, and 50 of an answer.
        (("--budget-tokens", 400), 11),
        (("--set", "generate.budget_money=0.0002", "--set", "generate.output_price=2"), 6),
        (("--budget-tokens", 10), 0),
    ],
)
def test_a_budget_ends_cleanly_and_is_never_exceeded(
    teacher: Any, problems: Path, run: Any, limits: tuple[Any, ...], fits: int
) -> None:
    state, name = teacher
    done = run(name, problems, "--set", "generate.concurrency=1", *limits)
    assert done.returncode == 0, done.stderr
    assert "the budget ends here" in done.stdout
    assert sum(state.asked.values()) == len(traces(problems)) == fits
    done = run(name, problems, "--budget-tokens", 100_000)
    assert "12 of 12 traces" in done.stdout and "ends here" not in done.stdout
    assert set(state.asked.values()) == {1} and len(state.asked) == 12
    assert f"spent {30 * (12 - fits):,} tokens" in done.stdout


def test_after_an_error_what_was_paid_for_is_kept(teacher: Any, problems: Path, run: Any) -> None:
    state, name = teacher
    state.fails_after, state.seconds = 6, 0.1
    done = run(name, problems, "--set", "generate.concurrency=4")
    assert done.returncode == 2 and done.stderr.count("error: ") == 1, done.stderr
    assert "the endpoint answered 402: " in done.stderr and "account is empty" in done.stderr
    assert not (problems.parent / "traces.parquet").exists()
    before, state.fails_after = dict(state.asked), None
    assert run(name, problems).returncode == 0
    paid = [key for key, times in state.asked.items() if times == 1]
    assert len(paid) == 12 - (sum(before.values()) - 6)  # each refused request is asked again, no other


def test_an_answer_of_no_known_form_is_kept_and_costs_no_other(teacher: Any, problems: Path, run: Any) -> None:
    state, name = teacher
    state.seconds = 0.1
    state.odd = lambda problem: {"content": 4} if "3-3" in problem else None
    done = run(name, problems, "--set", "generate.concurrency=4")
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "answered in a form that is not known: 4 where a text is expected; what it sent is in " in done.stderr
    (unread,) = (problems.parent / "cache").rglob("unread/*.json")
    assert str(unread) in done.stderr and json.loads(unread.read_text())["choices"][0]["message"]["content"] == 4
    before, state.odd = len(state.requests), lambda problem: None
    assert run(name, problems).returncode == 0
    assert len(state.requests) == 12 + 1 and before < 12  # the one that was not read is asked again, no other


@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_command_that_is_stopped_waits_for_what_it_pays_for(
    teacher: Any, problems: Path, run: Any, signum: int
) -> None:
    state, name = teacher
    state.seconds = 2.0
    started = command(name, problems, "--set", "generate.concurrency=5")
    process = subprocess.Popen(started, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while len(state.requests) < 5:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signum)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + signum and len(state.requests) == 5
    assert "stopping: waiting for 5 answers that are under way; they are stored" in said and "Traceback" not in said
    state.seconds = 0.0
    assert run(name, problems).returncode == 0
    assert set(state.asked.values()) == {1} and len(state.asked) == 12


def test_requests_are_what_the_server_takes(teacher: Any, problems: Path, run: Any) -> None:
    state, name = teacher

    def refuses(request: dict[str, Any]) -> dict[str, Any] | None:
        if "max_tokens" in request:
            return {"error": {"message": "Unsupported parameter: use max_completion_tokens instead of max_tokens"}}
        if "seed" in request or "temperature" in request:
            return {"error": {"message": "seed and temperature are not supported"}}
        return None

    state.status, state.body = 403, {"error": "not in your plan"}
    assert "answered 403: not in your plan; set OPENAI_API_KEY" in run(name, problems).stderr
    state.status, state.body = 200, None
    state.refuses = refuses
    done = run(name, problems)
    assert "send it by the setting endpoint: {max_tokens_key: max_completion_tokens}" in done.stderr
    done = run(name, problems, "--set", "generate.endpoint={max_tokens_key: max_completion_tokens}")
    assert "leave it out by the setting endpoint: {leave_out: [temperature, seed]}" in done.stderr
    state.requests.clear()
    body = "extra_body: {reasoning_effort: low, chat_template_kwargs: {enable_thinking: false}}"
    options = f"{{max_tokens_key: max_completion_tokens, leave_out: [temperature, seed], {body}}}"
    assert run(name, problems, "--set", f"generate.endpoint={options}").returncode == 0
    sent = state.requests[0]
    assert sent.keys() == {
        "model", "messages", "top_p", "max_completion_tokens", "reasoning_effort", "chat_template_kwargs",
    }  # fmt: skip
    assert (sent["max_completion_tokens"], sent["chat_template_kwargs"]) == (50, {"enable_thinking": False})
    turned = options.replace("temperature, seed", "seed, temperature")
    assert run(name, problems, "--set", f"generate.endpoint={turned}").returncode == 0
    assert len(state.requests) == 12  # the same samples
    generation = traces(problems)[0]["generation"]
    for other in (options.replace("low", "high"), options.replace("false", "true")):
        assert run(name, problems, "--set", f"generate.endpoint={other}").returncode == 0
        assert traces(problems)[0]["generation"] != generation
    assert len(state.requests) == 36


def test_an_endpoint_calls_tools(teacher: Any, tmp_path: Path) -> None:
    state, name = teacher

    def message(last: str) -> dict[str, Any]:
        expression = {"47*86-195=?": "47*86", "4042": "4042-195"}.get(last)
        function = {"name": "calculator", "arguments": json.dumps({"expression": expression})}
        called = {"content": None, "tool_calls": [{"id": f"of {last}", "type": "function", "function": function}]}
        return called if expression else {"content": f"\\boxed{{{last}}}"}

    state.odd = message
    table = read_suite(load_suite("tools")[:1], []).slice(0, 1)
    asked = [[{"role": "user", "content": "47*86-195=?"}]]
    table = table.set_column(table.column_names.index("prompt"), BENCHMARK.field("prompt"), [asked])
    write_table(table, tmp_path / "suite.parquet")
    options = [
        "--suite",
        tmp_path / "suite.parquet",
        "--model",
        name,
        "--cache",
        tmp_path / "cache",
        "--out",
        tmp_path / "out",
    ]
    assert main(["generate", "--profile", "tools", *map(str, options)]) == 0
    (row,) = pq.read_table(tmp_path / "out" / "calls.parquet").to_pylist()
    said = [turn["content"] for turn in row["turns"] if turn["role"] == "tool"]
    assert (said, row["response"], row["tokens"]) == (["4042", "3847"], "\\boxed{3847}", 30)
    first, _, last = state.requests
    assert first["tools"][0]["function"]["name"] == "calculator"
    assert last["messages"][-1] == {"role": "tool", "content": "3847", "tool_call_id": "of 4042"}
