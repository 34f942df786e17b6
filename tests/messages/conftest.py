"""A folder with one good input of each kind, which every row of the tables takes as its start."""

import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def good_inputs(tmp_path_factory) -> Path:
    """model/, policy/, suite.parquet, samples/, graded/, targets.parquet and traces.jsonl."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from core.arithmetic import problems
    from core.files import write_table, write_text
    from core.schemas import GRADED, SAMPLE, TARGET
    from evaluation.__main__ import main

    folder = tmp_path_factory.mktemp("good")
    shutil.copytree(ROOT / "training" / "base" / "model", folder / "model")
    shutil.copytree(folder / "model", folder / "policy")
    assert main(["suite", "--benchmarks", "arithmetic", "--limit", "2", "--out", str(folder / "suite.parquet")]) == 0
    suite = pq.read_table(folder / "suite.parquet").to_pylist()
    sample = {"benchmark": "arithmetic", "sample": 0, "tokens": 1, "finish_reason": "stop", "seed": 0}
    rows = [{**sample, "id": row["id"], "prompt": "p", "response": r"\boxed{1}"} for row in suite]
    write_table(pa.Table.from_pylist(rows, schema=SAMPLE), folder / "samples" / "arithmetic.parquet")
    verdict = {"gold": "1", "extracted": "1", "verdict": "correct", "score": 1.0}
    graded = pa.Table.from_pylist([{**row, **verdict} for row in rows], schema=GRADED)
    write_table(graded, folder / "graded" / "arithmetic.parquet")
    traces = list(problems("train", 8, seed=0))
    targets = [
        {
            "data_source": "s",
            "prompt": [{"role": "user", "content": trace.problem}],
            "target": [{"role": "assistant", "content": trace.trace}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": trace.answer},
            "extra_info": {"split": "train", "index": number, "id": str(number), "source": "s"},
        }
        for number, trace in enumerate(traces)
    ]
    write_table(pa.Table.from_pylist(targets, schema=TARGET), folder / "targets.parquet")
    lines = [f'{{"problem": "{t.problem}", "answer": "{t.answer}", "response": {json.dumps(t.trace)}}}' for t in traces]
    write_text("\n".join(lines) + "\n", folder / "traces.jsonl")
    return folder
