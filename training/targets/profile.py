"""The flat description of targets that quality checks look at, measured on the finished rows.

Nothing is copied from the filters that let a row through: the target as written is taken apart again, so that a fault
between filter and file shows.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluation.contamination import BenchmarkIndex
from evaluation.grading import Grader, answer_part, extract_boxed
from training.targets.dedupe import problem_digest
from training.targets.filters import compression_ratio
from training.targets.judge import END_TOKEN
from training.targets.tokens import Lengths
from training.targets.verify import gold_parses

THINK = re.compile(r"<think>\n.*\S.*\n</think>\n\n\S", re.DOTALL)


def profile_rows(
    rows: Sequence[Mapping[str, Any]], lengths: Lengths, grader: Grader, benchmarks: BenchmarkIndex | None
) -> Iterator[dict[str, Any]]:
    """A PROFILE row for each row with id, problem, gold, prompt, target, and the ``answer`` that was verified.

    ``benchmarks``: None leaves ``benchmark_overlap`` null: not looked for.
    """
    tokens = lengths.count([row["target"] for row in rows]) if rows else []
    prompts = lengths.count([lengths.prompt_text(row["prompt"]) for row in rows]) if rows else []
    parses = gold_parses((row["gold"] for row in rows), grader)
    for row, target_tokens, prompt_tokens in zip(rows, tokens, prompts, strict=True):
        target = row["target"]
        boxed = extract_boxed(answer_part(target, thinking=True) or "")
        once = target.count("<think>") == target.count("</think>") == 1
        yield {
            "id": row["id"],
            "problem_digest": problem_digest(row["problem"]),
            "prompt_tokens": prompt_tokens,
            "target_tokens": target_tokens + END_TOKEN,
            "verified": boxed is not None and boxed == row["answer"],
            "gold_parses": parses[row["gold"]],
            "has_think": once and THINK.match(target) is not None,
            "has_answer": boxed is not None,
            "compression_ratio": compression_ratio(target),
            "benchmark_overlap": None if benchmarks is None else benchmarks.match(row["problem"]) is not None,
        }
