"""Generation of samples by vLLM, offline, in the training interpreter: one load for all benchmarks.

A sample is decided by the model, the rendered prompt, the way of sampling and its number, and kept under that name
(`sample_cache`): what was drawn before, by whatever command, is not drawn again. Nothing is cut silently:
what stops at the token limit, or has a prompt that does not fit the context, is kept with ``finish_reason`` "length".
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.files import write_table
from core.model_files import check_model
from core.progress import Progress
from core.prompts import ChatTokenizer, PromptRecord, Template, prompt_frame, render_prompt
from evaluation.benchmarks.registry import suite_entries
from evaluation.generation.models import checkpoint_digest
from evaluation.generation.templates import TRAINING, choose_template, training_system

if TYPE_CHECKING:
    import pyarrow as pa

CACHE = Path("var/storage/samples")  # of the command line; the Dagster assets keep theirs in their storage


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
    """One sample of one problem."""

    benchmark: str
    id: str
    sample: int
    prompt: str
    prompt_digest: str
    seed: int

    @property
    def key(self) -> tuple[str, int]:
        """The sample's name in the cache."""
        return self.prompt_digest, self.sample


def request_seed(seed: int, prompt_digest: str, sample: int) -> int:
    """The seed of one sample (31 bits): the same whatever else is generated with it."""
    digest = hashlib.sha256(f"{seed}/{prompt_digest}/{sample}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def generate(
    model: Path,
    suite: "pa.Table",
    out: Path,
    *,
    benchmarks: Sequence[str] | None = None,
    sampling: Sampling | None = None,
    template: str = TRAINING,
    checkpoint: str | None = None,
    cache: Path = CACHE,
    replicas: int | None = None,
    trust_remote_code: bool = False,
    report: Callable[[dict[str, Any]], None] = lambda event: None,
) -> dict[str, Path]:
    """Draw samples for ``benchmarks`` (default: all of ``suite``); writes one SAMPLE table a benchmark below ``out``.

    A file appears when its benchmark is complete; samples are in ``cache`` seconds after they are drawn. A file's
    metadata holds the sampling, the template, the device, the model's folder and ``checkpoint``, the digest that names
    the model (default: see `models.checkpoint_digest`). ``replicas``: engines, each on a GPU of its own
    (default: all GPUs; on a CPU one).
    Raises InputError for a benchmark that the suite lacks, a model folder without weights or tokenizer, and a template
    that does not exist or needs a chat template that the tokenizer lacks.
    """
    sampling = sampling or Sampling()
    names = _chosen(suite, benchmarks)
    if replicas is not None and replicas < 1:
        raise InputError(f"replicas: {replicas}; expected 1 or more")
    check_model(model, chat_template=False)
    chosen = choose_template(template, model)

    from evaluation.generation.engine import on_cpu, prepare_environment
    from evaluation.generation.sample_cache import SampleCache

    prepare_environment()
    tokenizer = _tokenizer(model, trust_remote_code)
    requests = _requests(model, suite, names, sampling, chosen, tokenizer)
    checkpoint = checkpoint or checkpoint_digest(model)
    engine = {"device": "cpu" if on_cpu() else "cuda", "vllm": _vllm_version()}
    group = {key: value for key, value in asdict(sampling).items() if key != "samples"}
    output = _Output(out, names, requests, report)
    output.description |= {
        "checkpoint": checkpoint,
        "sampling": json.dumps(asdict(sampling)),
        "model": str(model),
        "device": engine["device"],
        **_prompt_record(model, suite, chosen, tokenizer).metadata(),
    }
    with SampleCache(cache, {"checkpoint": checkpoint, **group, **engine}) as kept:
        found = kept.lookup(request.key for request in requests)
        missing = [request for request in requests if request.key not in found]
        output.progress.skip(Counter(request.benchmark for request in requests if request.key in found))
        for request in requests:
            if row := found.get(request.key):
                output.add(request, row["response"], row["tokens"], row["finish_reason"])
        if missing:
            _draw(model, missing, sampling, tokenizer, replicas, trust_remote_code, kept, output)
    assert set(output.written) == set(names), f"not generated: {sorted(set(names) - set(output.written))}"
    return output.written


