"""Endpoints and teachers on a real vLLM: sampled like a model, and asked once for each trace."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("vllm")

from generation_runs import run, served

from evaluation.__main__ import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def endpoint(model, tmp_path_factory) -> Iterator[str]:
    """The URL of vLLM's own OpenAI-compatible server, which serves ``model`` as "tiny" to holders of a key."""
    with served(model, tmp_path_factory.mktemp("server") / "log") as url:
        yield url


@pytest.mark.timeout(300)
def test_an_endpoint_is_sampled_like_a_model(model, suite, endpoint, tmp_path, cache, monkeypatch, capfd):
    options = ("--suite", suite, "--benchmarks", "arithmetic", "--temperature", 0, "--max-tokens", 8, "--cache", cache)

    def ask(out: str, *more: object, name: str = "tiny") -> subprocess.CompletedProcess[str]:
        """The command in this process, which needs no vLLM for an endpoint."""
        arguments = ["generate", "--model", f"{name}@{endpoint}", *options, *more, "--out", tmp_path / out]
        return subprocess.CompletedProcess((), main(arguments), *capfd.readouterr())

    refused = ask("refused")
    assert refused.returncode == 2 and "answered 401" in refused.stderr and "set OPENAI_API_KEY" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1 and not (tmp_path / "refused").exists()
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    assert ask("remote").returncode == 0
    run("--model", model, *options, "--out", tmp_path / "local")
    remote, local = (pq.read_table(tmp_path / where / "arithmetic.parquet") for where in ("remote", "local"))
    # Greedy decoding after the same chat template.
    assert remote["response"].to_pylist() == local["response"].to_pylist()
    assert remote["finish_reason"].to_pylist() == local["finish_reason"].to_pylist()
    assert remote.schema.metadata[b"checkpoint"].decode() == f"tiny@{endpoint}"
    assert not any(b"s3cret" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    again = ask("again")
    assert pq.read_table(tmp_path / "again" / "arithmetic.parquet").equals(remote), again.stdout
    # What the options of an endpoint send is what the server takes, and names other samples.
    other = "{max_tokens_key: max_completion_tokens, leave_out: [seed, top_p], extra_body: {top_k: 1}}"
    assert ask("other", "--set", f"evaluation.endpoint={other}").returncode == 0
    changed = pq.read_table(tmp_path / "other" / "arithmetic.parquet")
    assert changed["response"].to_pylist() == local["response"].to_pylist()
    assert len(list(cache.rglob("group.json"))) == 3
    refused = ask("wrong", "--set", "evaluation.endpoint={extra_body: {min_tokens: many}}")
    assert refused.returncode == 2 and "answered 400" in refused.stderr and "min_tokens" in refused.stderr
    missing = ask("missing", name="other")
    assert missing.returncode == 2 and "answered 404" in missing.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_local_teacher_leaves_its_log_probabilities(model, tmp_path):
    """They are those of the model itself, token by token, also where the temperature is not 1."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    problems = tmp_path / "problems.jsonl"
    problems.write_text("".join(json.dumps({"problem": f"{k}+1=?", "answer": k + 1}) + "\n" for k in range(3)))
    arguments = ["--teacher", model, "--problems", problems, "--samples", 2]
    arguments += ["--set", "generate.max_tokens=24", "--set", "generate.temperature=0.7", "--cache", tmp_path / "cache"]

    def traces(name: str, *more: str) -> list[dict]:
        command = [sys.executable, "-m", "evaluation", "traces", *map(str, arguments), *more, "--out", tmp_path / name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return pq.read_table(tmp_path / name).to_pylist()

    rows = traces("with.parquet")
    assert rows == traces("again.parquet")  # from the cache
    loaded, tokenizer = AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    for row in rows:
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": row["problem"]}], add_generation_prompt=True, return_dict=False
        )
        ids = row["target_token_ids"]
        assert len(ids) == len(row["target_log_probs"]) == row["tokens"] and min(row["target_log_probs"]) < -1
        with torch.no_grad():
            logits = loaded(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].float()
        expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(ids)[:, None])[:, 0]
        assert torch.allclose(torch.tensor(row["target_log_probs"]), expected, atol=1e-3)
    plain = traces("without.parquet", "--no-log-probs")
    assert plain == [{name: row[name] for name in plain[0]} for row in rows]
    assert "target_log_probs" not in plain[0]
