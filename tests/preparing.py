"""What the tests of targets share: small sources, a real tokenizer, preparing a source and reading what came out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from core.parquet import shards
from grading.tools.settings import ToolSettings
from targets.prepare import prepare
from targets.prepared_files import Prepared
from targets.settings import build_config

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a byte-level tokenizer (one token a byte) and the ChatML template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {c: i for i, c in enumerate(special + sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(special)
    folder = tmp_path_factory.mktemp("tokenizer")
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": {"content": "<|im_end|>"}, "chat_template": TEMPLATE})
    )
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a byte-level BPE tokenizer that has learned merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    texts = [str(trace(k)["problem"]) + str(trace(k)["response"]) for k in range(200)]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet))
    folder = tmp_path_factory.mktemp("trained")
    made.save(str(folder / "tokenizer.json"))
    return folder


def trace(k: int, **changes: Any) -> dict[str, Any]:
    """Row ``k`` of a source, a good one unless ``changes`` say otherwise."""
    row = {
        "problem": f"A farmer has {k} sheep in the barn and buys {k} more at the market. How many has he now?",
        "answer": str(2 * k),
        "response": f"<think>\nTwice {k} is {2 * k}.\n</think>\n\nHe has \\boxed{{{2 * k}}}.",
    }
    return row | changes


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows (dicts, or raw lines as str/bytes) as a JSONL file and returns its path."""

    def write(*rows: Any, name: str = "traces.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            row if isinstance(row, bytes) else row.encode() if isinstance(row, str) else json.dumps(row).encode()
            for row in rows
        ]
        path.write_bytes(b"\n".join(lines) + b"\n")
        return path

    return write


@pytest.fixture
def good() -> Callable[..., dict[str, Any]]:
    """`trace`: a row that passes every filter."""
    return trace


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for file in shards(path) for row in pq.read_table(file).to_pylist()]


def run(
    source: Path | str,
    out: Path,
    tokenizer: Path,
    *,
    benchmarks: Any = None,
    cache: Path | None = None,
    force: bool = False,
    tools: Any = None,
    **settings: Any,
) -> Prepared:
    chosen = None if tools is None else ToolSettings(**tools)
    config = build_config({"source": str(source), "workers": 1, **settings})
    return prepare(config, out, tokenizer_json=tokenizer, benchmarks=benchmarks, cache=cache, force=force, tools=chosen)
