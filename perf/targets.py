"""Compare the preparation of targets with the usual way, on the same real rows, one after the other.

    .venv/bin/python -m perf.targets [speed] --source FILE ... [--rows N]  # rows per second, decisions, workers
    .venv/bin/python -m perf.targets memory [--source FILE] [--rows 100000 1000000] [--workers N]  # memory and CPU
    .venv/bin/python -m perf.targets duplicates [--rows 1000 10000 100000]  # near duplicates of one gold answer
    .venv/bin/python -m perf.targets changes [--rows 100000]  # what is done again after a change
    .venv-train/bin/python -m perf.targets other-tools [--source FILE] [--rows 2000] [--datatrove PYTHON]
    .venv/bin/python -m perf.targets embedding --embedding '{model: NAME, url: URL}'  # which thresholds fit a model
    .venv/bin/python -m perf.targets benchmark-search [--source FILE ... --benchmarks FILE]  # found, wrongly refused

The usual way is ``datasets.map`` (``num_proc=2``) with a Python function that applies the same filters to a row,
tokenizes the text and calls math-verify on it. Ours is `targets.prepare` with two workers, including reading,
duplicates and writing. The tokenizer is a BPE of 16,384 tokens trained on the rows, outside the timing. Where the two
decide differently about a row, its gold answer and our reason are printed: each is a comparison of answers that
math-verify alone gets wrong, or one of its limits. The gain of a second worker is printed with and without the time to
start, next to the gain of a second process that only counts.

``memory`` samples the proportional set size of the preparation and all its processes five times per second, while it
prepares the shortest real rows, repeated.

``duplicates`` searches generated problems with one gold answer for near duplicates, and compares all pairs of the same
problems where there are few. ``changes`` prepares generated traces, changes one input after the other, and prints how
many traces are filtered again.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here is on a hub

from core.cli import exit_status
from core.model.token_counts import END_TOKEN, load_lengths
from core.text.parse import parse_yaml
from perf.changed_inputs import TOKENIZER, changed_inputs, write_generated
from perf.labelled_problems import measure_benchmark_search, measure_embedding
from perf.measurement import Timed, parser_of
from perf.near_duplicates import duplicates
from perf.other_tools import other_tools
from targets.config import PrepareConfig, build_config
from targets.filter.context import FilterContext, FilterInputs
from targets.filter.filters import Stage, rejections
from targets.prepare import prepare
from targets.read.response_format import Parts, parse_response
from targets.read.sources import read_source
from targets.trace import Trace

VOCABULARY = 16_384
PROCESSES = 2
DISTINCT = 2000  # real rows that are repeated
SAMPLE_EVERY_S = 0.2
PRINTED = 12  # rows decided differently, of each kind
COUNTED = 20_000_000  # additions of a process that only counts


def train_tokenizer(texts: list[str], folder: Path) -> Path:
    """A byte-level BPE tokenizer.json learned from ``texts``."""
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(texts, vocab_size=VOCABULARY, min_frequency=0, show_progress=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@cache
def _context(settings: str, tokenizer: Path) -> FilterContext:
    return FilterContext(FilterInputs(PrepareConfig.model_validate_json(settings), tokenizer, None))


def usual_row(row: dict[str, Any], settings: str, tokenizer: Path) -> dict[str, Any]:
    """Filter one row as a preparation script usually does."""
    from math_verify import parse, verify

    context = _context(settings, tokenizer)
    encode = context.lengths.tokenizer.encode
    tokens = len(encode(row["response"]).ids)
    correct = verify(parse(f"\\boxed{{{row['gold']}}}"), parse(row["response"]))
    trace, parts = Trace(**row, source="", row=0), parse_response(row["response"], split_plain=True)
    trace.target = parts.target() if isinstance(parts, Parts) else ""
    stages = (Stage.PROBLEM, Stage.RESPONSE, Stage.TARGET)
    fits = bool(trace.target) and not any(list(rejections(stage, trace, context)) for stage in stages)
    fits = fits and len(encode(trace.target).ids) + END_TOKEN <= context.config.max_target_tokens
    return {"tokens": tokens, "correct": bool(correct), "fits": fits}


def usual(rows: list[dict[str, Any]], config: PrepareConfig, tokenizer: Path, folder: Path) -> tuple[Timed, set[str]]:
    """Time the usual way, and return the ids of the rows that it keeps."""
    import datasets

    datasets.disable_progress_bars()
    arguments = {"settings": config.model_dump_json(), "tokenizer": tokenizer}
    with Timed() as timed:
        mapped = datasets.Dataset.from_list(rows).map(usual_row, fn_kwargs=arguments, num_proc=PROCESSES)
        kept = mapped.filter(lambda row: row["correct"] and row["fits"])
        kept.to_parquet(folder / "usual.parquet")
    return timed, set(kept["id"])


def ours(config: PrepareConfig, tokenizer: Path, folder: Path) -> tuple[Timed, dict[str, tuple[str, str]]]:
    """Time this project's preparation, and return the reason and detail of each rejected row."""
    import pyarrow.parquet as pq

    with Timed() as timed:
        prepared = prepare(config, folder, tokenizer_json=tokenizer)
    rejected = pq.read_table(prepared.rejected, columns=["id", "reason", "detail"]).to_pylist()
    return timed, {row["id"]: (row["reason"], row["detail"]) for row in rejected}


