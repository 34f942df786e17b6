"""Targets in the training interpreter: Ray Data gives the same bytes, and verl reads what is written."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.parquet import shards
from core.schemas import BENCHMARK
from targets.prepare import prepare
from targets.prepared_files import Prepared
from targets.read import sources
from targets.select.split import select_train
from targets.settings import build_config

ROOT = Path(__file__).resolve().parents[2]
FILES = ("prepared", "profile", "rejected")


@pytest.fixture(scope="module")
def ray_home(tmp_path_factory: pytest.TempPathFactory):
    """A Ray of this machine with two processors and 200 MiB for its objects."""
    import ray

    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=200 << 20,
        runtime_env={"env_vars": environment},
    )
    yield
    ray.shutdown()


def run(source: Any, out: Path, tokenizer: Path, **settings: Any) -> Prepared:
    config = build_config({"source": str(source) if isinstance(source, Path) else source, "workers": 1, **settings})
    known = [{"benchmark": "b", "id": "7", "problem": "Find the number of ways to seat six knights at a round table."}]
    benchmarks = pa.Table.from_pylist(known, schema=BENCHMARK)
    return prepare(config, out, tokenizer_json=tokenizer, benchmarks=benchmarks)


def test_ray_gives_the_same_bytes(
    ray_home: None, tmp_path: Path, trained: Path, good: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [good(k) for k in range(1, 120)]
    cases += [
        good(k, answer=f"\\sqrt{{{k}}}", response=f"<think>\nhm\n</think>\n\n\\boxed{{{k}^{{1/2}}}}.") for k in (2, 3)
    ]
    cases += [good(5, answer="11"), good(6, problem="nul \0 inside"), good(7, response="<think>\ncut")]
    cases += [good(8, problem="Find the number of ways to seat six knights at a round table.")]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.Table.from_pylist(cases), tmp_path / "in/traces.parquet", row_group_size=17)
    pq.write_table(pa.Table.from_pylist(cases[:9]), tmp_path / "in/more.parquet")
    settings = {"keep": "shortest", "max_target_tokens": 200}
    local = run(tmp_path / "in", tmp_path / "local", trained, **settings)
    monkeypatch.setattr(sources, "TRACES_PER_BATCH", 5)
    on_ray = run(tmp_path / "in", tmp_path / "ray", trained, engine="ray", workers=2, **settings)
    assert local.counts["read"] == len(cases) + 9 and local.counts["contaminated"] == 1
    for name in FILES:
        assert getattr(local, name).read_bytes() == getattr(on_ray, name).read_bytes(), name
    limited = [run(tmp_path / "in", tmp_path / e, trained, engine=e, limit=50) for e in ("local", "ray")]
    assert limited[0].digest == limited[1].digest and limited[1].counts["read"] == 50
    pq.write_table(pa.Table.from_pylist([good(k) for k in range(200, 300)]), tmp_path / "other.parquet")
    blocks = [{"path": str(tmp_path / "in"), "weight": 1, "license": "MIT", "metadata": ["answer"]}]
    blocks += [{"path": str(tmp_path / "other.parquet"), "weight": 2}]
    prepared = [run(blocks, tmp_path / f"prepared-{e}", trained, engine=e) for e in ("local", "ray")]
    for name in FILES:
        assert getattr(prepared[0], name).read_bytes() == getattr(prepared[1], name).read_bytes(), name
    assert prepared[0].sources["other.parquet"]["kept"] == 100 and prepared[0].counts["kept"] == 150


def test_a_file_that_is_damaged_is_one_error_on_ray_too(
    ray_home: None, tmp_path: Path, trained: Path, good: Any
) -> None:
    path = tmp_path / "t.parquet"
    texts = [good(k, response=os.urandom(400).hex()) for k in range(2000)]
    pq.write_table(pa.Table.from_pylist(texts), path, row_group_size=500)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 20_000] = bytes(20_000)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"^source .*t\.parquet: damaged after row \d+[^\n]*$"):
        run(path, tmp_path / "out", trained, engine="ray")
    assert not (tmp_path / "out").exists()


def test_the_command_line_starts_and_ends_its_own_ray(tmp_path: Path, trained: Path) -> None:
    sets = ("targets.engine=ray", "targets.workers=1", "targets.embedded_rows=40")
    command = [sys.executable, "-m", "targets", "--prepare-only", *(part for text in sets for part in ("--set", text))]
    command += ["--out", str(tmp_path / "out"), "--tokenizer", str(trained)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert pq.read_metadata(tmp_path / "out/prepared.parquet").num_rows == 40


@pytest.fixture
def chat_tokenizer(tokenizer: Path) -> Any:
    from transformers import PreTrainedTokenizerFast

    template = (tokenizer / "tokenizer_config.json").read_text()
    import json

    loaded = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer / "tokenizer.json"), eos_token="<|im_end|>")
    loaded.pad_token = "<|endoftext|>"
    loaded.chat_template = json.loads(template)["chat_template"]
    return loaded


@pytest.mark.parametrize(("rows_per_file", "files"), [(50_000, 1), (200, 3)])
def test_verl_reads_the_training_file(
    tmp_path: Path, tokenizer: Path, chat_tokenizer: Any, rows_per_file: int, files: int
) -> None:
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    prepared = run("embedded", tmp_path / "out", tokenizer, embedded_rows=600, rows_per_file=rows_per_file)
    split = select_train(prepared, tmp_path / "out")
    assert len(shards(split.train)) == files
    settings = {"prompt_key": "prompt", "max_prompt_length": 1024, "filter_overlong_prompts": False}
    settings |= {"cache_dir": str(tmp_path / "verl"), "return_raw_chat": True, "truncation": "error"}
    dataset = RLHFDataset([str(file) for file in shards(split.train)], chat_tokenizer, OmegaConf.create(settings))
    rows = [row for file in shards(split.train) for row in pq.read_table(file).to_pylist()]
    assert len(dataset) == len(rows) == split.rows
    batch = collate_fn([dataset[k] for k in range(4)])
    assert [dataset[k]["index"] for k in (0, 300, 599)] == [0, 300, 599]
    for k in range(4):
        assert batch["raw_prompt"][k][-1]["content"] == rows[k]["prompt"][-1]["content"]
        assert batch["reward_model"][k]["ground_truth"] == rows[k]["reward_model"]["ground_truth"]
        assert batch["index"][k] == rows[k]["extra_info"]["index"] == k
        assert batch["target"][k][0]["content"].startswith("<think>\n")
