"""Rows a second of target preparation beside the usual way, on the same real rows and one after the other.

    .venv/bin/python -m benchmarks.targets [--source FILE] [--rows N]

The usual way: ``datasets.map`` with a Python function that tokenizes the whole text and calls math-verify on it in
line, ``num_proc=2``. Ours: `training.targets.prepare` with two workers, with reading, all filters, duplicates and
writing. The tokenizer is a BPE of 16,384 tokens trained on the rows, once, outside the timing. What only one of the two
keeps is counted, with our reasons; duplicates count as kept.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here is on a hub

from training.targets.config import build_config
from training.targets.prepare import prepare
from training.targets.sources import read_source

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data"
VOCABULARY = 16_384
LIMIT = 8192  # tokens
PROCESSES = 2


def train_tokenizer(texts: list[str], folder: Path) -> Path:
    """A byte-level BPE tokenizer.json learned from ``texts``."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet))
    made.save(str(folder / "tokenizer.json"))
    return folder


def usual_row(row: dict[str, Any], tokenizer: Path) -> dict[str, Any]:
    """What a preparation script usually does with a row."""
    from math_verify import parse, verify

    tokens = len(_loaded(tokenizer).encode(row["response"]).ids)
    correct = verify(parse(f"\\boxed{{{row['gold']}}}"), parse(row["response"]))
    return {"tokens": tokens, "correct": bool(correct)}


_TOKENIZERS: dict[Path, Any] = {}


def _loaded(folder: Path) -> Any:
    from tokenizers import Tokenizer

    return _TOKENIZERS.setdefault(folder, Tokenizer.from_file(str(folder / "tokenizer.json")))


def usual(rows: list[dict[str, Any]], tokenizer: Path, folder: Path) -> tuple[float, dict[str, bool]]:
    """Seconds, and which rows it finds correct and short enough."""
    import datasets

    datasets.disable_progress_bars()
    began = time.perf_counter()
    made = datasets.Dataset.from_list(rows).map(usual_row, fn_kwargs={"tokenizer": tokenizer}, num_proc=PROCESSES)
    made.filter(lambda row: row["correct"] and row["tokens"] <= LIMIT).to_parquet(folder / "usual.parquet")
    seconds = time.perf_counter() - began
    return seconds, {row["id"]: row["correct"] and row["tokens"] <= LIMIT for row in made}


def ours(source: Path, rows: int, tokenizer: Path, folder: Path) -> tuple[float, dict[str, str]]:
    """Seconds, and the reason of each refused row."""
    import pyarrow.parquet as pq

    config = build_config({"source": str(source), "limit": rows})
    began = time.perf_counter()
    prepared = prepare(config, folder, tokenizer_json=tokenizer, workers=PROCESSES)
    seconds = time.perf_counter() - began
    refused = pq.read_table(prepared.rejected, columns=["id", "reason"]).to_pylist()
    return seconds, {row["id"]: row["reason"] for row in refused}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.targets", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--source", type=Path, default=SHARED / "traces/math_train_budget_forced.parquet")
    parser.add_argument("--rows", type=int, default=1500)
    options = parser.parse_args()
    if not options.source.is_file():
        sys.exit(f"error: {options.source}: no such file; give --source a file with traces")
    traces = read_source(build_config({"source": str(options.source), "limit": options.rows}))
    rows = [{"id": t.id, "gold": t.gold, "response": t.response} for t in traces if t.fault is None]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = train_tokenizer([row["response"] for row in rows], folder)
        our_seconds, refused = ours(options.source, options.rows, tokenizer, folder / "ours")
        usual_seconds, kept = usual(rows, tokenizer, folder)
    characters = sum(len(row["response"]) for row in rows) / len(rows)
    ours_speed, usual_speed = options.rows / our_seconds, len(rows) / usual_seconds
    print(f"{options.source.name}, {len(rows)} rows, {characters:,.0f} characters each")
    print(f"usual way (datasets.map, num_proc=2)  {usual_speed:8.0f} rows/s")
    print(f"training.targets (2 workers)          {ours_speed:8.0f} rows/s   {ours_speed / usual_speed:.1f}x")
    dropped = {name: reason for name, reason in refused.items() if reason not in ("surplus", "near_duplicate")}
    only_usual = Counter(dropped[name] for name, good in kept.items() if good and name in dropped)
    only_ours = sum(not good and name not in dropped for name, good in kept.items())
    print(f"kept there, refused here: {dict(only_usual.most_common())}; kept here, refused there: {only_ours}")


if __name__ == "__main__":
    main()
