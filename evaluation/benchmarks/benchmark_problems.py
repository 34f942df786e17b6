"""Build the BENCHMARK rows of a suite from the files or the generator that it names."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.arithmetic import problems
from core.errors import InputError
from core.model.prompts import PROBLEM, messages
from core.schemas import BENCHMARK, ENTRIES_KEY
from evaluation.benchmarks.benchmark_files import find_rows, read_fields, read_path
from evaluation.benchmarks.golds import choice_labels, is_empty_cell, option_indices, read_golds
from evaluation.benchmarks.suite import Benchmark, Source
from grading.answers.extraction import LETTERS, SEPARATOR
from grading.answers.options import labels_in, read_options, shuffled, with_options
from grading.gym_tasks import ENTRY, read_entries
from grading.row_fields import OPTIONS, row_fields
from grading.verifiers.spec import require_fitting_golds, spec_text

FIRST_TASK_SEED = 1_000_000  # first seed of the problems that benchmarks generate


@dataclass(frozen=True)
class Problem:
    """One problem. Contamination checks compare ``text``; a model is asked ``question``, or else ``text``."""

    id: str
    text: str
    gold: str
    alternatives: tuple[str, ...] = ()  # other right answers, any of which counts
    subject: str | None = None
    question: str | None = None
    fields: str | None = None  # what the verifier reads besides the gold answer, as JSON


def read_suite(benchmarks: Sequence[Benchmark], roots: Sequence[Path], **options: Any) -> pa.Table:
    """Return all rows of ``benchmarks`` as one BENCHMARK table, with their registry entries in its metadata.

    ``options``: arguments of `read_benchmark`.
    """
    tables = [read_benchmark(benchmark, roots, **options) for benchmark in benchmarks]
    entries = json.dumps([benchmark.model_dump(mode="json") for benchmark in benchmarks])
    return pa.concat_tables(tables).replace_schema_metadata({ENTRIES_KEY: entries})


def read_benchmark(
    benchmark: Benchmark,
    roots: Sequence[Path],
    *,
    limit: int | None = None,
    seed: int = 0,
    system_prompt: str | None = None,
) -> pa.Table:
    """Return the problems of one benchmark as a BENCHMARK table.

    Args:
        benchmark: its registry entry.
        roots: folders that are searched for its files, each with its direct subfolders.
        limit: Take at most this many problems, sampled by ``seed``, in the benchmark's order.
        seed: Seed of the sample, of generated problems and of shuffled options.
        system_prompt: precedes every problem.

    Raises InputError for a missing file, column or gold answer, and for a duplicate that is not marked as repeated.
    """
    limit = min((count for count in (limit, benchmark.sample) if count is not None), default=None)
    if benchmark.generator:
        problems = _generate(benchmark, limit, seed)
    else:
        problems = _from_files(benchmark, roots, seed)
        if benchmark.sample is not None and benchmark.sample > len(problems):
            raise InputError(
                f"benchmark {benchmark.name}: sample: {benchmark.sample}, but its files have {len(problems):,} "
                "problems: give more files, or a smaller sample"
            )
        problems = _sample(problems, benchmark.name, limit, seed)
        golds = [
            (gold, row_fields(benchmark.name, problem.text, problem.fields))
            for problem in problems
            for gold in (problem.gold, *problem.alternatives)
        ]
        require_fitting_golds(benchmark.spec, golds, f"benchmark {benchmark.name}")
    rows = [
        {
            "benchmark": benchmark.name,
            "id": problem.id,
            "problem": problem.text,
            "prompt": messages(
                (benchmark.prompt or PROBLEM).replace(PROBLEM, problem.question or problem.text), system_prompt
            ),
            "gold": problem.gold,
            "alternatives": problem.alternatives or None,
            "verifier": spec_text(benchmark.spec),
            "subject": problem.subject,
            "fields": problem.fields,
        }
        for problem in problems
    ]
    return pa.Table.from_pylist(rows, schema=BENCHMARK)


def _sample(problems: list[Problem], name: str, limit: int | None, seed: int) -> list[Problem]:
    if limit is None or limit >= len(problems):
        return problems
    ranked = sorted(problems, key=lambda problem: hashlib.sha256(f"{seed}/{name}/{problem.id}".encode()).digest())
    kept = {problem.id for problem in ranked[:limit]}
    return [problem for problem in problems if problem.id in kept]


def _generate(benchmark: Benchmark, limit: int | None, seed: int) -> list[Problem]:
    assert benchmark.generator and benchmark.size
    if benchmark.task:
        return _task_problems(benchmark, benchmark.task, min(benchmark.size, limit or benchmark.size), seed)
    split = benchmark.generator.partition(":")[2]
    generated = problems(split, min(benchmark.size, limit or benchmark.size), seed)
    return [Problem(problem.id, problem.problem, problem.answer) for problem in generated]


def _task_problems(benchmark: Benchmark, task: str, size: int, seed: int) -> list[Problem]:
    """Generate problems of a task, with other seeds than the targets have unless its options say which."""
    options = {"seed": FIRST_TASK_SEED + seed, **benchmark.options, "size": size}
    return [
        Problem(f"{number}", entry["question"], entry["answer"] or "", fields=json.dumps({ENTRY: entry}))
        for number, entry in enumerate(read_entries(task, options))
    ]


def _from_files(benchmark: Benchmark, roots: Sequence[Path], seed: int) -> list[Problem]:
    source, path, rows = find_rows(benchmark, roots)
    problems: dict[str, Problem] = {}
    for number, row in rows:
        where = f"benchmark {benchmark.name}: {path}, row {number}"
        if any(str(_value(row, key, where)) != value for key, value in source.where.items()):
            continue
        problem = _problem(row, source, benchmark.spec.type, where, seed)
        if source.boilerplate:
            text = " ".join(problem.text.split()).replace(source.boilerplate.strip(), "").strip()
            problem = replace(problem, text=text, question=problem.text)
        key = problem.id if source.columns.id else _words(problem)
        first = problems.setdefault(key, problem)
        if first is problem:
            continue
        if _words(first) != _words(problem) or (source.repeated and first.fields != problem.fields):
            raise InputError(
                f"{where}: another problem than an earlier row with the id {problem.id}: {problem.text!r:.80}; "
                "expected one problem for each id: correct the ids, or map no id column"
            )
        if not source.repeated:
            raise InputError(
                f"{where}: the same problem as an earlier row (id {problem.id}); remove it, map an id column, or set "
                "`repeated: true` in the suite if the copies stand for avg@k"
            )
        if (first.gold, first.alternatives) != (problem.gold, problem.alternatives):
            raise InputError(f"{where}: gold answer {problem.gold!r}, but an earlier copy has {first.gold!r}")
    if not problems and not source.where:
        raise InputError(f"benchmark {benchmark.name}: {path} has no rows; give a file with problems")
    if not problems:
        conditions = ", ".join(f"{key} = {value}" for key, value in source.where.items())
        raise InputError(f"benchmark {benchmark.name}: {path} has no row with {conditions}; correct `where`")
    return list(problems.values())


def _words(problem: Problem) -> str:
    """Return the text of a problem without what blanks alone make different."""
    return " ".join(problem.text.split())


def _problem(row: dict[str, Any], source: Source, verifier: str, where: str, seed: int) -> Problem:
    columns = source.columns
    paths = [columns.problem] if isinstance(columns.problem, str) else columns.problem
    text = " ".join(_text(_value(row, path, where), f"{where}: column {path}") for path in paths)
    gold_column = f"{where}: column {columns.gold}"
    golds = read_golds(_value(row, columns.gold, where), source.answer_form, gold_column)
    if golds and columns.options:
        labels = _value(row, columns.labels, where) if columns.labels else None
        options = read_options(_value(row, columns.options, where), labels, f"{where}: column {columns.options}")
        count = len(options.texts)
        right = option_indices(golds, options.labels, count, source.index_base, gold_column)
        order = shuffled(options.texts, f"{seed}/{text}") if source.shuffle_options else list(range(count))
        text = with_options(text, [options.texts[index] for index in order])
        golds = sorted(LETTERS[order.index(index)] for index in right)
    elif golds and verifier == "choice" and OPTIONS not in source.fields:
        golds = sorted(choice_labels(golds, labels_in(text), source.index_base, gold_column))
    for name, value, column in (("problem", text.strip(), ", ".join(paths)), ("gold answer", golds, columns.gold)):
        if not value:
            raise InputError(f"{where}: the {name} (column {column}) is empty; add it or remove the row")
    if source.gold_list == "all":
        golds = [SEPARATOR.join(golds)]
    identity = _value(row, columns.id, where) if columns.id else hashlib.sha256(text.encode()).hexdigest()[:16]
    if is_empty_cell(identity):
        raise InputError(f"{where}: the id (column {columns.id}) is empty; add it, or map no id column")
    subject = _value(row, columns.subject, where) if columns.subject else None
    fields = read_fields(row, source.fields, where, "`fields`")
    said = None if is_empty_cell(subject) else str(subject)
    return Problem(str(identity), text, golds[0], tuple(golds[1:]), said, fields=fields)


def _value(row: dict[str, Any], path: str, where: str) -> Any:
    return read_path(row, path, where, "`columns` or `where`")


def _text(value: Any, where: str) -> str:
    """Read a problem: a text, a number, or the one user message of a conversation."""
    if is_empty_cell(value):
        return ""
    if not isinstance(value, list):
        if isinstance(value, dict | bool | bytes):
            raise InputError(
                f"{where}: the problem is {value!r:.60}; expected a text, or messages with a role and a content"
            )
        return str(value)
    if not all(isinstance(message, dict) for message in value):
        raise InputError(f"{where}: the problem is a list; expected a text, or messages with a role and a content")
    turns = [message for message in value if message.get("role") != "system"]
    contents = [message.get("content") for message in turns if message.get("role") == "user"]
    if len(turns) != 1 or not contents or not isinstance(contents[0], str):
        roles = ", ".join(str(message.get("role")) for message in value) or "none"
        raise InputError(
            f"{where}: the problem has messages of {roles}; expected one user message with a text, and nothing after it"
        )
    return contents[0]
