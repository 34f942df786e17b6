"""Measure the evaluation: verdicts on real answers, and speed compared with the usual way.

    .venv-train/bin/python -m perf.evaluation [--data FOLDER] [--only verdicts grading hostile generation]

verdicts    gold answers against themselves and against another file's spelling of them; stored samples against the
            verdicts that came with them, with every disagreement; two models' MMLU-Pro outputs by our extractor
grading     samples per second of Grader (2 workers) and of math-verify on whole texts, one after the other
hostile     1,000 answers designed to stall a comparison: none may take longer than the limit
generation  our engine loop and vllm.LLM.generate on the same prompts and settings; a rerun with everything cached

``verdicts`` and ``grading`` need ``--data``: a folder with the files of the suite ``paper`` and, in ``traces`` and
``models_compare``, stored samples with verdicts. Each figure is printed with its target. The exit status is 1 if a
target is not met.
"""

import argparse
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from core import PROJECT
from core.files import write_table
from evaluation.benchmarks.benchmark_problems import read_benchmark, read_suite
from evaluation.benchmarks.suite import load_suite
from grading.answers.choices import extract_choice, same_choice
from grading.grader import Grader
from grading.verdict import Grade
from perf.measurement import Timed

MODEL = PROJECT / "training" / "embedded_model" / "model"
MATH = ("aime24", "aime25", "amc", "math500", "minerva", "olympiadbench")
GRACE_S = 0.5  # from the limit to the reply: the worker's own grace, and a new fork
HOSTILE = 1000


def figure(name: str, value: str, target: str, met: bool) -> bool:
    """Print one line; returns ``met``."""
    print(f"{name:58} {value:>22}  {target:12} {'met' if met else 'NOT MET'}", flush=True)
    return met


def verdicts(data: Path) -> Iterator[bool]:
    """Check that gold answers are graded as right, and that our verdicts equal the stored ones."""
    paper = {benchmark.name: benchmark for benchmark in load_suite("paper")}
    with Grader(workers=2, limit_s=20.0) as grader:
        for name in MATH:
            yield gold_against_itself(name, paper[name], grader, data)
        for file in sorted((data / "traces").glob("*.parquet")):
            yield upstream(file, grader)
    for file in sorted((data / "models_compare").glob("*.parquet")):
        rows = pq.read_table(file, columns=["answer", "pred", "generated_text"]).to_pylist()
        theirs = sum(row["pred"] == row["answer"] for row in rows) / len(rows)
        ours = sum(same_choice(extract_choice(row["generated_text"]) or "", row["answer"]) for row in rows) / len(rows)
        value = f"{ours:.2%} and {theirs:.2%}"
        yield figure(
            f"{file.stem.removeprefix('mmlu_pro_')}, ours and stored", value, "<= 1 point", abs(ours - theirs) <= 0.01
        )


def gold_against_itself(name: str, benchmark: Any, grader: Grader, data: Path) -> bool:
    """Grade each gold answer of both files as a boxed response, and against the other file's gold answer."""
    tables = [
        read_benchmark(benchmark.model_copy(update={"sources": (source,)}), [data]).to_pylist()
        for source in benchmark.sources
    ]
    golds = [row["gold"] for rows in tables for row in rows]
    wrong = [gold for gold in golds if not grader.grade(f"<think>\n</think>\n\n\\boxed{{{gold}}}", gold).score]
    unread = [gold for gold in dict.fromkeys(golds) if not grader.parses(gold)]
    others = {"".join(row["problem"].split()): row["gold"] for row in tables[-1]}
    pairs = [(row["gold"], others[key]) for row in tables[0] if (key := "".join(row["problem"].split())) in others]
    differ = [(a, b) for a, b in pairs if grader.verify(a, b) != "correct" and grader.verify(b, a) != "correct"]
    met = figure(f"{name}, gold against itself", f"{len(golds) - len(wrong)} of {len(golds)}", "100%", not wrong)
    for gold in wrong:
        print(f"    not right: {gold}")
    print(f"    {len(unread)} golds that only equal text can match")
    if len(tables) > 1:
        print(f"    {len(pairs)} problems are in both files, {len(differ)} of them with golds that are not the same")
    for gold in unread:
        print(f"      text only: {gold}")
    for pair in differ:
        print("      differ: {!r} and {!r}".format(*pair))
    return met


def upstream(file: Path, grader: Grader) -> bool:
    """Print each sample of ``file`` whose verdict differs from the one that it came with."""
    rows = pq.read_table(file).to_pylist()
    grades = grader.grade_many(((row["response"], row["gold_answer"]) for row in rows), thinking=False)
    differ = [
        (row, grade) for row, grade in zip(rows, grades, strict=True) if bool(grade.score) != row["upstream_correct"]
    ]
    for row, grade in differ:
        theirs = "right" if row["upstream_correct"] else "wrong"
        answers = f"gold {row['gold_answer']!r}, ours {grade.extracted!r}, upstream {row['upstream_pred']!r} {theirs}"
        print(f"    {row['trace_id']}: {answers}; {grade.verdict} ({grade.reason})")
    value = f"{len(rows) - len(differ)} of {len(rows)}"
    return figure(f"{file.stem}, upstream verdicts", value, ">= 80%", len(differ) <= 0.2 * len(rows))


