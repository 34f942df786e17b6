"""Simulate the modes of rollouts: phase times in, seconds per step and utilisation out.

``.venv/bin/python -m perf.trainings.rollouts`` predicts 8 GPUs and prints the table of docs/asynchronous.md. No GPU has
measured it. ``.venv-train/bin/python -m perf.trainings.steps --rollouts`` fits the phases to a measured synchronous run
on this machine, and compares what is simulated for the other modes with what is measured.

The rules are those of docs/asynchronous.md. Each server decodes up to ``slots`` samples at once, and all of them get
their next token in ``iteration + sample x (samples at once)`` seconds. A step waits until as many groups are complete
as a batch has, and all that would grow too old.
"""

import heapq
import json
import math
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from perf.measurement import parser_of
from training.resources.machine import Card, card_of
from training.resources.model_shape import ModelShape
from training.resources.roofline import BANDWIDTH, COMPUTE, LINK

Batch = Sequence[Sequence[int]]  # for each group the tokens that vLLM generates for each of its samples


@dataclass(frozen=True)
class Phases:
    """The costs of the parts of a step, in seconds."""

    iteration: float  # one token of every sample of a server: what does not depend on their number
    sample: float  # and for each of them
    token: float  # the trainer's, for each generated token: log-probabilities and updates
    step: float  # the trainer's, for each step
    weights: float  # sending the weights, while nothing is generated
    servers: int = 1
    slots: int = 1 << 30  # samples that a server decodes at once
    contention: float = 1.0  # how much longer both take while the trainer computes and vLLM decodes


@dataclass(frozen=True)
class Simulated:
    """Means over the steps after the staleness has reached its maximum."""

    seconds: float  # per step
    trainer: float  # share of the time in which the trainer computes
    rollouts: float  # share of the time in which a server decodes, averaged over the servers
    age: float  # steps from the dispatch of the samples to their training

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s, trainer {self.trainer:.0%}, rollouts {self.rollouts:.0%}, age {self.age:.1f}"


@dataclass
class Server:
    """vLLM's continuous batching: samples that wait, and those that are decoded, by the iteration that ends them."""

    phases: Phases
    waiting: deque[tuple[int, int]] = field(default_factory=deque)  # tokens, group
    running: list[tuple[float, int]] = field(default_factory=list)
    iterations: float = 0.0
    busy: float = 0.0
    slowdown: float = 1.0

    def add(self, tokens: int, group: int) -> None:
        self.waiting.append((tokens, group))
        self._admit()

    def until_next(self) -> float:
        """Return the seconds until the next sample ends; infinite without samples."""
        return (self.running[0][0] - self.iterations) * self._rate() if self.running else math.inf

    def advance(self, seconds: float) -> list[int]:
        """Return the groups of the samples that end within ``seconds``."""
        ended = []
        while self.running and self.until_next() <= seconds:
            seconds -= self._decode(self.until_next())
            self.iterations, group = heapq.heappop(self.running)
            ended.append(group)
            self._admit()
        if self.running:
            self._decode(seconds)
        return ended

    def _decode(self, seconds: float) -> float:
        self.iterations += seconds / self._rate()
        self.busy += seconds
        return seconds

    def _rate(self) -> float:
        return self.slowdown * (self.phases.iteration + self.phases.sample * len(self.running))

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.phases.slots:
            tokens, group = self.waiting.popleft()
            heapq.heappush(self.running, (self.iterations + tokens, group))


def simulate(mode: str, staleness: int, phases: Phases, batches: Sequence[Batch]) -> Simulated:
    """Simulate a run of ``batches``, one after the other, in ``mode`` (sync, colocate_async or separate_async).

    Every sample has at least one token, and there are more batches than two times the staleness.

    >>> phases = Phases(iteration=0.01, sample=0.0, token=0.0, step=4.0, weights=0.5)
    >>> batches = [[[100, 300]]] * 9  # one group of two samples: 3 s of decoding
    >>> print(simulate("sync", 0, phases, batches))
    7.50 s, trainer 53%, rollouts 40%, age 0.0
    >>> print(simulate("separate_async", 1, phases, batches))
    4.50 s, trainer 89%, rollouts 67%, age 1.0
    >>> phases = Phases(0.01, 0.0, 0.0, 4.0, 0.5, contention=1.5)  # decoding takes 4.5 s, and the trainer 5.5 s
    >>> print(simulate("separate_async", 1, phases, batches))
    6.00 s, trainer 92%, rollouts 75%, age 1.0
    """
    ahead = 0 if mode == "sync" else staleness
    rollouts = Rollouts(phases)
    clock, records = 0.0, []
    for step in range(ahead):
        rollouts.dispatch(batches[step], step - ahead)
    for step, batch in enumerate(batches):
        started, busy = clock, rollouts.busy()
        if step + ahead < len(batches):
            rollouts.dispatch(batches[step + ahead], step)
        clock += rollouts.wait(len(batch), step - ahead)
        groups = [rollouts.take() for _ in batch]
        trained = phases.step + phases.token * sum(group.tokens for group in groups)
        if mode == "separate_async":
            trained = rollouts.generate_beside(trained)
        clock += trained + phases.weights
        age = fmean(step - max(0, group.since) for group in groups)
        records.append((clock - started, trained, rollouts.busy() - busy, age))
    steady = records[ahead : len(records) - ahead]
    seconds, trained, busy, ages = (sum(column) for column in zip(*steady, strict=True))
    return Simulated(seconds / len(steady), trained / seconds, busy / phases.servers / seconds, ages / len(steady))


