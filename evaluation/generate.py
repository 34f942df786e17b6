"""Generation of samples by vLLM, offline, in the training interpreter: one load for all benchmarks.

Every (benchmark, problem, sample) is a request with a seed of its own, derived from what it is and not from its place
in a batch. Nothing is cut silently: what stops at the token limit, or has a prompt that does not fit the context, is
kept with ``finish_reason`` "length".
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.benchmarks import suite_entries
from evaluation.errors import InputError
from evaluation.files import digest_tree, write_table
from evaluation.progress import Progress
from evaluation.prompts import render

if TYPE_CHECKING:
    import pyarrow as pa

CPU_SEQUENCES = 64  # running at once on a CPU; more only costs cache
CPU_CACHE_BYTES = (64 << 20, 4 << 30)  # bounds of the KV cache on a CPU

# Measured in spec/verl.md: one process, no compiler, no hub.
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
ON_CPU = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "TORCHDYNAMO_DISABLE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}


@dataclass(frozen=True)
class Sampling:
    """How samples are drawn. ``samples``: per problem; None takes each benchmark's own k."""

    samples: int | None = None
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 8192
    seed: int = 0

    def __post_init__(self) -> None:
        bounds = {
            "samples": self.samples is None or self.samples >= 1,
            "temperature": self.temperature >= 0,
            "top_p": 0 < self.top_p <= 1,
            "max_tokens": self.max_tokens >= 1,
        }
        if wrong := [name for name, good in bounds.items() if not good]:
            values = ", ".join(f"{name} = {getattr(self, name)}" for name in wrong)
            raise InputError(f"sampling: {values}; expected samples, max_tokens >= 1, temperature >= 0, 0 < top_p <= 1")


@dataclass(frozen=True)
class Request:
    """One sample to be drawn."""

    benchmark: str
    id: str
    sample: int
    prompt: str
    tokens: tuple[int, ...]
    seed: int


def request_seed(seed: int, benchmark: str, problem: str, sample: int) -> int:
    """The seed of one sample (31 bits): the same whatever else is generated with it."""
    digest = hashlib.sha256(f"{seed}/{benchmark}/{problem}/{sample}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def generate(
    model: Path,
    suite: "pa.Table",
    out: Path,
    *,
    benchmarks: Sequence[str] | None = None,
    sampling: Sampling | None = None,
    checkpoint: str | None = None,
    trust_remote_code: bool = False,
    report: Callable[[dict[str, Any]], None] = lambda event: None,
) -> dict[str, Path]:
    """Draw samples for ``benchmarks`` (default: all of ``suite``); writes one SAMPLE table a benchmark below ``out``.

    A file appears when its benchmark is complete. Its metadata holds the sampling, the device, the model's folder and
    ``checkpoint``, the digest that names the model (default: see `checkpoint_digest`).
    Raises InputError for a benchmark that the suite lacks, and a model folder without weights, tokenizer or template.
    """
    sampling = sampling or Sampling()
    names = _chosen(suite, benchmarks)
    _check_model(model)
    for name, value in (OFFLINE | (ON_CPU if _is_cpu() else {})).items():
        os.environ.setdefault(name, value)
    description = {
        "checkpoint": checkpoint or checkpoint_digest(model),
        "sampling": json.dumps(asdict(sampling)),
        "model": str(model),
        "device": "cpu" if _is_cpu() else "cuda",
    }
    requests = _requests(model, suite, names, sampling, trust_remote_code)
    totals = Counter(request.benchmark for request in requests)
    llm, context = _load(model, requests, sampling, trust_remote_code)
    progress = Progress("generate", totals, report)
    done: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    written: dict[str, Path] = {}

    def finish(request: Request, response: str, tokens: int, reason: str) -> None:
        done[request.benchmark].append(_record(request, response, tokens, reason))
        progress.add(request.benchmark)
        if len(done[request.benchmark]) == totals[request.benchmark]:
            written[request.benchmark] = _write(done.pop(request.benchmark), request.benchmark, out, description)

    _run(llm, requests, context, sampling, finish)
    assert set(written) == set(names), f"not all benchmarks were generated: {sorted(set(names) - set(written))}"
    return written


def checkpoint_digest(model: Path) -> str:
    """What names a model on a scorecard: the digest in its ``lineage.json``, else the digest of its files."""
    manifest = model / "lineage.json"
    if manifest.is_file():
        return str(json.loads(manifest.read_text(encoding="utf-8"))["checkpoint_digest"])
    return digest_tree(model)


