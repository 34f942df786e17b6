"""List the problems of the sources, each once, to measure the base model before targets are chosen."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.schemas import BENCHMARK
from grading.row_fields import DATA_SOURCE
from grading.tools.settings import ToolSettings
from grading.verifiers.spec import spec_text
from targets.filter.filters import Stage, rejections
from targets.filter.stages import prompt_of
from targets.filter.worker import Worker
from targets.read.sources import read_source
from targets.select.dedupe import problem_digest
from targets.select.selection import rank
from targets.settings import TargetSettings
from targets.trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "difficulty"  # in the place of a benchmark's


def read_problems(
    config: TargetSettings,
    tokenizer: Path,
    limit: int | None = None,
    generated: Path | None = None,
    tools: ToolSettings | None = None,
) -> "pa.Table":
    """BENCHMARK rows: each problem, as a policy sees it, with its first gold answer.

    Traces that cannot be read, and problems that fail the filters or have too long a prompt, are left out.
    ``limit``: the most problems, drawn by the seed of ``config``; ``generated``: the file of the source of that name;
    ``tools``: those that traces may call.

    Raises:
        InputError: a source does not work, or no problem is left.
    """
    import pyarrow as pa

    rows: dict[str, dict[str, Any]] = {}
    with Worker(config, tokenizer, tools=tools) as worker:
        for trace in _measurable(config, worker, generated):
            digest = problem_digest(str(trace.problem))
            if digest in rows:
                continue
            rows[digest] = _row(digest, trace, config, worker)
            if limit is not None and len(rows) > 2 * limit:
                rows = _drawn(rows, limit, config.seed)
    if limit is not None:
        rows = _drawn(rows, limit, config.seed)
    table = pa.Table.from_pylist([row for row in rows.values() if row], schema=BENCHMARK)
    if not table.num_rows:
        raise InputError(
            f"source {', '.join(config.paths)}: no problem to measure; give a source with problems and answers"
        )
    return table


def _measurable(config: TargetSettings, worker: Worker, generated: Path | None) -> Iterator[Trace]:
    for trace in islice(read_source(config, generated, tools=worker.tools is not None), config.limit):
        if not trace.reasons and not any(rejections(Stage.PROBLEM, trace, worker)):
            yield trace


def _row(digest: str, trace: Trace, config: TargetSettings, worker: Worker) -> dict[str, Any]:
    prompt = prompt_of(trace, worker.source(trace))
    ((tokens, _, _),) = worker.lengths.count_examples([(prompt, [])])
    if tokens > config.max_prompt_tokens:
        return {}
    values = {"benchmark": NAME, "id": digest, "problem": trace.problem, "prompt": prompt}
    values |= {"gold": trace.gold, "verifier": spec_text(worker.source(trace).spec), "subject": ""}
    # The verifier is asked as for the source's targets.
    return {**values, "fields": json.dumps({DATA_SOURCE: trace.data_source, **trace.fields})}


def _drawn(rows: dict[str, dict[str, Any]], limit: int, seed: int) -> dict[str, dict[str, Any]]:
    chosen = set(sorted(rows, key=lambda digest: rank(f"{seed}/difficulty/{digest}"))[:limit])
    return {digest: row for digest, row in rows.items() if digest in chosen}
