"""Compare grading and duplicates with what a user would take instead; ``python -m perf.targets other-tools``.

Every way gets the same rows and two processes. Ray Data and ``datasets`` call math-verify on each row, as a preparation
script usually does. datatrove removes duplicates of the problems by MinHash with its defaults, in an interpreter that
the user names. The CPU seconds are those of all processes of a way, without loading packages where they stay loaded.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from core.machine.loopback import single_node_environment
from core.machine.temporary_folder import shorten_temporary_folder
from core.plugins.user_code import python_path
from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Item
from perf.changed_inputs import write_generated
from perf.measurement import Timed
from perf.near_duplicates import merged
from targets.config import build_config
from targets.read.response_format import Parts, parse_response
from targets.read.sources import read_source

PROCESSES = 2
# The four steps of datatrove's MinHash, on two processes; argv: the file of problems, a folder, the processes.
DATATROVE = """
import sys, time
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers.jsonl import JsonlWriter
from datatrove.utils.logging import logger
source, folder, processes = sys.argv[1], sys.argv[2], int(sys.argv[3])
logger.remove()
config = MinhashConfig()
def run(name, tasks, *steps):
    LocalPipelineExecutor(list(steps), tasks=tasks, workers=processes, logging_dir=f"{folder}/logs/{name}").run()
def read():
    return JsonlReader(source, glob_pattern="*.jsonl", text_key="problem")
began = time.perf_counter()
run("signatures", processes, read(), MinhashDedupSignature(f"{folder}/signatures", config))
run("buckets", config.num_buckets, MinhashDedupBuckets(f"{folder}/signatures", f"{folder}/buckets", config=config))
run("cluster", 1, MinhashDedupCluster(f"{folder}/buckets", f"{folder}/removed", config=config))
writer = JsonlWriter(f"{folder}/kept", compression=None)
run("filter", processes, read(), MinhashDedupFilter(f"{folder}/removed"), writer)
print(time.perf_counter() - began)
"""


def other_tools(source: Path | None, rows: int, datatrove: Path | None) -> None:
    """Print the seconds of each way, and how many times faster this project is.

    Args:
        source: real traces. None: generated ones.
        rows: most traces.
        datatrove: a Python that has datatrove. None: it is left out.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if source is None:
            write_generated(folder / "rows.jsonl", rows, 0)
            source = folder / "rows.jsonl"
        traces = _traces(source, rows)
        characters = sum(len(trace["response"]) for trace in traces) / len(traces)
        print(
            f"{source.name}: {len(traces):,} traces of {characters:,.0f} characters, {PROCESSES} processes", flush=True
        )
        _grading(traces)
        _duplicates(traces, folder, datatrove)


def _traces(source: Path, rows: int) -> list[dict[str, str]]:
    """Readable traces whose response has thoughts and an answer."""
    chosen: list[dict[str, str]] = []
    for trace in read_source(build_config({"source": str(source)})):
        parts = parse_response(trace.response or "", split_plain=True)
        if not trace.reasons and isinstance(parts, Parts):
            chosen.append({"problem": str(trace.problem), "gold": str(trace.gold), "response": parts.target()})
        if len(chosen) == rows:
            break
    if not chosen:
        sys.exit(f"error: {source}: no traces with thoughts and an answer")
    return chosen


def _grading(traces: list[dict[str, str]]) -> None:
    with open_verifier(parse_spec("math", "math"), workers=PROCESSES) as verifier:
        started = [Item(f"<think>\nx\n</think>\n\n\\boxed{{(x+{n})^2}}", f"x^2+{2 * n}x+{n * n}") for n in range(1, 9)]
        assert all(grade.solved for grade in verifier.verify_many(started))  # the processes that compare have sympy
        items = [Item(trace["response"], trace["gold"]) for trace in traces]
        with Timed() as ours:
            solved = [grade.solved for grade in verifier.verify_many(items)]
    _print("grading: this project", ours, ours)
    for name, way in (("datasets.map with math-verify", _by_datasets), ("Ray Data with math-verify", _by_ray)):
        try:
            theirs, verdicts = way(traces)
        except ImportError as error:
            print(f"  {name}: left out ({error}); run this in the training interpreter")
            continue
        _print(name, theirs, ours)
        same = sum(a == b for a, b in zip(verdicts, solved, strict=True))
        print(
            f"    {same:,} of {len(traces):,} verdicts are the same; correct: {sum(verdicts):,}, "
            f"this project {sum(solved):,}"
        )


def verdict(row: dict[str, Any]) -> dict[str, bool]:
    """Grade a row as a preparation script usually does."""
    from math_verify import parse, verify

    return {"correct": bool(verify(parse(f"\\boxed{{{row['gold']}}}"), parse(row["response"])))}


def _by_datasets(traces: list[dict[str, str]]) -> tuple[Timed, list[bool]]:
    import datasets

    datasets.disable_progress_bars()
    verdict(traces[0])  # imports math-verify, which the processes inherit
    table = datasets.Dataset.from_list(traces)
    with Timed() as timed:
        verdicts = table.map(verdict, num_proc=PROCESSES)["correct"][:]
    return timed, verdicts


def _by_ray(traces: list[dict[str, str]]) -> tuple[Timed, list[bool]]:
    import ray
    import ray.data

    os.environ.update(single_node_environment())
    shorten_temporary_folder()
    ray.init(
        num_cpus=PROCESSES,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": {"PYTHONPATH": python_path()}},
    )
    try:
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)

        def grade(rows: list[dict[str, str]]) -> list[bool]:
            blocks = ray.data.from_items(rows, override_num_blocks=min(len(rows), 8 * PROCESSES))
            return [row["correct"] for row in blocks.map(verdict).take_all()]

        grade(traces[: 8 * PROCESSES])  # starts the workers, which import math-verify
        with Timed() as timed:
            verdicts = grade(traces)
        return timed, verdicts
    finally:
        ray.shutdown()


def _duplicates(traces: list[dict[str, str]], folder: Path, datatrove: Path | None) -> None:
    problems, golds = ([trace[name] for trace in traces] for name in ("problem", "gold"))
    with Timed() as ours:
        repeated = merged(problems, golds)
    _print("duplicates: this project, 1 process", ours, ours)
    print(f"    {len(repeated):,} of {len(problems):,} problems repeat another")
    if datatrove is None:
        print("  datatrove: left out; name a Python that has it with --datatrove")
        return
    (folder / "problems").mkdir()
    lines = (json.dumps({"id": str(number), "problem": text}) + "\n" for number, text in enumerate(problems))
    (folder / "problems" / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    command = [str(datatrove), "-c", DATATROVE, str(folder / "problems"), str(folder / "out"), str(PROCESSES)]
    with Timed() as theirs:
        seconds = float(_output(command))
    kept = sum(len(file.read_text("utf-8").splitlines()) for file in (folder / "out" / "kept").glob("*.jsonl"))
    _print("datatrove MinHash, with its start", theirs, ours)
    print(f"    {len(problems) - kept:,} repeat another; {seconds:.1f} s without the start")


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: {command[0]}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return done.stdout


def _print(name: str, way: Timed, ours: Timed) -> None:
    ratio = f"{way.clock / ours.clock:8.1f}x by the clock, {way.cpu / ours.cpu:6.1f}x by CPU" if way is not ours else ""
    print(f"  {name:38}{way.clock:8.2f} s {way.cpu:8.2f} CPU s{ratio}", flush=True)
