"""What an embedding model needs beside the settings, while problems are filtered: its endpoint and the benchmarks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grading.contamination import generated_benchmarks, is_compared
from targets.embedding.embedding_client import Embedder, Endpoint
from targets.embedding.embedding_settings import EmbeddingSettings
from targets.embedding.server import serve
from targets.embedding.similarity import BenchmarkVectors

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Meaning:
    """An endpoint that answers, and the vectors of benchmark problems; None where nothing is compared with them."""

    endpoint: Endpoint
    benchmarks: BenchmarkVectors | None

    def matches(self, problems: Sequence[str], vectors: np.ndarray) -> list[tuple[dict[str, str], float] | None]:
        """The benchmark problem that each problem paraphrases, and the similarity in percent."""
        if self.benchmarks is None:
            return [None] * len(problems)
        rows = self.benchmarks.rows
        return [
            (rows[alike.number], alike.similarity) if alike else None
            for alike in self.benchmarks.match(problems, vectors)
        ]


@contextmanager
def open_meaning(settings: EmbeddingSettings, benchmarks: "pa.Table | None") -> Iterator[Meaning]:
    """Reach the endpoint of the model, or serve its folder, until the block ends.

    ``benchmarks`` has BENCHMARK rows. Raises what `serve` and `Endpoint.reach` raise.
    """
    if settings.url is None:
        with serve(Path(settings.model)) as (url, key):
            yield _opened(Endpoint.reach(settings, url, key), benchmarks)
    else:
        yield _opened(Endpoint.reach(settings, settings.url), benchmarks)


def _opened(endpoint: Endpoint, benchmarks: "pa.Table | None") -> Meaning:
    threshold = endpoint.settings.paraphrased_benchmark
    if benchmarks is None or threshold is None:
        return Meaning(endpoint, None)
    generated = generated_benchmarks(benchmarks)
    rows = benchmarks.select(["benchmark", "id", "problem"]).to_pylist()
    rows = [row for row in rows if row["benchmark"] not in generated and is_compared(row["problem"])]
    with Embedder(endpoint) as embedder:
        vectors = distinct_vectors([row["problem"] for row in rows], embedder)
    return Meaning(endpoint, BenchmarkVectors(rows, vectors, threshold))


def distinct_vectors(problems: Sequence[str], embedder: Embedder) -> np.ndarray:
    """The vectors of ``problems``, of which each is computed once."""
    distinct = list(dict.fromkeys(problems))
    vectors = dict(zip(distinct, embedder.vectors(distinct), strict=True))
    return np.stack([vectors[problem] for problem in problems]) if problems else embedder.vectors([])
