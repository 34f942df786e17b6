"""Generate samples; samples that any command has drawn before are reused.

The model, the rendered prompt, the sampling and the sample's number decide a sample, which is stored under that name
(`sample_cache`). Nothing is cut silently: a response that stops at the token limit, or a prompt that does not fit the
context, is stored with the ``finish_reason`` "length".
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.files import write_table
from core.machine.request_paths import writable_folder
from core.model.calls import name_of
from core.progress import BatchProgress
from evaluation.generation.endpoint import Endpoint
from evaluation.generation.model_source import LocalModel
from evaluation.generation.requests import Completion, Counts, SampleKey, SampleRequest, Sampling, sample_requests

if TYPE_CHECKING:
    import pyarrow as pa

    from evaluation.generation.sample_cache import SampleCache

CACHE = Path("var/storage/samples")  # cache of the command line; the Dagster assets keep theirs in their storage


def generate(
    model: LocalModel | Endpoint,
    suite: "pa.Table",
    out: Path,
    *,
    benchmarks: Sequence[str] | None = None,
    sampling: Sampling | None = None,
    counts: Counts | None = None,
    cache: Path = CACHE,
    report: Callable[[dict[str, Any]], None] = lambda event: None,
) -> dict[str, Path]:
    """Draw samples and write one SAMPLE table per benchmark below ``out``; returns the paths by benchmark.

    A file appears when its benchmark is complete; its metadata holds the checkpoint, the sampling, the prompt template,
    the device and the model. A local model is loaded once for all benchmarks.

    Args:
        model: see `evaluation.generation.model_source.open_model`.
        suite: BENCHMARK table.
        out: folder for ``<benchmark>.parquet``.
        benchmarks: names of those to sample; all of the suite by default.
        sampling: see `Sampling`.
        counts: samples of each problem that is asked, where the sampling leaves them to somebody else.
        cache: folder where samples are stored within seconds of being drawn.
        report: receives progress events.

    Raises InputError for a benchmark that the suite lacks, and a template that needs a chat template that the tokenizer
    lacks.
    """
    from core.schemas import UNTIL_DECIDED
    from evaluation.generation.sample_cache import SampleCache

    sampling = sampling or Sampling()
    names = _select(suite, benchmarks)
    decisive = model.decisive()
    tools = model.tools
    requests = sample_requests(suite, names, sampling, model.render, counts, tools.digest() if tools else "")
    called = {"tools": ", ".join(map(name_of, tools.schemas()))} if tools else {}
    calling = {request.benchmark for request in requests if request.episode}
    shared = {
        "checkpoint": model.checkpoint,
        "sampling": json.dumps(asdict(sampling) | ({} if counts is None else {"samples": UNTIL_DECIDED})),
        "model": str(model.folder) if isinstance(model, LocalModel) else model.checkpoint,
        "device": decisive["device"],
    }
    metadata = {name: shared | model.prompt_record(suite, calls=name in calling).metadata() for name in names}
    metadata |= {name: metadata[name] | called for name in calling}
    output = _Output(out, requests, metadata, report)
    with SampleCache(cache, decisive | sampling.decisive()) as samples:
        for request, completion in complete(model, requests, sampling, samples, output.progress):
            output.add(request, completion)
    assert set(output.paths) == set(names), f"not generated: {sorted(set(names) - set(output.paths))}"
    return output.paths


def complete(
    model: LocalModel | Endpoint,
    requests: Sequence[SampleRequest],
    sampling: Sampling,
    samples: "SampleCache",
    progress: BatchProgress,
    **options: Any,
) -> Iterator[tuple[SampleRequest, Completion]]:
    """Yield each request with its completion: first those in ``samples``, then the others as ``model`` draws them.

    Requests of the same prompt and number are one sample. ``options`` are further ones of the model's ``draw``.
    Raises InputError if samples must be drawn, and ``samples`` cannot keep them.
    """
    cached = samples.lookup(request.key for request in requests)
    progress.skip(Counter(request.benchmark for request in requests if request.key in cached))
    missing: dict[SampleKey, list[SampleRequest]] = defaultdict(list)
    for request in requests:
        if request.key in cached:
            yield request, cached[request.key]
        else:
            missing[request.key].append(request)
    if not missing:
        return
    writable_folder(samples.folder)
    unique = [same[0] for same in missing.values()]
    with closing(model.draw(unique, sampling, samples, **options)) as drawn:
        for number, completion in drawn:
            for request in missing[unique[number].key]:
                progress.add(request.benchmark)
                yield request, completion


class _Output:
    """Collects the samples of each benchmark and writes its file when it is complete."""

    def __init__(
        self,
        out: Path,
        requests: Sequence[SampleRequest],
        metadata: Mapping[str, dict[str, str]],
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

        from core.schemas import SAMPLE, TURNS

        name, schema = request.benchmark, SAMPLE.append(TURNS) if request.episode else SAMPLE
        row = request._asdict() | completion._asdict()
        self._rows[name].append({column: row[column] for column in schema.names})
        if len(self._rows[name]) == self._totals[name]:
            rows = sorted(self._rows.pop(name), key=lambda row: (row["id"], row["sample"]))
            path = self._out / f"{name}.parquet"
            seconds = {"seconds": f"{time.monotonic() - self._began:.1f}"}
            write_table(pa.Table.from_pylist(rows, schema=schema), path, self._metadata[name] | seconds)
            self.paths[name] = path


def _select(suite: "pa.Table", benchmarks: Sequence[str] | None) -> list[str]:
    names = suite["benchmark"].unique().to_pylist()
    if unknown := [name for name in benchmarks or [] if name not in names]:
        raise InputError(f"benchmark {', '.join(unknown)}: not in the suite, which has {', '.join(names) or 'nothing'}")
    return [name for name in names if benchmarks is None or name in benchmarks]