def _chosen(suite: "pa.Table", benchmarks: Sequence[str] | None) -> list[str]:
    known = suite["benchmark"].unique().to_pylist()
    if unknown := [name for name in benchmarks or [] if name not in known]:
        raise InputError(f"benchmark {', '.join(unknown)}: not in the suite, which has {', '.join(known) or 'nothing'}")
    return [name for name in known if benchmarks is None or name in benchmarks]


def _check_model(model: Path) -> None:
    if not (model / "config.json").is_file():
        raise InputError(f"model {model}: no config.json there; expected the Hugging Face folder of a checkpoint")
    if not any((model / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "vocab.json")):
        raise InputError(f"model {model}: no tokenizer (tokenizer.json) there; save the tokenizer into that folder")
    if not any(model.glob("*.safetensors")) and not any(model.glob("*.bin")):
        raise InputError(f"model {model}: no weights (*.safetensors); is the download or the training complete?")


def _is_cpu() -> bool:
    import torch

    return torch.version.cuda is None and torch.version.hip is None


def _requests(model: Path, suite: "pa.Table", names: list[str], sampling: Sampling, trust: bool) -> list[Request]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=trust, local_files_only=True)
    samples = {benchmark.name: benchmark.samples for benchmark in suite_entries(suite)}
    requests = []
    for row in suite.select(["benchmark", "id", "prompt"]).to_pylist():
        name = row["benchmark"]
        if name not in names:
            continue
        prompt = render(tokenizer, row["prompt"], where=model)
        tokens = tuple(tokenizer.encode(prompt, add_special_tokens=False))  # the template has written them already
        requests += [
            Request(name, row["id"], k, prompt, tokens, request_seed(sampling.seed, name, row["id"], k))
            for k in range(sampling.samples or samples[name])
        ]
    return requests


def _load(model: Path, requests: list[Request], sampling: Sampling, trust: bool) -> tuple[Any, int]:
    """The engine and its context length in tokens."""
    from transformers import AutoConfig
    from vllm import LLM

    config = AutoConfig.from_pretrained(model, trust_remote_code=trust, local_files_only=True).get_text_config()
    longest = max((len(request.tokens) for request in requests), default=0)
    context = min(config.max_position_embeddings, longest + sampling.max_tokens)
    options: dict[str, Any] = {"model": str(model), "max_model_len": context, "trust_remote_code": trust}
    options["enable_prefix_caching"] = True
    if _is_cpu():
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        per_token = 2 * config.num_hidden_layers * heads * head * 4  # keys and values in float32
        low, high = CPU_CACHE_BYTES
        options |= {
            "dtype": "float32",
            "enforce_eager": True,
            "max_num_seqs": CPU_SEQUENCES,
            "kv_cache_memory_bytes": min(high, max(low, per_token * (context + 128) * CPU_SEQUENCES)),
        }
    else:
        options["dtype"] = "bfloat16"
    return LLM(**options), context


def _run(
    llm: Any,
    requests: list[Request],
    context: int,
    sampling: Sampling,
    finish: Callable[[Request, str, int, str], None],
) -> None:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    # The engine's own loop instead of LLM.generate: a benchmark is written when its last sample is done.
    engine = llm.llm_engine
    waiting: dict[str, Request] = {}
    for number, request in enumerate(requests):
        if len(request.tokens) >= context:
            finish(request, "", 0, "length")
            continue
        parameters = SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=request.seed,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        waiting[str(number)] = request
        engine.add_request(str(number), {"type": "token", "prompt_token_ids": list(request.tokens)}, parameters)
    while engine.has_unfinished_requests():
        for output in engine.step():
            if output.finished:
                completion = output.outputs[0]
                request = waiting.pop(output.request_id)
                finish(request, completion.text, len(completion.token_ids), completion.finish_reason)
    assert not waiting, f"vLLM left {len(waiting)} requests unanswered"


def _record(request: Request, response: str, tokens: int, reason: str) -> dict[str, Any]:
    return {
        "benchmark": request.benchmark,
        "id": request.id,
        "sample": request.sample,
        "prompt": request.prompt,
        "response": response,
        "tokens": tokens,
        "finish_reason": reason,
        "seed": request.seed,
    }


def _write(records: list[dict[str, Any]], name: str, out: Path, description: dict[str, str]) -> Path:
    import pyarrow as pa

    from evaluation.records import SAMPLE

    order = sorted(records, key=lambda record: (record["id"], record["sample"]))
    path = out / f"{name}.parquet"
    write_table(pa.Table.from_pylist(order, schema=SAMPLE), path, description)
    return path