@dataclass
class Group:
    """The samples of a prompt."""

    since: int  # the step at whose beginning it was dispatched
    tokens: int
    left: int  # samples that are not complete


class Rollouts:
    """The servers, and the groups that wait, are decoded or are complete; groups are numbered in their order."""

    def __init__(self, phases: Phases) -> None:
        self._phases = phases
        self._servers = [Server(phases) for _ in range(phases.servers)]
        self._groups: list[Group] = []
        self._open: set[int] = set()
        self._ready: list[int] = []

    def busy(self) -> float:
        """Return the seconds of decoding so far, of all servers."""
        return sum(server.busy for server in self._servers)

    def dispatch(self, batch: Batch, since: int) -> None:
        """Send each sample of a batch to the server with the fewest."""
        for lengths in batch:
            number = len(self._groups)
            self._groups.append(Group(since, sum(lengths), len(lengths)))
            self._open.add(number)
            for tokens in lengths:
                least = min(self._servers, key=lambda server: len(server.waiting) + len(server.running))
                least.add(tokens, number)

    def wait(self, count: int, oldest: int) -> float:
        """Decode until ``count`` groups are complete, and all that are as old as ``oldest``; the seconds it takes."""
        total = 0.0
        while len(self._ready) < count or any(self._groups[number].since <= oldest for number in self._open):
            total += self._decode(self._until_next())
        return total

    def take(self) -> Group:
        """Return the first of the complete groups, which is trained on."""
        return self._groups[heapq.heappop(self._ready)]

    def generate_beside(self, work: float) -> float:
        """Return the seconds that the trainer needs for ``work`` while vLLM decodes."""
        total = 0.0
        while work > 0:
            slowdown = self._phases.contention if any(server.running for server in self._servers) else 1.0
            for server in self._servers:
                server.slowdown = slowdown
            seconds = self._decode(min(work * slowdown, self._until_next()))
            total += seconds
            work = work - seconds / slowdown if seconds < work * slowdown else 0.0
        for server in self._servers:
            server.slowdown = 1.0
        return total

    def _until_next(self) -> float:
        return min(server.until_next() for server in self._servers)

    def _decode(self, seconds: float) -> float:
        for server in self._servers:
            for number in server.advance(seconds):
                self._groups[number].left -= 1
                if self._groups[number].left == 0:
                    self._open.remove(number)
                    heapq.heappush(self._ready, number)
        return seconds


def fit(records: Sequence[Mapping[str, float]], batches: Sequence[Batch]) -> Phases:
    """The phases of a synchronous run with one server, by least squares over its steps, each with its ``batches``."""
    from scipy.optimize import nnls

    samples = [[tokens for group in batch for tokens in group] for batch in batches]
    totals = np.array([sum(tokens) for tokens in samples], dtype=float)
    columns = np.stack([[max(tokens) for tokens in samples], totals], axis=1)
    (iteration, sample), _ = nnls(columns, np.array([record["timing_s/gen"] for record in records]))
    parts = ("timing_s/old_log_prob", "timing_s/adv", "timing_s/update_actor")
    trained = np.array([sum(record[part] for part in parts) for record in records])
    weights = fmean(record["timing_s/update_weights"] for record in records)
    whole = np.array([step_seconds(record) for record in records])
    rest = (
        whole - trained - np.array([record["timing_s/gen"] + record["timing_s/update_weights"] for record in records])
    )
    token = float(trained.sum() / totals.sum())
    return Phases(float(iteration), float(sample), token, max(0.0, float(rest.mean())), weights)


def step_seconds(record: Mapping[str, float]) -> float:
    """Return the seconds of a step without its checkpoint."""
    return record["timing_s/step"] - record.get("timing_s/save_checkpoint", 0.0)


