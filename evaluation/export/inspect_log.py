"""Write graded samples as logs of Inspect (https://inspect.aisi.org.uk), which ``inspect view`` opens.

A log is a zip file: ``header.json`` says what was evaluated and how it scored, ``samples/`` holds one JSON file per
sample, and ``summaries.json`` what lists of samples show. The format is written here, because Inspect itself brings
more packages than the rest of an evaluation; the tests of ``make test-interop`` read the logs with the real Inspect.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pyarrow as pa

from core.code_digest import SHORT_DIGEST, identity
from core.files import atomic_write, digest_table
from core.model.prompts import PromptRecord
from evaluation.benchmarks.suite import Benchmark, suite_entries
from evaluation.sample_tables import model_name, problem_digests, require_suite
from evaluation.statistics.benchmark_scores import Summary, problem_scores, summarize

VERSION = 2  # version of the format
STOP_REASONS = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}  # ours -> Inspect's
ROWS = 256  # number of rows that are texts at the same time


def write_logs(
    results: Mapping[str, pa.Table], suite: pa.Table, out: Path, *, graded: datetime, tags: Sequence[str] = ()
) -> list[Path]:
    """Write one log per benchmark below ``out``; equal results at the same time give the same files.

    Args:
        results: GRADED tables of one model, by benchmark.
        suite: the BENCHMARK table that they were made with.
        out: folder of the logs.
        graded: when the results were made.
        tags: Tags of every log, such as the role of the model.

    Raises InputError for results that are not of the suite.
    """
    require_suite(results, suite, "results")
    benchmarks = {benchmark.name: benchmark for benchmark in suite_entries(suite)}
    digests = problem_digests(suite)
    problems: dict[str, dict[str, str]] = defaultdict(dict)
    for row in suite.select(["benchmark", "id", "problem"]).to_pylist():
        problems[row["benchmark"]][row["id"]] = row["problem"]
    logs = []
    for name, table in results.items():
        logs.append(_Log(benchmarks[name], table, problems[name], digests[name], graded, tuple(tags)))
    return [log.write(out) for log in logs]


@dataclass(frozen=True)
class _Log:
    """The log of one model on one benchmark."""

    benchmark: Benchmark
    table: pa.Table
    problems: Mapping[str, str]  # texts by id
    problems_digest: str
    graded: datetime
    tags: tuple[str, ...]

    @cached_property
    def recorded(self) -> dict[str, str]:
        """The metadata of the table."""
        return {key.decode(): value.decode() for key, value in (self.table.schema.metadata or {}).items()}

    @cached_property
    def prompt(self) -> PromptRecord:
        return PromptRecord.of(self.table)

    @cached_property
    def checkpoint(self) -> str:
        return self.recorded.get("checkpoint", "unknown")

    @cached_property
    def model(self) -> str:
        """The end of the model's path, or the name of an endpoint's model."""
        return model_name(self.recorded.get("model", self.checkpoint))

    @cached_property
    def id(self) -> str:
        return identity(self.benchmark.name, self.checkpoint, digest_table(self.table))[:22]

    @cached_property
    def usage(self) -> dict[str, dict[str, int]]:
        return {self.model: _usage(sum(self.table["tokens"].to_pylist()))}

    def write(self, out: Path) -> Path:
        """Write the log, complete or not at all; Inspect reads the task from the name of the file."""
        moment = self.graded.astimezone(UTC)
        path = out / f"{moment:%Y-%m-%dT%H-%M-%S}+00-00_{self.benchmark.name.replace('_', '-')}_{self.id}.eval"
        summary = summarize(self.table)
        header = self._header(summary)
        with atomic_write(path) as temporary, ZipFile(temporary, "w") as file:

            def add(name: str, value: Any) -> None:
                entry = ZipInfo(name, moment.timetuple()[:6])
                file.writestr(entry, json.dumps(value, ensure_ascii=False).encode(), ZIP_DEFLATED)

            add("_journal/start.json", {key: header[key] for key in ("version", "eval", "plan")})
            summaries = []
            for sample in self._samples():
                add(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
                summaries.append({**sample, "completed": True, "message_count": len(sample["messages"])})
                for key in ("messages", "output"):
                    del summaries[-1][key]
            add("summaries.json", summaries)
            add("reductions.json", [self._reductions()])
            add("header.json", header)
        return path

    def _header(self, summary: Summary) -> dict[str, Any]:
        sampling, grading = (json.loads(self.recorded.get(key, "{}")) for key in ("sampling", "grading"))
        moment, prompt = self.graded.isoformat(), self.prompt
        names = ("temperature", "top_p", "max_tokens", "seed")
        generation = {name: sampling[name] for name in names if name in sampling}
        metadata = {
            "checkpoint": self.checkpoint,
            "problems_digest": self.problems_digest,
            "sampling": sampling,
            "grading": grading,
            "prompt_template": prompt.name,
            "prompt_frame": prompt.frame,
        }
        return {
            "version": VERSION,
            "status": "success",
            "eval": {
                "eval_id": self.id,
                "run_id": identity(self.checkpoint, sampling)[:22],
                "created": moment,
                "task": self.benchmark.name,
                "task_id": self.id,
                "task_version": self.problems_digest[:SHORT_DIGEST],
                "task_display_name": self.benchmark.title,
                "tags": [*self.tags, self.benchmark.group],
                "dataset": {
                    "name": self.benchmark.name,
                    "samples": summary.problems,
                    "sample_ids": sorted(self.problems.keys() & set(self.table["id"].to_pylist())),
                    "shuffled": False,
                },
                "model": self.model,
                "model_args": {"checkpoint": self.checkpoint, "device": self.recorded.get("device")},
                "model_generate_config": generation,
                "config": {"epochs": summary.k, "epochs_reducer": ["mean"]},
                "scorers": [{"name": self.benchmark.spec.type}],
                "metadata": metadata,
            },
            "plan": {"name": "plan", "steps": [{"solver": "generate"}], "config": generation},
            "results": self._results(summary),
            "stats": {"started_at": "", "completed_at": moment, "model_usage": self.usage},
        }

    def _results(self, summary: Summary) -> dict[str, Any]:
        values = {
            "accuracy": summary.mean,
            "stderr": summary.standard_error,
            "accuracy_low": summary.low,
            "accuracy_high": summary.high,
            f"maj@{summary.k}": summary.majority,
            **{f"pass@{k}": value for k, value in summary.pass_at.items()},
            "truncated": summary.truncated,
            "unanswered": summary.unanswered,
            "unsettled": summary.unsettled,
            "mean_tokens": summary.mean_tokens,
        }
        score = {
            "name": self.benchmark.spec.type,
            "scorer": self.benchmark.spec.type,
            "reducer": "mean",
            "scored_samples": summary.problems,
            "unscored_samples": 0,
            "metrics": {name: {"name": name, "value": value} for name, value in values.items()},
            "metadata": {"verdicts": summary.verdicts},
        }
        return {"total_samples": summary.samples, "completed_samples": summary.samples, "scores": [score]}

    def _reductions(self) -> dict[str, Any]:
        samples = [
            {"sample_id": problem, "value": sum(scores) / len(scores)}
            for problem, scores in problem_scores(self.table).items()
        ]
        return {"scorer": self.benchmark.spec.type, "reducer": "mean", "samples": samples}

    def _samples(self) -> Iterator[dict[str, Any]]:
        for batch in self.table.to_batches(max_chunksize=ROWS):
            for row in batch.to_pylist():
                yield self._sample(row)

    def _sample(self, row: Mapping[str, Any]) -> dict[str, Any]:
        answer = {"role": "assistant", "content": row["response"] or "", "source": "generate", "model": self.model}
        usage = _usage(row["tokens"])
        prompt = json.loads(row["prompt"]) if self.prompt.is_messages else row["prompt"]
        messages = prompt if self.prompt.is_messages else [{"role": "user", "content": prompt}]
        score = {
            "value": {0.0: "I", 1.0: "C"}.get(row["score"], row["score"]),
            "answer": row["extracted"],
            "explanation": row["reason"],
            "metadata": {"verdict": row["verdict"]},
        }
        return {
            "id": row["id"],
            "epoch": row["sample"] + 1,
            "uuid": identity(self.id, row["id"], row["sample"])[:22],
            "input": prompt,  # the rendered text that the model continued, or the messages that an endpoint got
            "target": row["gold"],
            "messages": [*({**message, "source": "input"} for message in messages), answer],
            "output": {
                "model": self.model,
                "choices": [{"message": answer, "stop_reason": STOP_REASONS.get(row["finish_reason"], "unknown")}],
                "usage": usage,
            },
            "scores": {self.benchmark.spec.type: score},
            "metadata": {
                "problem": self.problems[row["id"]],
                "subject": row["subject"],
                "seed": row["seed"],
                "finish_reason": row["finish_reason"],
            },
            "model_usage": {self.model: usage},
        }


def _usage(tokens: int) -> dict[str, int]:
    return {"input_tokens": 0, "output_tokens": tokens, "total_tokens": tokens}
