"""The samples to draw and how (`Sampling`): one request per sample, with its own prompt and seed."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from core.errors import InputError
from core.files import digest_bytes
from core.model.prompts import Messages
from evaluation.benchmarks.suite import suite_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

Counts = Mapping[str, Mapping[str, int]]  # samples by benchmark and id of the problem
SampleKey = tuple[str, int]  # digest of the prompt, number of the sample


@dataclass(frozen=True)
class Sampling:
    """How samples are drawn. ``samples``: per problem; None takes the k of each benchmark's avg@k."""

    samples: int | None = None
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 8192
    seed: int = 0

    def decisive(self) -> dict[str, Any]:
        """Return what decides a sample: everything but how many of them there are."""
        return {name: value for name, value in asdict(self).items() if name != "samples"}


class SampleRequest(NamedTuple):
    """One sample of one problem."""

    benchmark: str
    id: str
    sample: int
    prompt: str
    prompt_digest: str
    seed: int

    @property
    def key(self) -> SampleKey:
        """The sample's name in the cache."""
        return self.prompt_digest, self.sample


class Completion(NamedTuple):
    """What the model answered: its text, its length in tokens, and "stop" or "length"; where they were asked for, its
    tokens and the model's log-probability of each.
    """

    response: str
    tokens: int
    finish_reason: str
    token_ids: list[int] | None = None
    log_probs: list[float] | None = None


def prompt_digest(prompt: str) -> str:
    """Return the sha256 of a rendered prompt."""
    return digest_bytes(prompt.encode())


def sample_seed(seed: int, prompt_digest: str, sample: int) -> int:
    """Return the seed of one sample (31 bits): the same whatever else is generated with it."""
    digest = hashlib.sha256(f"{seed}/{prompt_digest}/{sample}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def requests_of(benchmark: str, problem: str, prompt: str, seed: int, samples: int) -> list[SampleRequest]:
    """Return one request for each of the ``samples`` of a problem, which is named by its id."""
    digest = prompt_digest(prompt)
    return [SampleRequest(benchmark, problem, k, prompt, digest, sample_seed(seed, digest, k)) for k in range(samples)]


def sample_requests(
    suite: "pa.Table",
    names: "Sequence[str]",
    sampling: Sampling,
    render: Callable[[Messages], str],
    counts: Counts | None = None,
) -> list[SampleRequest]:
    """Return the requests for the benchmarks ``names`` of a BENCHMARK table, with prompts by ``render``.

    Args:
        counts: samples of each problem that is asked, by benchmark; None: as ``sampling`` says.

    Raises:
        InputError: ``counts`` name a problem that the suite lacks.
    """
    if counts is not None:
        _check_counts(suite, names, counts)
    default = {benchmark.name: sampling.samples or benchmark.samples for benchmark in suite_entries(suite)}
    requests = []
    for row in suite.select(["benchmark", "id", "prompt"]).to_pylist():
        name, problem = row["benchmark"], row["id"]
        if name in names:
            samples = default[name] if counts is None else counts[name].get(problem, 0)
            requests += requests_of(name, problem, render(row["prompt"]), sampling.seed, samples)
    return requests


def _check_counts(suite: "pa.Table", names: "Sequence[str]", counts: Counts) -> None:
    problems = set(zip(suite["benchmark"].to_pylist(), suite["id"].to_pylist(), strict=True))
    for name in names:
        if not counts.get(name):
            raise InputError(f"counts: no problem of {name}; expected {{benchmark: {{problem id: samples}}}}")
        if unknown := sorted(problem for problem in counts[name] if (name, problem) not in problems):
            raise InputError(f"counts: {name}: {unknown[0]!r} is no problem of the suite; count those that it has")
