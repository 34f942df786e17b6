"""Draw traces of a teacher: problems in, one row per answer out, in the form that ``luffy targets`` reads.

A teacher that may call tools writes chats: its turns, with calls in the format ``hermes``, and the observations.

Samples are cached like any others, so that a command that was killed goes on where it was: only what was under way at
an endpoint, and what it had answered within the last second, is asked for again. A command that is stopped, or fails,
waits for what is under way, and loses nothing.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.code_digest import SHORT_DIGEST
from core.errors import InputError, TaskFailed
from core.files import digest_bytes, write_table
from core.model.calls import rewrite_calls
from core.model.episodes import TOOL
from core.model.prompts import PROBLEM, messages
from core.progress import BatchProgress
from core.schemas import FIELDS, MESSAGE, TARGET_LOG_PROBS
from evaluation.benchmarks.benchmark_files import read_fields, read_rows
from evaluation.benchmarks.golds import is_empty_cell
from evaluation.generation import sample_cache
from evaluation.generation.endpoint import Budget, Endpoint
from evaluation.generation.generate import complete
from evaluation.generation.model_source import LocalModel
from evaluation.generation.requests import Beginning, Completion, SampleKey, SampleRequest, Sampling, requests_of
from grading.row_fields import row_fields

FLUSH_S = 1.0  # between writes to the cache: an answer may have cost money
NAME = "traces"  # of the progress

TRACE = pa.schema(
    [
        ("problem", pa.string()),
        ("answer", pa.string()),  # the gold answer
        ("response", pa.string()),
        ("id", pa.string()),  # the problem's row in its file, from 1
        ("sample", pa.int32()),
        ("teacher", pa.string()),
        ("generation", pa.string()),  # digest of the teacher and of everything that decides its samples
        ("tokens", pa.int32()),
        ("finish_reason", pa.string()),  # "stop" | "length"
        ("verdict", pa.string()),  # grading.verdict.Verdict
    ]
)

# In the place of ``response`` where the teacher may call tools: the question, the turns, and the observations.
CHAT = pa.field("messages", pa.list_(MESSAGE))
# Of a teacher on this machine: its log-probability of each token of the response and of the token that ended it.
LOG_PROBS = (TARGET_LOG_PROBS, pa.field("target_token_ids", pa.list_(pa.int32())))


@dataclass(frozen=True)
class Problem:
    """A problem with its gold answer; ``id`` is its row in the file, ``fields`` what the verifier reads, as JSON."""

    id: str
    text: str
    answer: str
    fields: str | None = None


@dataclass(frozen=True)
class Drawn:
    """The result of `draw_traces`: ``rows`` of ``requested`` traces, of which ``cached`` came from the cache.

    ``empty``: how many of them have no text, by their ``finish_reason``.
    """

    rows: int
    requested: int
    cached: int
    empty: dict[str, int]

    @property
    def empty_text(self) -> str:
        """What to say of empty answers; "" without any."""
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.empty.items())
        return f"{sum(self.empty.values()):,} of {self.rows:,} answers are empty ({reasons})" if self.empty else ""


def read_problems(
    path: Path, problem: str = "problem", answer: str = "answer", fields: Mapping[str, str] | None = None
) -> list[Problem]:
    """The problems in a parquet, JSON or JSON-lines file; InputError names the row that lacks a column.

    ``fields``: {name: column or dotted path} of what the verifier reads.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; give one with problems and their gold answers")
    problems = []
    for number, row in read_rows(path):
        values = [row.get(name) for name in (problem, answer)]
        for name, value in zip((problem, answer), values, strict=True):
            if isinstance(value, bool) or not isinstance(value, str | int | float) or is_empty_cell(value):
                raise InputError(
                    f"{path}: row {number}: column {name}: expected text, found {value!r:.80}; the row has "
                    f"{', '.join(map(str, list(row)[:20]))}: set generate.problem_column and "
                    "generate.answer_column"
                )
        text, gold = map(str, values)
        read = read_fields(row, fields or {}, f"{path}: row {number}", "fields")
        problems.append(Problem(str(number), text, gold, read))
    if not problems:
        raise InputError(f"{path}: no problems; give a file with rows")
    return problems


@dataclass(frozen=True)
class TraceOptions:
    """How traces are drawn. ``log_probs``: a local model's traces without tools have the columns `LOG_PROBS`."""

    sampling: Sampling
    system_prompt: str | None = None
    budget: Budget | None = None  # of an endpoint
    log_probs: bool = False
    data_source: str = "generated"  # what tools and verifier read of each row


