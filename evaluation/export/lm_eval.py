"""Write a suite as tasks of lm-evaluation-harness, with this project's prompts and grader.

The folder can be moved. ``lm_eval --include_path FOLDER --tasks luffy`` runs all tasks, and ``luffy_<benchmark>`` one
of them; the project's grader has to be importable there (see ``lm_eval_grader.py``).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from core.errors import InputError
from core.files import write_text
from core.model.prompts import PromptRecord
from evaluation.benchmarks.suite import Benchmark, suite_entries
from evaluation.generation.requests import Sampling
from evaluation.sample_tables import recorded
from grading.graded_table import problems_of

GROUP, FILTER, METRIC = "luffy", "all", "accuracy"
AVERAGE = {"metric": METRIC, "aggregation": "mean", "weight_by_size": False, "filter_list": [FILTER]}
GRADER = Path(__file__).with_name("lm_eval_grader.py")


class Function(str):
    """The name of a function of the grader's module, for YAML's ``!function``."""


def write_tasks(
    suite: pa.Table, out: Path, *, sampled: Mapping[str, pa.Table] | None = None, thinking: bool | None = None
) -> list[str]:
    """Write a task per benchmark, the group of them and the grader into folder ``out``; returns the tasks' names.

    Args:
        suite: BENCHMARK table.
        out: the folder; files of the same names are replaced.
        sampled: SAMPLE or GRADED tables by benchmark. Tasks of these ask with their rendered prompts and their
            sampling. Without them, and for samples of an endpoint, tasks ask with the messages of the suite, which a
            chat template renders.
        thinking: an answer counts only after ``</think>``; by default as the samples' prompt template says.

    Raises InputError for samples that are not of the suite.
    """
    for table in (sampled or {}).values():
        problems_of(table, suite)
    tasks = {}
    for benchmark in suite_entries(suite):
        if sampled is None:
            task = _Task(benchmark, Sampling(), True if thinking is None else thinking, {})
        elif benchmark.name in sampled:
            task = _Task.of_samples(benchmark, sampled[benchmark.name], thinking)
        else:
            continue
        rows = [row for row in suite.to_pylist() if row["benchmark"] == benchmark.name]
        tasks[benchmark.name] = task, [task.document(row) for row in rows]
    for task, documents in tasks.values():
        lines = (json.dumps(document, ensure_ascii=False) + "\n" for document in documents)
        write_text("".join(lines), out / f"{task.benchmark.name}.jsonl")
        write_text(_yaml(task.entry()), out / f"{task.name}.yaml")
    names = [task.name for task, _ in tasks.values()]
    write_text(GRADER.read_text(encoding="utf-8"), out / GRADER.name)
    write_text(_yaml({"group": GROUP, "task": names, "aggregate_metric_list": [AVERAGE]}), out / f"{GROUP}.yaml")
    return names


@dataclass(frozen=True)
class _Task:
    """One benchmark. ``prompts``: rendered ones by the problem's id; empty for the messages of the suite."""

    benchmark: Benchmark
    sampling: Sampling
    thinking: bool
    prompts: Mapping[str, str]

    @classmethod
    def of_samples(cls, benchmark: Benchmark, samples: pa.Table, thinking: bool | None) -> "_Task":
        sampling = json.loads(recorded(samples, "sampling") or "{}")
        sampling = {name: value for name, value in sampling.items() if name in Sampling.__dataclass_fields__}
        count, prompt = max(samples["sample"].to_pylist()) + 1, PromptRecord.of(samples)
        prompts = (
            {}
            if prompt.is_messages
            else dict(zip(*(samples[key].to_pylist() for key in ("id", "prompt")), strict=True))
        )
        return cls(
            benchmark,
            Sampling(**{**sampling, "samples": count}),
            prompt.thinking if thinking is None else thinking,
            prompts,
        )

    @property
    def name(self) -> str:
        return f"{GROUP}_{self.benchmark.name}"

    def document(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Write one problem as a line of the task's data."""
        if self.prompts and row["id"] not in self.prompts:
            raise InputError(
                f"samples of {self.benchmark.name}: none of problem {row['id']} of the suite: give the suite that they "
                "were generated with"
            )
        contents = {message["role"]: message["content"] for message in row["prompt"]}
        return {
            "id": row["id"],
            "system": "" if self.prompts else contents.get("system", ""),
            "text": self.prompts.get(row["id"]) or contents["user"],
            "problem": row["problem"],
            "gold": row["gold"],
            "alternatives": row["alternatives"] or [],
            "verifier": row["verifier"],
            "benchmark": row["benchmark"],
            "fields": row["fields"] or "{}",
            "thinking": self.thinking,
        }

    def entry(self) -> dict[str, Any]:
        """Describe the task as lm-evaluation-harness reads it."""
        count, sampling = self.sampling.samples or self.benchmark.samples, self.sampling
        greedy = {"do_sample": False}
        drawn = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p}
        return {
            "task": self.name,
            "task_alias": self.benchmark.title,
            "custom_dataset": Function(f"{GRADER.stem}.load"),  # a relative dataset_path depends on where one stands
            "dataset_kwargs": {"file": f"{self.benchmark.name}.jsonl"},
            "test_split": "test",
            "output_type": "generate_until",
            "description": "{{system}}",
            "doc_to_text": "text",
            "doc_to_target": "gold",
            "process_results": Function(f"{GRADER.stem}.grade"),
            "generation_kwargs": {
                "until": [],
                "max_gen_toks": sampling.max_tokens,
                **(drawn if sampling.temperature else greedy),
            },
            "repeats": count,
            "filter_list": [{"name": FILTER, "filter": [{"function": "take_first_k", "k": count}]}],
            "metric_list": [{"metric": METRIC, "aggregation": "mean", "higher_is_better": True}],
            "num_fewshot": 0,
            "metadata": {"version": 1.0},
        }


def _yaml(value: Mapping[str, Any]) -> str:
    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(Function, lambda dumper, name: dumper.represent_scalar("!function", name))
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True)
