"""Traces of a teacher: problems in, one row per answer out, as ``python -m targets`` reads them.

Samples are cached like any others, so that a command that was killed goes on where it was: only what was under way at
an endpoint, and what it had answered within the last second, is asked for again.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.files import digest_bytes, write_table
from core.model.prompts import PROBLEM, messages
from core.progress import BatchProgress
from core.schemas import TARGET_LOG_PROBS
from evaluation.benchmarks.benchmark_files import read_rows
from evaluation.generation import sample_cache
from evaluation.generation.endpoint import Endpoint
from evaluation.generation.model_source import LocalModel
from evaluation.generation.requests import Completion, SampleKey, SampleRequest, Sampling, prompt_digest, sample_seed
from evaluation.generation.token_budget import Budget

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
        ("verdict", pa.string()),  # grading.grader.Verdict
    ]
)


# Of a teacher on this machine: its log-probability of each token of the response and of the token that ended it.
LOG_PROBS = (TARGET_LOG_PROBS, pa.field("target_token_ids", pa.list_(pa.int32())))


@dataclass(frozen=True)
class Problem:
    """A problem with its gold answer; ``id`` is its row in the file."""

    id: str
    text: str
    answer: str


@dataclass(frozen=True)
class Drawn:
    """What `draw_traces` wrote: ``rows`` of ``requested`` traces, of which ``cached`` had been drawn before."""

    rows: int
    requested: int
    cached: int


def read_problems(path: Path, problem: str = "problem", answer: str = "answer") -> list[Problem]:
    """The problems in a parquet, JSON or JSON-lines file; InputError names the row that lacks a column."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; give one with problems and their gold answers")
    problems = []
    for number, row in read_rows(path):
        values = [row.get(name) for name in (problem, answer)]
        for name, value in zip((problem, answer), values, strict=True):
            if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
                raise InputError(
                    f"{path}: row {number}: column {name}: expected text, found {value!r:.80}; the row has "
                    f"{', '.join(map(str, list(row)[:20]))}: name the columns with --problem-column and --answer-column"
                )
        problems.append(Problem(str(number), *map(str, values)))
    if not problems:
        raise InputError(f"{path}: no problems; give a file with rows")
    return problems


def draw_traces(
    model: LocalModel | Endpoint,
    problems: Sequence[Problem],
    out: Path,
    *,
    sampling: Sampling,
    cache: Path,
    verify: Callable[[list[dict[str, Any]]], list[str]],
    system_prompt: str | None = None,
    budget: Budget | None = None,
    log_probs: bool = False,
    report: Callable[[dict[str, Any]], None] = lambda event: None,
) -> Drawn:
    """Write ``sampling.samples`` (default 1) traces for each problem, with their verdicts, to the parquet file ``out``.

    ``verify`` gives the verdicts of the rows, which have all other columns.

    Where the budget ends, the file has the traces that there are; the same command with more goes on from there.
    With ``log_probs`` a local model's traces have the columns `LOG_PROBS`. Raises InputError for a budget of a local
    model, and whatever the endpoint refuses.
    """
    if budget is not None and isinstance(model, LocalModel):
        raise InputError("a budget is for endpoints: a teacher on this machine is not paid by the token; leave it out")
    requests = _requests(model, problems, sampling, system_prompt)
    decisive = model.decisive()
    group = decisive | {name: value for name, value in asdict(sampling).items() if name != "samples"}
    progress = BatchProgress(NAME, {NAME: len(requests)}, report)
    kept = group | {sample_cache.LOG_PROBS: True} if log_probs else group
    with sample_cache.SampleCache(cache, kept, flush_s=FLUSH_S) as samples:
        completions = samples.lookup(request.key for request in requests)
        cached = sum(request.key in completions for request in requests)
        progress.skip({NAME: cached})
        missing: dict[SampleKey, list[SampleRequest]] = defaultdict(list)
        for request in requests:
            if request.key not in completions:
                missing[request.key].append(request)  # a file may hold a problem twice
        unique = [same[0] for same in missing.values()]
        for number, completion in _draw(model, unique, sampling, budget, log_probs):
            key = unique[number].key
            samples.add(key, completion)
            completions[key] = completion
            for _ in missing[key]:
                progress.add(NAME)
    lineage = {**group, "prompt": requests[0].prompt.replace(problems[0].text, PROBLEM)}
    generation = digest_bytes(json.dumps(lineage, sort_keys=True).encode())[:SHORT_DIGEST]
    rows = [
        {
            "problem": problems[int(request.benchmark)].text,
            "answer": problems[int(request.benchmark)].answer,
            "id": request.id,
            "sample": request.sample,
            "teacher": model.name if isinstance(model, Endpoint) else model.checkpoint,
            "generation": generation,
            **_columns(completions[request.key]),
        }
        for request in requests
        if request.key in completions
    ]
    for row, verdict in zip(rows, verify(rows), strict=True):
        row["verdict"] = verdict
    metadata = {"generation": generation, "lineage": json.dumps(lineage, sort_keys=True)}
    schema = pa.schema([*TRACE, *(LOG_PROBS if log_probs else ())])
    write_table(pa.Table.from_pylist(rows, schema=schema), out, metadata)
    return Drawn(len(rows), len(requests), cached)


def _draw(
    model: LocalModel | Endpoint,
    requests: Sequence[SampleRequest],
    sampling: Sampling,
    budget: Budget | None,
    log_probs: bool,
) -> Any:
    if not requests:
        return ()
    if isinstance(model, Endpoint):
        return model.draw(requests, sampling, budget)
    return model.draw(requests, sampling, log_probs=log_probs)


def _columns(completion: Completion) -> dict[str, Any]:
    """The columns of a trace that a completion fills."""
    columns = completion._asdict()
    for field, name in zip(LOG_PROBS, ("log_probs", "token_ids"), strict=True):
        columns[field.name] = columns.pop(name)
    return columns


def _requests(
    model: LocalModel | Endpoint, problems: Sequence[Problem], sampling: Sampling, system_prompt: str | None
) -> list[SampleRequest]:
    """One request per trace, those of a problem together; the benchmark of a request is the problem's position."""
    requests = []
    for position, problem in enumerate(problems):
        prompt = model.render(messages(problem.text, system_prompt))
        digest = prompt_digest(prompt)
        requests += [
            SampleRequest(str(position), problem.id, k, prompt, digest, sample_seed(sampling.seed, digest, k))
            for k in range(sampling.samples or 1)
        ]
    return requests