def generated(file: Path, tokenizer: Path) -> Batch:
    """The tokens that vLLM generated for the samples of a step, which verl wrote to ``file``, by their prompts."""
    from tokenizers import Tokenizer

    count = Tokenizer.from_file(str(tokenizer))
    groups: dict[str, list[int]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        tokens = len(count.encode(row["output"], add_special_tokens=False).ids) + 1 - row["prefix_length"]
        if row["prefix_length"] == 0 or tokens > 1:  # the others are whole targets
            groups.setdefault(row["input"], []).append(max(1, tokens))
    return list(groups.values())


# What is predicted: a step of the paper's recipe with Qwen2.5-7B, all of its samples generated.
SHAPE = ModelShape.of_config(
    {
        "hidden_size": 3584,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "intermediate_size": 18944,
        "vocab_size": 152064,
    }
)
GPUS, GROUPS, SAMPLES, STEPS, SIGMA = 8, 128, 8, 12, 1.0
MEANS = (2048, 8192, 32768)
CACHE = {True: 0.6, False: 0.9}  # share of the memory for vLLM: with the actor on the same GPU, and alone
BYTES, PASSES = 2, 5  # of a bfloat16; forward passes of log-probabilities and of an update with checkpointing


def gpu_phases(card: Card, mean: float, trainer: int, rollouts: int) -> Phases:
    """Predict the phases on ``trainer`` and ``rollouts`` GPUs; the two share them if each is all of them."""
    shared = trainer + rollouts > GPUS
    cached = 2 * BYTES * SHAPE.layers * SHAPE.kv_width  # bytes of a token
    room = CACHE[shared] * card.memory - BYTES * SHAPE.parameters
    forward = 2 * SHAPE.parameters + 4 * SHAPE.layers * SHAPE.hidden * mean / 2
    moved = 2 * SHAPE.parameters
    return Phases(
        iteration=BYTES * SHAPE.parameters / (card.bandwidth * BANDWIDTH),
        sample=max(cached * mean / 2 / (card.bandwidth * BANDWIDTH), 2 * SHAPE.parameters / (card.flops * COMPUTE)),
        token=PASSES * forward / (trainer * card.flops * COMPUTE),
        step=0.0,
        weights=moved / (card.link * LINK) + moved / (card.bandwidth * BANDWIDTH),
        servers=rollouts,
        slots=max(1, int(room / (cached * mean))),
    )


def long_tailed(mean: float, seed: int = 0) -> list[Batch]:
    """Draw batches whose lengths are lognormal with this mean and `SIGMA`, cut at four times the mean."""
    draws = np.random.default_rng(seed).lognormal(math.log(mean) - SIGMA**2 / 2, SIGMA, (STEPS, GROUPS, SAMPLES))
    return np.clip(draws, 1, 4 * mean).astype(int).tolist()


def table(card: Card) -> str:
    """Return the prediction as Markdown: for each mean length the modes, with the best division of the GPUs."""
    columns = ("mean length", "rollouts", "staleness", "GPUs, actor + vLLM", "seconds per step", "actor computes")
    lines = [f"| {' | '.join(columns)} | vLLM decodes | speed-up |", "|--:|---|--:|--:|--:|--:|--:|--:|"]
    for mean in MEANS:
        batches, shared = long_tailed(mean), gpu_phases(card, mean, GPUS, GPUS)
        base = simulate("sync", 0, shared, batches)
        rows = [("sync", 0, f"{GPUS} shared", base)]
        rows += [("colocate_async", 1, f"{GPUS} shared", simulate("colocate_async", 1, shared, batches))]
        for staleness in (1, 4):
            divided = {
                actor: simulate("separate_async", staleness, gpu_phases(card, mean, actor, GPUS - actor), batches)
                for actor in range(1, GPUS)
            }
            actor = min(divided, key=lambda number: divided[number].seconds)
            rows += [("separate_async", staleness, f"{actor} + {GPUS - actor}", divided[actor])]
        for mode, staleness, gpus, result in rows:
            figures = f"{result.seconds:,.0f} | {result.trainer:.0%} | {result.rollouts:.0%}"
            speed_up = f"{base.seconds / result.seconds:.2f}"
            lines.append(f"| {mean:,} | `{mode}` | {staleness} | {gpus} | {figures} | {speed_up} |")
    return "\n".join(lines)


def main() -> None:
    parser = parser_of("trainings.rollouts", "Predict the modes of rollouts on GPUs.")
    parser.add_argument("--gpu", default="H100", help="name of the cards (default %(default)s)")
    card = card_of(parser.parse_args().gpu)
    if card is None:
        parser.error("--gpu: no such card in training/resources/machine.py")
    sys.stdout.write(table(card) + "\n")


if __name__ == "__main__":
    main()