class _Output:
    """Collects the samples of each benchmark and writes its file when it is complete."""

    def __init__(
        self, out: Path, names: Sequence[str], requests: Sequence[Request], report: Callable[[dict[str, Any]], None]
    ) -> None:
        self._out = out
        self._totals = Counter(request.benchmark for request in requests)
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        self._began = time.monotonic()
        self.progress = Progress("generate", self._totals, report)
        self.description: dict[str, str] = {}
        self.written: dict[str, Path] = {}

    def add(self, request: Request, response: str, tokens: int, reason: str) -> None:
        import pyarrow as pa

        from core.schemas import SAMPLE

        name = request.benchmark
        self._rows[name].append(
            {
                "benchmark": name,
                "id": request.id,
                "sample": request.sample,
                "prompt": request.prompt,
                "response": response,
                "tokens": tokens,
                "finish_reason": reason,
                "seed": request.seed,
            }
        )
        if len(self._rows[name]) == self._totals[name]:
            order = sorted(self._rows.pop(name), key=lambda record: (record["id"], record["sample"]))
            path = self._out / f"{name}.parquet"
            seconds = {"seconds": f"{time.monotonic() - self._began:.1f}"}
            write_table(pa.Table.from_pylist(order, schema=SAMPLE), path, self.description | seconds)
            self.written[name] = path


def _draw(
    model: Path,
    missing: Sequence[Request],
    sampling: Sampling,
    tokenizer: Any,
    replicas: int | None,
    trust: bool,
    cache: Any,
    output: _Output,
) -> None:
    """Draw what the cache lacks; equal prompts of two benchmarks are drawn once."""
    from evaluation.generation.engine import Draw, EngineOptions, context_limit
    from evaluation.generation.replicas import draw_all, gpu_count

    # The template has written the special tokens already.
    tokens = {
        prompt: tuple(tokenizer.encode(prompt, add_special_tokens=False))
        for prompt in dict.fromkeys(request.prompt for request in missing)
    }
    context = context_limit(str(model), trust_remote_code=trust)
    waiting: dict[tuple[str, int], list[Request]] = {}
    for request in missing:
        waiting.setdefault(request.key, []).append(request)

    def finish(key: tuple[str, int], response: str, count: int, reason: str) -> None:
        cache.add(key, response, count, reason)
        for request in waiting[key]:
            output.progress.add(request.benchmark)
            output.add(request, response, count, reason)

    keys = list(waiting)
    draws = []
    for number, key in enumerate(keys):
        request = waiting[key][0]
        if len(tokens[request.prompt]) >= context:
            finish(key, "", 0, "length")
        else:
            draws.append(Draw(number, tokens[request.prompt], request.seed))
    if not draws:
        return
    options = EngineOptions(
        model=str(model),
        longest_prompt=max(len(draw.tokens) for draw in draws),
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        trust_remote_code=trust,
    )
    for drawn in draw_all(options, draws, replicas or max(1, gpu_count())):
        finish(keys[drawn.number], drawn.response, drawn.tokens, drawn.finish_reason)


def _chosen(suite: "pa.Table", benchmarks: Sequence[str] | None) -> list[str]:
    known = suite["benchmark"].unique().to_pylist()
    if unknown := [name for name in benchmarks or [] if name not in known]:
        raise InputError(f"benchmark {', '.join(unknown)}: not in the suite, which has {', '.join(known) or 'nothing'}")
    return [name for name in known if benchmarks is None or name in benchmarks]


def _tokenizer(model: Path, trust: bool) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model, trust_remote_code=trust, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InputError(f"model {model}: its tokenizer cannot be loaded ({error}); save it there again") from error


def _vllm_version() -> str:
    """Of the distribution that provides vllm: another version may draw other samples."""
    from importlib import metadata

    name = metadata.packages_distributions()["vllm"][0]
    return f"{name} {metadata.version(name)}"


def _requests(
    model: Path, suite: "pa.Table", names: list[str], sampling: Sampling, template: Template, tokenizer: Any
) -> list[Request]:
    from evaluation.generation.sample_cache import prompt_digest

    samples = {benchmark.name: benchmark.samples for benchmark in suite_entries(suite)}
    requests = []
    for row in suite.select(["benchmark", "id", "prompt"]).to_pylist():
        name = row["benchmark"]
        if name not in names:
            continue
        prompt = render_prompt(row["prompt"], tokenizer, template)
        digest = prompt_digest(prompt)
        requests += [
            Request(name, row["id"], k, prompt, digest, request_seed(sampling.seed, digest, k))
            for k in range(sampling.samples or samples[name])
        ]
    return requests


def _prompt_record(model: Path, suite: "pa.Table", template: Template, tokenizer: ChatTokenizer) -> PromptRecord:
    """How the samples are asked for, and how the checkpoint was trained, if that is known."""
    conversation = suite["prompt"][0].as_py()
    try:
        trained = bool(tokenizer.chat_template) and training_system(model) is not None
    except InputError:  # the targets are gone, but the user named a template: only this record depends on them
        trained = False
    return PromptRecord(
        template.name,
        template.thinking,
        prompt_frame(conversation, tokenizer, template),
        prompt_frame(conversation, tokenizer, choose_template(TRAINING, model)) if trained else None,
    )
