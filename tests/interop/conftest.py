"""An evaluation with its files, for the programs of .venv-interop that read what the project exports."""

import importlib.util
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.arithmetic import problems
from core.files import write_table
from core.schemas import SAMPLE
from evaluation.__main__ import main

if importlib.util.find_spec("inspect_ai") is None:  # only make test-interop has it
    collect_ignore_glob = ["test_*.py"]

K = 3  # samples per problem
SAMPLING = '{"samples": 3, "temperature": 0.6, "top_p": 0.95, "max_tokens": 64, "seed": 1}'
HOSTILE = (
    "",
    "no box \u2028\x00<script>alert(1)</script>",
    "<think>{{system}} {% raw %}",
    "\\boxed{",
    "\\boxed{[1,2]}",
)
CHOICES = (
    '{"prompt": "Which is red?\\n\\nA) rose\\nB) sky", "reward_model": {"ground_truth": "A"}, "id": "a/b \u00e9"}\n'
)


class Evaluation(NamedTuple):
    """A suite with a system prompt and both graders, and a model's samples, graded by their text."""

    suite: Path
    samples: Path
    graded: Path

    def rows(self, benchmark: str) -> list[dict]:
        return pq.read_table(self.graded / f"{benchmark}.parquet").to_pylist()


@pytest.fixture(scope="session")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    folder = tmp_path_factory.mktemp("evaluation")
    (folder / "choices.jsonl").write_text(CHOICES, encoding="utf-8")
    (folder / "suite.yaml").write_text(
        "benchmarks:\n"
        "  - {name: sums_long, group: evals, title: Long sums, generator: 'arithmetic:long', size: 12}\n"
        "  - {name: choices, group: ood, title: Choices, verifier: choice, sources: [{file: choices.jsonl, "
        "columns: {id: id}}]}\n"
    )
    made = Evaluation(folder / "suite.parquet", folder / "samples", folder / "graded")
    arguments = [
        "--suite",
        folder / "suite.yaml",
        "--roots",
        folder,
        "--set",
        "benchmarks.system_prompt=Use {{braces}} and \\boxed{}.",
    ]
    assert main(["suite", *map(str, arguments), "--out", str(made.suite)]) == 0
    suite = pq.read_table(made.suite)
    traces = {problem.id: problem.trace for problem in problems("long", 12, seed=0)}
    rows: dict[str, list[dict]] = {"sums_long": [], "choices": []}
    for number, row in enumerate(suite.to_pylist()):
        for k in range(K):
            right = traces.get(row["id"], "<think>\n</think>\n\nThe answer is \\boxed{A}")
            response = right if k <= number % 3 else HOSTILE[(number + k) % len(HOSTILE)]
            if number % 4 == 3 and k == K - 1:
                response = f"<think> the right answer, thought only: \\boxed{{{row['gold']}}}"
            text = "".join(f"<{message['role']}>{message['content']}" for message in row["prompt"])
            rows[row["benchmark"]].append(
                {"benchmark": row["benchmark"], "id": row["id"], "sample": k, "prompt": f"{text}<assistant>\n",
                 "response": response, "tokens": len(response), "finish_reason": "stop", "seed": k}
            )  # fmt: skip
    for name, samples in rows.items():
        metadata = {"checkpoint": "c" * 64, "model": "/models/policy", "sampling": SAMPLING}
        write_table(pa.Table.from_pylist(samples, schema=SAMPLE), made.samples / f"{name}.parquet", metadata)
    command = ["grade", "--suite", made.suite, "--samples", made.samples, "--out", made.graded]
    assert main([*map(str, command)]) == 0
    return made
