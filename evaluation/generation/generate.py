"""Generation of samples with vLLM, in the training interpreter; the model is loaded once for all benchmarks.

The model, the rendered prompt, the sampling and the sample's number decide a sample, which is kept under that name
(`sample_cache`): what any command has drawn before is not drawn again. Nothing is cut silently: a response that stops
at the token limit, or a prompt that does not fit the context, is kept with the ``finish_reason`` "length".
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.files import write_table
from core.model_files import check_model
from core.progress import BatchProgress
from core.prompts import ChatTokenizer, PromptRecord, Template, prompt_frame
from evaluation.generation.models import checkpoint_digest
from evaluation.generation.requests import Completion, SampleKey, SampleRequest, Sampling, sample_requests
from evaluation.generation.templates import TRAINING, choose_template, training_system

if TYPE_CHECKING:
    import pyarrow as pa

CACHE = Path("var/storage/samples")  # of the command line; the Dagster assets keep theirs in their storage


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
    """Draw samples and write one SAMPLE table per benchmark below ``out``; returns the paths by benchmark.

    A file appears when its benchmark is complete; its metadata holds the checkpoint, the sampling, the prompt template,
    the device and the model's folder.

    Args:
        model: Hugging Face folder.
        suite: BENCHMARK table.
        out: folder for ``<benchmark>.parquet``.
        benchmarks: names of those to sample; all of the suite by default.
        sampling: see `Sampling`.
        template: name of a prompt template, see `evaluation.generation.templates`.
        checkpoint: digest that names the model; by default that of its lineage or its files.
        cache: folder where samples are kept within seconds of being drawn.
        replicas: engines, each on its own GPU; all GPUs by default, and one engine on a CPU.
        trust_remote_code: run code that the model folder contains.
        report: receives progress events.

    Raises InputError for a benchmark that the suite lacks, an incomplete model folder, and a template that does not
    exist or needs a chat template that the tokenizer lacks.
    """
    sampling = sampling or Sampling()
    names = _select(suite, benchmarks)
    if replicas is not None and replicas < 1:
        raise InputError(f"replicas: {replicas}; expected 1 or more")
    check_model(model, chat_template=False)
    chosen = choose_template(template, model)

    from evaluation.generation.engine import on_cpu, prepare_environment
    from evaluation.generation.sample_cache import SampleCache

    prepare_environment()
    tokenizer = _load_tokenizer(model, trust_remote_code)
    requests = sample_requests(suite, names, sampling, chosen, tokenizer)
    decisive = {
        "checkpoint": checkpoint or checkpoint_digest(model),
        **{name: value for name, value in asdict(sampling).items() if name != "samples"},
        "device": "cpu" if on_cpu() else "cuda",
        "vllm": _vllm_version(),
    }
    metadata = {
        "checkpoint": decisive["checkpoint"],
        "sampling": json.dumps(asdict(sampling)),
        "model": str(model),
        "device": decisive["device"],
        **_prompt_record(model, suite, chosen, tokenizer).metadata(),
    }
    output = _Output(out, requests, metadata, report)
    with SampleCache(cache, decisive) as samples:
        cached = samples.lookup(request.key for request in requests)
        output.progress.skip(Counter(request.benchmark for request in requests if request.key in cached))
        missing: dict[SampleKey, list[SampleRequest]] = defaultdict(list)
        for request in requests:
            if request.key in cached:
                output.add(request, cached[request.key])
            else:
                missing[request.key].append(request)  # several benchmarks may ask for the same prompt
        unique = [same[0] for same in missing.values()]
        for key, completion in _draw(model, unique, sampling, tokenizer, replicas, trust_remote_code):
            samples.add(key, completion)
            for request in missing[key]:
                output.progress.add(request.benchmark)
                output.add(request, completion)
    assert set(output.paths) == set(names), f"not generated: {sorted(set(names) - set(output.paths))}"
    return output.paths


def _draw(
    model: Path,
    requests: Sequence[SampleRequest],
    sampling: Sampling,
    tokenizer: Any,
    replicas: int | None,
    trust_remote_code: bool,
) -> Iterator[tuple[SampleKey, Completion]]:
    """Completions in the order in which they finish; a prompt that fills the context gets an empty one."""
    if not requests:
        return
    from evaluation.generation.engine import EngineOptions, EngineRequest, context_limit
    from evaluation.generation.replicas import complete_all, gpu_count

    context = context_limit(str(model), trust_remote_code=trust_remote_code)
    tokens = {  # the template has written the special tokens already
        prompt: tuple(tokenizer.encode(prompt, add_special_tokens=False))
        for prompt in dict.fromkeys(request.prompt for request in requests)
    }
    fitting = []
    for number, request in enumerate(requests):
        if len(tokens[request.prompt]) >= context:
            yield request.key, Completion("", 0, "length")
        else:
            fitting.append(EngineRequest(number, tokens[request.prompt], request.seed))
    if not fitting:
        return
    options = EngineOptions(
        model=str(model),
        longest_prompt=max(len(request.tokens) for request in fitting),
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        trust_remote_code=trust_remote_code,
    )
    for number, completion in complete_all(options, fitting, replicas or max(1, gpu_count())):
        yield requests[number].key, completion


class _Output:
    """Collects the samples of each benchmark and writes its file when it is complete."""

    def __init__(
        self,
        out: Path,
        requests: Sequence[SampleRequest],
        metadata: dict[str, str],
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        self._out, self._metadata = out, metadata
        self._totals = Counter(request.benchmark for request in requests)
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._began = time.monotonic()
        self.progress = BatchProgress("generate", self._totals, report)
        self.paths: dict[str, Path] = {}

    def add(self, request: SampleRequest, completion: Completion) -> None:
        import pyarrow as pa

        from core.schemas import SAMPLE

        name = request.benchmark
        row = request._asdict() | completion._asdict()
        self._rows[name].append({column: row[column] for column in SAMPLE.names})
        if len(self._rows[name]) == self._totals[name]:
            rows = sorted(self._rows.pop(name), key=lambda row: (row["id"], row["sample"]))
            path = self._out / f"{name}.parquet"
            seconds = {"seconds": f"{time.monotonic() - self._began:.1f}"}
            write_table(pa.Table.from_pylist(rows, schema=SAMPLE), path, self._metadata | seconds)
            self.paths[name] = path


def _select(suite: "pa.Table", benchmarks: Sequence[str] | None) -> list[str]:
    names = suite["benchmark"].unique().to_pylist()
    if unknown := [name for name in benchmarks or [] if name not in names]:
        raise InputError(f"benchmark {', '.join(unknown)}: not in the suite, which has {', '.join(names) or 'nothing'}")
    return [name for name in names if benchmarks is None or name in benchmarks]


def _load_tokenizer(model: Path, trust_remote_code: bool) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model, trust_remote_code=trust_remote_code, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InputError(f"model {model}: its tokenizer cannot be loaded ({error}); save it there again") from error


def _vllm_version() -> str:
    """The distribution that provides vllm, and its version: another one may draw other samples."""
    from importlib import metadata

    name = metadata.packages_distributions()["vllm"][0]
    return f"{name} {metadata.version(name)}"


def _prompt_record(model: Path, suite: "pa.Table", template: Template, tokenizer: ChatTokenizer) -> PromptRecord:
    """The prompt that the samples answer, and the one that the checkpoint was trained with, if that is known."""
    conversation = suite["prompt"][0].as_py()
    try:
        trained = bool(tokenizer.chat_template) and training_system(model) is not None
    except InputError:  # the targets are gone, but you named a template: only this record depends on them
        trained = False
    return PromptRecord(
        template.name,
        template.thinking,
        prompt_frame(conversation, tokenizer, template),
        prompt_frame(conversation, tokenizer, choose_template(TRAINING, model)) if trained else None,
    )
