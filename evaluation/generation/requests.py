"""The samples to draw and how (`Sampling`): one request per sample, with its own prompt and seed."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from core.errors import InputError
from core.files import digest_bytes
from core.model.prompts import Messages
from evaluation.benchmarks.suite import ALONE, suite_entries
from grading.row_fields import row_fields

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


class Beginning(NamedTuple):
    """The prompt of an episode as messages, the digest of the tools that it may call, and the row that they read."""

    conversation: Messages
    tools: str
    row: Mapping[str, Any]


class SampleRequest(NamedTuple):
    """One sample of one problem; with an ``episode``, it may call tools."""

    benchmark: str
    id: str
    sample: int
    prompt: str
    prompt_digest: str
    seed: int
    episode: Beginning | None = None

    @property
    def key(self) -> SampleKey:
        """The sample's name in the cache."""
        return self.prompt_digest, self.sample


class Completion(NamedTuple):
    """What the model answered: its text, its length in tokens, and "stop" or "length"; where they were asked for, its
    tokens and the model's log-probability of each.

    Of an episode, the text is the turn that states the answer, and ``turns`` has all of them with the observations.
    """

    response: str
    tokens: int
    finish_reason: str
    token_ids: list[int] | None = None
    log_probs: list[float] | None = None
    turns: list[dict[str, str]] | None = None


def prompt_digest(prompt: str, episode: Beginning | None = None) -> str:
    """Return the sha256 of a rendered prompt; of an ``episode``, with its tools and its row."""
    decides = json.dumps([prompt, episode.tools, episode.row], sort_keys=True) if episode else prompt
    return digest_bytes(decides.encode())


def sample_seed(seed: int, prompt_digest: str, sample: int) -> int:
    """Return the seed of one sample (31 bits), or of a turn of it: the same whatever else is generated with it."""
    digest = hashlib.sha256(f"{seed}/{prompt_digest}/{sample}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def requests_of(
    benchmark: str, problem: str, prompt: str, seed: int, samples: int, episode: Beginning | None = None
) -> list[SampleRequest]:
    """Return one request for each of the ``samples`` of a problem, which is named by its id."""
    digest = prompt_digest(prompt, episode)
    return [
        SampleRequest(benchmark, problem, k, prompt, digest, sample_seed(seed, digest, k), episode)
        for k in range(samples)
    ]


def sample_requests(
    suite: "pa.Table",
    names: "Sequence[str]",
    sampling: Sampling,
    render: Callable[..., str],
    counts: Counts | None = None,
    tools: str = "",
) -> list[SampleRequest]:
    """Return the requests for the benchmarks ``names`` of a BENCHMARK table, with prompts by ``render``.

    Args:
        render: `evaluation.generation.model_source.LocalModel.render`, or another model's.
        counts: samples of each problem that is asked, by benchmark; None: as ``sampling`` says.
        tools: digest of the tools that the model may call, except in benchmarks of the group `ALONE`.

    Raises:
        InputError: ``counts`` name a problem that the suite lacks.
    """
    from core.schemas import FIELDS

    if counts is not None:
        _check_counts(suite, names, counts)
    entries = {benchmark.name: benchmark for benchmark in suite_entries(suite)}
    requests = []
    for row in suite.to_pylist():
        name, conversation, episode = row["benchmark"], row["prompt"], None
        if name not in names:
            continue
        if tools and entries[name].group != ALONE:
            episode = Beginning(conversation, tools, row_fields(name, row["problem"], row[FIELDS.name]))
        prompt = render(conversation, calls=True) if episode else render(conversation)
        default = sampling.samples or entries[name].samples
        samples = default if counts is None else counts[name].get(row["id"], 0)
        requests += requests_of(name, row["id"], prompt, sampling.seed, samples, episode)
    return requests


def _check_counts(suite: "pa.Table", names: "Sequence[str]", counts: Counts) -> None:
    problems = set(zip(suite["benchmark"].to_pylist(), suite["id"].to_pylist(), strict=True))
    for name in names:
        if not counts.get(name):
            raise InputError(f"counts: no problem of {name}; expected {{benchmark: {{problem id: samples}}}}")
        if unknown := sorted(problem for problem in counts[name] if (name, problem) not in problems):
            raise InputError(f"counts: {name}: {unknown[0]!r} is no problem of the suite; count those that it has")