def grading(data: Path, rows: int | None) -> Iterator[bool]:
    """Samples per second on long real traces, and CPU seconds, which depend less on how busy the machine is."""
    from math_verify import parse, verify

    files = sorted((data / "traces").glob("*.parquet"))
    table = [row for file in files for row in pq.read_table(file, columns=["response", "gold_answer"]).to_pylist()]
    sample = random.Random(0).sample(table, rows or len(table))
    with Timed() as start:
        graded([])
    with Timed() as ours:
        seconds, grades = graded([(row["response"], row["gold_answer"]) for row in sample])
    with Timed() as usual:
        theirs = [bool(verify(parse(f"\\boxed{{{row['gold_answer']}}}"), parse(row["response"]))) for row in sample]
    same = sum(bool(grade.score) == right for grade, right in zip(grades, theirs, strict=True))
    speeds = f"ours {len(sample) / seconds:.0f}/s, math-verify on whole texts {len(sample) / usual.clock:.0f}/s"
    print(f"    {len(sample)} long traces: {speeds}")
    print(f"    CPU seconds: ours {ours.cpu - start.cpu:.1f}, theirs {usual.cpu:.1f}; {same} same verdicts")
    ratio = usual.clock / seconds
    yield figure("grading, 2 workers, against sequential whole texts", f"{ratio:.1f}x", ">= 5x", ratio >= 5)


def graded(items: list[tuple[str, str]]) -> tuple[float, list[Grade]]:
    """Seconds and grades of ``items`` by two workers that have started."""
    with Grader(workers=2) as grader:
        warm = [("\\boxed{\\sqrt{2}}", f"\\sqrt{{{number}}}") for number in range(50, 70)]
        grader.grade_many(warm, thinking=False)
        began = time.perf_counter()
        grades = grader.grade_many(items, thinking=False)
        return time.perf_counter() - began, grades


def hostile_answers(count: int) -> list[str]:
    """Different answers, each of which takes a naive comparison its whole time limit."""
    kinds: list[Callable[[int], str]] = [
        lambda i: f"{i + 2}^{{9^{{9^{{9}}}}}}",
        lambda i: f"{10**8 + i}!",
        lambda i: f"(1+x)^{{{50_000 + i}}}",
        lambda i: "(" * (30 + i % 300) + "x" + ")" * (30 + i % 300),
        lambda i: "+".join(f"x^{{{j + i}}}" for j in range(120)),
        lambda i: "\\sqrt{" * 38 + f"x+{i}" + "}" * 38,
        lambda i: "9" * (250 + i % 100) + f"^{{{i}}}",
        lambda i: f"\\int_0^1 e^{{-x^{{{i}}}}}\\sin(x^{{7}})\\,dx",
        lambda i: f"\\sum_{{k=1}}^{{{10**6 + i}}} \\frac{{1}}{{k^k}}",
        lambda i: f"\\boxed{{\\frac{{{i}}}{{" * 20,
        lambda i: f"\\{{{','.join(str(j * i) for j in range(120))}\\}}",
        lambda i: f"{i}\u202e\x00\ud7ff",
    ]
    return [kind(i) for i in range(count) for kind in kinds][:count]


def hostile(limit_s: float) -> Iterator[bool]:
    """Measure the slowest of 1,000 hostile answers in one grader with two workers."""

    def timed(answer: str) -> tuple[float, Grade]:
        began = time.perf_counter()
        grade = grader.grade(f"</think>\\boxed{{{answer}}}", "\\frac{1}{2}")
        return time.perf_counter() - began, grade

    with Grader(workers=2, limit_s=limit_s) as grader, ThreadPoolExecutor(2) as threads:
        grader.grade_many([("\\boxed{\\sqrt{2}}", f"\\sqrt{{{n}}}") for n in range(50, 60)], thinking=False)
        began = time.perf_counter()
        seconds, grades = zip(*threads.map(timed, hostile_answers(HOSTILE)), strict=True)
        total = time.perf_counter() - began
        alive = grader.verify("\\sqrt{4}", "2") == "correct"
    counts = Counter(str(grade.verdict) for grade in grades)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    print(f"    {counts.total()} hostile answers in {total:.0f} s: {listed}")
    slowest, grade = max(zip(seconds, grades, strict=True), key=lambda pair: pair[0])
    print(f"    the slowest: {str(grade.extracted)[:60]!r}, {grade.reason}")
    met = slowest <= limit_s + GRACE_S and alive and counts["correct"] == 0 and counts.total() == HOSTILE
    yield figure(f"slowest hostile answer, limit {limit_s:g} s", f"{slowest:.2f} s", f"<= {limit_s + GRACE_S:g} s", met)


