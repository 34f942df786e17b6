"""Complete requests: take samples from the cache, and draw only the missing ones."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from core.machine.request_paths import writable_folder
from core.progress import BatchProgress
from evaluation.generation.endpoint import Endpoint
from evaluation.generation.model_source import LocalModel
from evaluation.generation.requests import Completion, SampleKey, SampleRequest, Sampling
from evaluation.generation.sample_cache import SampleCache


def complete(
    model: LocalModel | Endpoint,
    requests: Sequence[SampleRequest],
    sampling: Sampling,
    samples: SampleCache,
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