def speed(source: Path, limit: int | None) -> None:
    """Print the rows per second of both ways on one source, where they differ, and the gain of a second worker."""
    settings = {"source": str(source), "limit": limit, "plain_text": "split"}
    config = build_config({**settings, "workers": PROCESSES})
    traces = [t for t in read_source(config) if not t.reasons][:limit]
    rows = [
        {"id": t.id, "problem": t.problem, "gold": t.gold, "response": t.response, "data_source": t.data_source}
        for t in traces
    ]
    responses = [row["response"] for row in rows]
    print(f"{source.name}: {len(rows)} rows of {sum(map(len, responses)) / len(rows):,.0f} characters", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = train_tokenizer(responses[:2000], folder)
        alone, _ = ours(config.model_copy(update={"workers": 1}), tokenizer, folder / "alone")
        two, rejected = ours(config, tokenizer, folder / "ours")
        quarter = config.model_copy(update={"limit": max(1, len(rows) // 4)})
        started, _ = ours(quarter, tokenizer, folder / "started")
        started_alone, _ = ours(quarter.model_copy(update={"workers": 1}), tokenizer, folder / "started_alone")
        peer, kept = usual(rows, config, tokenizer, folder)
        tokens = _tokenizing(tokenizer, responses)
    print("                                         rows/s  rows per CPU second")
    for name, timed in (("usual way (datasets.map, num_proc=2)", peer), ("2 workers", two), ("1 worker", alone)):
        print(f"  {name:38} {len(rows) / timed.clock:7.0f} {len(rows) / timed.cpu:10.0f}")
    print(
        f"  2 workers beside the usual way: {peer.clock / two.clock:.1f}x by the clock, "
        f"{peer.cpu / two.cpu:.1f}x by CPU seconds"
    )
    rest = (alone.clock - started_alone.clock) / (two.clock - started.clock)
    print(
        f"  2 workers beside 1: {alone.clock / two.clock:.2f}x by the clock, {rest:.2f}x without the start; "
        f"2 processes that only count beside 1: {_second_processor():.2f}x"
    )
    print(f"  tokenizing alone, 1 process          {tokens[0]:8.0f} rows/s, row by row as usual {tokens[1]:.0f}")
    lost = {name: why for name, why in rejected.items() if why[0] not in ("too_many_per_problem", "near_duplicate")}
    differ = [row for row in rows if (row["id"] in kept) == (row["id"] in lost)]
    print(f"  decided differently: {len(differ)} rows {dict(Counter(lost.get(r['id'], ('kept',))[0] for r in differ))}")
    for rejected_by_us in (False, True):
        for row in [row for row in differ if (row["id"] in lost) is rejected_by_us][:PRINTED]:
            print(f"    {row['id']}: gold {row['gold'][:50]!r}: {': '.join(lost.get(row['id'], ('kept', '')))[:150]}")


def _second_processor() -> float:
    """How much more two processes that wait for nothing do on this machine than one."""
    with multiprocessing.Pool(2) as pool:
        pool.map(_count, [1, 1])
        seconds = []
        for processes in (1, 2, 1, 2):
            with Timed() as timed:
                pool.map(_count, [COUNTED] * processes, chunksize=1)
            seconds.append(timed.clock)
    return 2 * (seconds[0] + seconds[2]) / (seconds[1] + seconds[3])


def _count(times: int) -> None:
    for _ in range(times):
        pass


def _tokenizing(tokenizer: Path, texts: list[str]) -> tuple[float, float]:
    """Rows per second of `Lengths.count`, and of the tokenizer row by row, on the same sample."""
    lengths, sample = load_lengths(tokenizer), texts[:: max(1, len(texts) // 500)]
    with Timed() as fast:
        counts = lengths.count(sample)
    with Timed() as usual:
        assert counts == [len(lengths.tokenizer.encode(text).ids) for text in sample]
    return len(sample) / fast.clock, len(sample) / usual.clock


def repeated(source: Path, rows: int, path: Path) -> None:
    """The shortest `DISTINCT` rows of ``source``, repeated."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(source, columns=["problem", "gold_answer", "response", "upstream_correct"])
    shortest = pc.call_function("array_sort_indices", [pc.call_function("utf8_length", [table["response"]])])
    table = table.take(shortest.slice(0, DISTINCT)).combine_chunks()
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for start in range(0, rows, DISTINCT):
            writer.write_table(pa.table(table.slice(0, min(DISTINCT, rows - start))))


def memory(source: Path | None, sizes: list[int], folder: Path, more: list[str]) -> None:
    """Print peak memory, speed and CPU seconds of a preparation at each number of rows, each in a separate process.

    Args:
        source: its shortest rows are repeated. None: generated rows, all of them different.
        more: options of the preparation.
    """
    peaks = []
    with tempfile.TemporaryDirectory(dir=folder) as name:
        here = Path(name)
        tokenizer = TOKENIZER
        if source:
            texts = [trace.response or "" for trace in read_source(build_config({"source": str(source)}))]
            tokenizer = train_tokenizer(texts[:2000], here)
        for rows in sizes:
            file = here / ("rows.parquet" if source else f"{rows}.jsonl")
            if source:
                repeated(source, rows, file)
            else:
                write_generated(file, rows, 0)
            command = [sys.executable, "-m", "targets", "--source", str(file), "--tokenizer", str(tokenizer)]
            command += ["--out", str(here / f"out{rows}"), "--prepare-only", *more]
            began = time.perf_counter()
            process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            peak, main, all_processes = _watch(process)
            if process.returncode:
                sys.exit(f"error: {' '.join(command)} ended with status {process.returncode}")
            seconds = time.perf_counter() - began
            peaks.append(peak)
            print(
                f"{rows:>9,} rows, {' '.join(more)}: peak {peak / 2**20:,.0f} MiB, {rows / seconds:,.0f} rows/s, "
                f"{all_processes:,.0f} CPU s, the main process {main:,.1f} ({main / all_processes:.1%})",
                flush=True,
            )
    if len(sizes) > 1:
        growth = (peaks[-1] - peaks[0]) / (sizes[-1] - sizes[0])
        print(f"growth from {sizes[0]:,} to {sizes[-1]:,} rows: {growth:.1f} bytes per row")


def _watch(process: "psutil.Popen") -> tuple[int, float, float]:
    """The largest sum of proportional set sizes of a process and its descendants, in bytes, until it ends; the CPU
    seconds of the process alone, and of all of them."""
    peak, main, others = 0, 0.0, dict[psutil.Process, float]()
    while process.poll() is None:
        size = 0
        with suppress(psutil.Error):
            main = sum(process.cpu_times()[:2])
            for member in (process, *process.children(recursive=True)):
                size += member.memory_full_info().pss
                if member != process:
                    others[member] = sum(member.cpu_times()[:2])
        peak = max(peak, size)
        time.sleep(SAMPLE_EVERY_S)
    return peak, main, main + sum(others.values())


def main() -> None:
    parser = parser_of("targets", __doc__)
    parser.add_argument(
        "what",
        nargs="?",
        choices=("speed", "memory", "duplicates", "changes", "embedding", "benchmark-search", "other-tools"),
        default="speed",
    )
    parser.add_argument("--source", type=Path, nargs="+", default=[], help="files of real traces")
    parser.add_argument("--rows", type=int, nargs="+", help="speed: at most so many rows; else: the sizes")
    parser.add_argument("--workers", type=int, default=PROCESSES, help="processes of memory")
    parser.add_argument("--engine", default="local", help="engine of memory")
    parser.add_argument("--embedding", help="embedding: model and url as YAML, such as '{model: NAME, url: URL}'")
    parser.add_argument("--benchmarks", type=Path, help="benchmark-search: file or folder of benchmark problems")
    parser.add_argument("--column", default="problem", help="benchmark-search: column of the problems")
    parser.add_argument("--datatrove", type=Path, help="other-tools: a Python that has datatrove")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where memory writes")
    options = parser.parse_args()
    first = next(iter(options.source), None)
    match options.what:
        case "duplicates":
            duplicates(options.rows or [1000, 10_000, 100_000])
        case "changes":
            changed_inputs((options.rows or [100_000])[0])
        case "embedding" if options.embedding:
            given = parse_yaml(options.embedding, "--embedding")
            limits = {"semantic_duplicate": 100, **given} if isinstance(given, dict) else given
            settings = build_config({"embedding": limits})
            assert settings.embedding is not None
            measure_embedding(settings.embedding)
        case "embedding":
            parser.error("embedding needs --embedding '{model: NAME, url: URL}'")
        case "benchmark-search":
            measure_benchmark_search(options.source, options.benchmarks, options.column)
        case "other-tools":
            other_tools(first, (options.rows or [2000])[0], options.datatrove)
        case "memory":
            more = ["--workers", str(options.workers), "--engine", options.engine]
            memory(first, options.rows or [100_000, 1_000_000], options.folder, more)
        case _ if first is None:
            parser.error("the following arguments are required: --source")
        case _:
            for source in options.source:
                if not source.is_file():
                    sys.exit(f"error: {source}: no such file; give --source a file with traces")
            for source in options.source:
                speed(source, options.rows[0] if options.rows else None)


if __name__ == "__main__":
    sys.exit(exit_status(main))