def draw_traces(
    model: LocalModel | Endpoint,
    problems: Sequence[Problem],
    out: Path,
    options: TraceOptions,
    *,
    cache: Path,
    verify: Callable[[list[dict[str, Any]]], list[str]],
    report: Callable[[dict[str, Any]], None] = lambda event: None,
) -> Drawn:
    """Write ``sampling.samples`` (default 1) traces for each problem, with their verdicts, to the parquet file ``out``.

    ``verify`` gives the verdicts of the rows, which have all other columns.

    Where the budget ends, the file has the traces that there are; the same command with more goes on from there.
    Raises InputError for a budget of a local model, and whatever the endpoint refuses, and TaskFailed if every answer
    is empty, as where a filter of the endpoint takes them all.
    """
    if options.budget is not None and isinstance(model, LocalModel):
        raise InputError("a budget is for endpoints: a teacher on this machine is not paid by the token; leave it out")
    sampling, requests, episode = options.sampling, [], None
    if tools := model.tools and model.tools.digest():
        options = replace(options, log_probs=False)
    for problem in problems:
        conversation = messages(problem.text, options.system_prompt)
        if tools:
            row = row_fields(options.data_source, problem.text, problem.fields)
            episode = Beginning(conversation, tools, row)
        prompt = model.render(conversation, calls=bool(tools))
        requests += requests_of(NAME, problem.id, prompt, sampling.seed, sampling.samples or 1, episode)
    group = model.decisive() | sampling.decisive()
    lineage = {**group, "prompt": model.render(messages(PROBLEM, options.system_prompt), calls=bool(tools))}
    lineage |= {"tools": tools} if tools else {}
    generation = digest_bytes(json.dumps(lineage, sort_keys=True).encode())[:SHORT_DIGEST]
    completions, cached = _completions(model, requests, options, cache, group, report)
    facts = {
        "teacher": model.name if isinstance(model, Endpoint) else model.checkpoint,
        "generation": generation,
    }
    answers = [completions[request.key] for request in requests if request.key in completions]  # repeated ones, too
    empty = Counter(answer.finish_reason for answer in answers if not answer.response.strip())
    drawn = Drawn(len(answers), len(requests), cached, dict(empty.most_common()))
    if answers and empty.total() == len(answers):
        raise TaskFailed(
            f"{facts['teacher']}: {drawn.empty_text}, so there is no trace to write: change the prompt or the teacher; "
            f"{cache} has the answers"
        )
    rows = _rows(problems, requests, completions, facts, model)
    for row, verdict in zip(rows, verify(rows), strict=True):
        row["verdict"] = verdict
    metadata = {"generation": generation, "lineage": json.dumps(lineage, sort_keys=True)}
    fields = [FIELDS] if any(problem.fields for problem in problems) else []
    columns = [CHAT if tools and field.name == "response" else field for field in TRACE]
    schema = pa.schema([*columns, *fields, *(LOG_PROBS if options.log_probs else ())])
    write_table(pa.Table.from_pylist(rows, schema=schema), out, metadata)
    return drawn


def _completions(
    model: LocalModel | Endpoint,
    requests: Sequence[SampleRequest],
    options: TraceOptions,
    cache: Path,
    group: dict[str, Any],
    report: Callable[[dict[str, Any]], None],
) -> tuple[dict[SampleKey, Completion], int]:
    """Return the available completions, and the number of requests that were answered before."""
    progress = BatchProgress(NAME, {NAME: len(requests)}, report)
    chosen = {"budget": options.budget} if isinstance(model, Endpoint) else {"log_probs": options.log_probs}
    kept = group | {sample_cache.LOG_PROBS: True} if options.log_probs else group
    with sample_cache.SampleCache(cache, kept, flush_s=FLUSH_S) as samples:
        pairs = complete(model, requests, options.sampling, samples, progress, **chosen)
        completions: dict[SampleKey, Completion] = {}
        for request, completion in pairs:
            if options.budget and options.budget.covers_cached and len(completions) < progress.skipped:
                options.budget.record_usage((0, 0), (_asked_bytes(request, completion), completion.tokens))
            completions[request.key] = completion
    return completions, progress.skipped


def _asked_bytes(request: SampleRequest, completion: Completion) -> int:
    """Return the bytes of the prompts of a sample.

    Each turn of an episode asks with everything before it; a sample of one turn asks once.
    """
    total, before = 0, len(request.prompt.encode())
    for message in completion.turns or [{"role": "assistant", "content": ""}]:
        if message["role"] != TOOL:
            total += before
        before += len(message["content"].encode())
    return total


def _rows(
    problems: Sequence[Problem],
    requests: Sequence[SampleRequest],
    completions: dict[SampleKey, Completion],
    facts: dict[str, str],
    model: LocalModel | Endpoint,
) -> list[dict[str, Any]]:
    """The TRACE rows of the requests that were answered, without their verdicts."""
    by_id = {problem.id: problem for problem in problems}
    rows = []
    for request in requests:
        if request.key not in completions:
            continue
        columns = completions[request.key]._asdict()
        for field, name in zip(LOG_PROBS, ("log_probs", "token_ids"), strict=True):
            columns[field.name] = columns.pop(name)
        problem = by_id[request.id]
        if model.tools:
            # A prompt that fills the context has no turn.
            turns = columns["turns"] or [{"role": "assistant", "content": columns["response"]}]
            written = [_as_hermes(turn, model) for turn in turns]
            columns[CHAT.name] = [*messages(problem.text), *written]
        stated = {"problem": problem.text, "answer": problem.answer, "id": problem.id, "sample": request.sample}
        rows.append({**stated, **facts, **columns, FIELDS.name: problem.fields})
    return rows


def _as_hermes(turn: dict[str, str], model: LocalModel | Endpoint) -> dict[str, str]:
    """Return a turn of an episode with its calls in the format ``hermes``.

    That is what `targets.read.episodes` reads, whatever the teacher's chat template writes.
    """
    if turn["role"] == TOOL or model.tools is None or model.call_format is None:
        return turn
    schemas = model.tools.schemas()
    text = rewrite_calls(turn["content"], model.call_format, "hermes", schemas)
    return {**turn, "content": text}
