"""Generation by a real vLLM on a tiny random model; runs in the training interpreter only."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("vllm")

from evaluation.benchmarks import load_suite, read_suite
from evaluation.files import write_table
from evaluation.records import SAMPLE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A random Qwen2 of 0.2 M parameters with a byte-level tokenizer and a ChatML template."""
    import torch
    from tokenizers import pre_tokenizers
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    folder = tmp_path_factory.mktemp("model")
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {token: i for i, token in enumerate(special + sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(vocabulary, merges=[], eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128, tie_word_embeddings=True, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("suite") / "suite.parquet"
    write_table(read_suite(load_suite("embedded")[:2], [], limit=12), path)
    return path


def run(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "evaluation", "generate", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.mark.timeout(400)
def test_samples_are_complete_reproducible_and_independent_of_their_batch(model, suite, tmp_path):
    options = ("--model", model, "--suite", suite, "--samples", 2, "--temperature", 1, "--top-p", 1, "--max-tokens", 40)
    both = run(*options, "--out", tmp_path / "both")
    tables = {name: pq.read_table(tmp_path / "both" / f"{name}.parquet") for name in ("arithmetic", "arithmetic_long")}
    for name, table in tables.items():
        assert table.schema.names == SAMPLE.names
        assert table.num_rows == 24
        assert len(set(table["seed"].to_pylist())) == 24
        assert set(table["finish_reason"].to_pylist()) <= {"stop", "length"}
        for row in table.to_pylist():
            assert row["prompt"].endswith("<|im_start|>assistant\n")
            assert (row["finish_reason"] == "length") <= (row["tokens"] == 40)
        assert f"generate {name} 24/24 eta 0:" in both.stdout
        assert len(table.schema.metadata[b"checkpoint"]) == 64
    assert "nanobind" not in both.stderr
    run(*options, "--benchmarks", "arithmetic_long", "--out", tmp_path / "one")
    alone = pq.read_table(tmp_path / "one" / "arithmetic_long.parquet")
    assert [p.name for p in (tmp_path / "one").iterdir()] == ["arithmetic_long.parquet"]
    assert alone["response"].to_pylist() == tables["arithmetic_long"]["response"].to_pylist()


@pytest.mark.timeout(300)
def test_prompts_beyond_the_context_are_kept_as_truncated(model, tmp_path):
    path = tmp_path / "suite.parquet"
    write_table(read_suite(load_suite("embedded")[:1], [], limit=2, system_prompt="x" * 200), path)
    run("--model", model, "--suite", path, "--max-tokens", 8, "--out", tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "arithmetic.parquet").to_pylist()
    assert [(row["finish_reason"], row["tokens"], row["response"]) for row in rows] == [("length", 0, "")] * 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("--benchmarks", "chess"), "benchmark chess: not in the suite, which has arithmetic, arithmetic_long"),
        (("--model", "/nowhere"), "model /nowhere: no config.json there"),
        (("--suite", "/nowhere.parquet"), "/nowhere.parquet: no such file; make it with python -m evaluation suite"),
        (("--top-p", "0"), "sampling: top_p = 0.0"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(model, suite, tmp_path, change, expected):
    done = run("--model", model, "--suite", suite, "--out", tmp_path / "out", *change, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
