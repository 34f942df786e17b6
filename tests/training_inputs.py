"""What short trainings of tests start from: targets of arithmetic, and the embedded model with a head of its own."""

import shutil
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from core.arithmetic import TOOL_SPLITS, problems
from core.files import read_json, write_json
from core.model.base_model import SHIPPED
from core.model.token_counts import load_lengths
from core.schemas import TARGET, TARGET_LOG_PROBS
from grading.tools.settings import ToolSettings

CALCULATOR = ToolSettings(use=[{"type": "calculator"}], format="tags", turns=4)


def write_targets(file: Path, rows: int, seed: int = 0, log_prob: float | None = None, split: str = "train") -> Path:
    """Arithmetic problems with their traces of at most 90 characters, each token with the teacher's ``log_prob``.

    The embedded model solves hardly any problem of ``split`` "train", and most of "short"; "train_calls" calls a tool.
    """
    short = (problem for problem in problems(split, 20 * rows, seed) if len(problem.trace) <= 90)
    table = [
        {
            "data_source": "arithmetic",
            "prompt": [{"role": "user", "content": problem.problem}],
            "target": problem.turns or [{"role": "assistant", "content": problem.trace}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {"split": "train", "index": number, "id": problem.id, "source": "test"},
        }
        for number, problem in enumerate(islice(short, rows))
    ]
    assert len(table) == rows
    schema = TARGET.with_metadata({"tools": CALCULATOR.record()} if split in TOOL_SPLITS else None)
    if log_prob is not None:
        schema = TARGET.append(TARGET_LOG_PROBS)
        counts = load_lengths(SHIPPED).count_examples([(row["prompt"], row["target"]) for row in table])
        for row, tokens in zip(table, counts, strict=True):
            row["target_log_probs"] = [log_prob] * tokens.target
    pq.write_table(pa.Table.from_pylist(table, schema=schema), file)
    return file


def write_untied_model(out: Path) -> Path:
    """The embedded model with a copy of its embedding as the head, as models from 7B have one."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(SHIPPED, out)
    weights = load_file(out / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].copy()
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    write_json({**read_json(out / "config.json"), "tie_word_embeddings": False}, out / "config.json")
    return out