def generation(problems: int, samples: int, repeat: int) -> Iterator[bool]:
    """Time our engine loop and LLM.generate in turn on the same engine, then a rerun of the command from its cache."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(read_suite(load_suite("embedded"), [], limit=problems), folder / "suite.parquet")
        ours, bare, tokens = engine_seconds(folder / "suite.parquet", samples, repeat)
        ratio = bare / ours
        speeds = f"ours {tokens / ours:,.0f}/s, vllm.LLM.generate {tokens / bare:,.0f}/s"
        print(f"    {tokens:,} tokens: {speeds}, medians of {repeat}")
        yield figure("generation against vllm.LLM.generate", f"{ratio:.2f}x", ">= 0.95x", ratio >= 0.95)
        arguments = ["--model", MODEL, "--suite", folder / "suite.parquet", "--cache", folder / "cache"]
        arguments += ["--samples", samples, "--max-tokens", 192, "--out", folder / "out"]
        command = [sys.executable, "-m", "evaluation", "generate", *map(str, arguments)]
        seconds = []
        for _ in range(2):
            began = time.perf_counter()
            subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - began)
        print(f"    the command: {seconds[0]:.1f} s, then from its cache {seconds[1]:.1f} s")
        yield figure("rerun with everything cached", f"{seconds[1]:.1f} s", "< 15 s", seconds[1] < 15)


def engine_seconds(suite: Path, samples: int, repeat: int) -> tuple[float, float, int]:
    """Median seconds of our loop and of LLM.generate for the same requests, and the tokens that each generates."""
    from transformers import AutoTokenizer

    from evaluation.generation.engine import Engine, EngineOptions, EngineRequest, prepare_environment
    from evaluation.generation.model_source import LocalModel
    from evaluation.generation.requests import Sampling, sample_requests
    from evaluation.sample_tables import read_suite_file

    prepare_environment()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    table = read_suite_file(suite)
    names = table["benchmark"].unique().to_pylist()
    sampling = Sampling(samples=samples, max_tokens=192)
    samples_to_draw = sample_requests(table, names, sampling, LocalModel(MODEL, template="tokenizer").render)
    requests = [
        EngineRequest(number, tuple(tokenizer.encode(request.prompt, add_special_tokens=False)), request.seed)
        for number, request in enumerate(samples_to_draw)
    ]
    longest = max(len(request.tokens) for request in requests)
    engine = Engine(EngineOptions(str(MODEL), longest, 192, sampling.temperature, sampling.top_p, False))

    from vllm import SamplingParams, TokensPrompt

    parameters = [
        SamplingParams(temperature=sampling.temperature, top_p=sampling.top_p, max_tokens=192, seed=request.seed)
        for request in requests
    ]
    prompts = [TokensPrompt(prompt_token_ids=list(request.tokens)) for request in requests]

    def ours() -> dict[int, str]:
        return {
            number: completion.response for number, completion in engine.complete([[request] for request in requests])
        }

    def bare() -> dict[int, str]:
        outputs = engine.llm.generate(prompts, parameters, use_tqdm=False)
        return {number: output.outputs[0].text for number, output in enumerate(outputs)}

    texts = ours()
    if texts != bare():
        raise SystemExit("error: our loop and LLM.generate drew different samples from the same seeds")
    times: dict[Callable[[], dict[int, str]], list[float]] = {ours: [], bare: []}
    for way in itertools.chain.from_iterable([(ours, bare), (bare, ours)][turn % 2] for turn in range(repeat)):
        engine.llm.reset_prefix_cache()
        began = time.perf_counter()
        way()
        times[way].append(time.perf_counter() - began)
    tokens = sum(len(tokenizer.encode(text, add_special_tokens=False)) for text in texts.values())
    return statistics.median(times[ours]), statistics.median(times[bare]), tokens


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf.evaluation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = ("verdicts", "grading", "hostile", "generation")
    parser.add_argument("--only", nargs="*", choices=parts, default=parts)
    parser.add_argument("--data", type=Path, help="the folder of benchmarks and stored samples")
    parser.add_argument("--rows", type=int, help="number of long traces that are graded both ways (default all)")
    parser.add_argument("--limit-s", type=float, default=0.25, help="seconds per hostile answer (default 0.25)")
    parser.add_argument("--problems", type=int, default=100, help="per benchmark, for generation (default 100)")
    parser.add_argument("--samples", type=int, default=4, help="per problem, for generation (default 4)")
    parser.add_argument("--repeat", type=int, default=7, help="timings of each way to generate (default 7)")
    options = parser.parse_args()
    if set(options.only) & {"verdicts", "grading"} and not (options.data and options.data.is_dir()):
        sys.exit("error: verdicts and grading need --data, a folder with benchmarks and stored samples")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    runs = {
        "verdicts": lambda: verdicts(options.data),
        "grading": lambda: grading(options.data, options.rows),
        "hostile": lambda: hostile(options.limit_s),
        "generation": lambda: generation(options.problems, options.samples, options.repeat),
    }
    met = [figure_met for part in options.only for figure_met in runs[part]()]  # all of them, also after a failure
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
