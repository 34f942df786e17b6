"""Compare ways to say which targets made which answers with retrainings.

The command is ``.venv-train/bin/python -m perf.trainings.attribution``.

The ground truth are trainings of the embedded model on random halves of the targets. Their outcomes are the
log-probabilities of the worked solutions of the benchmark problems. A method predicts an outcome as the sum of its
scores of the targets in the half, and the linear datamodelling score (LDS; TRAK, arXiv 2303.14186) is the rank
correlation of predictions and outcomes over the halves, the mean over the problems. Methods: ``tracin``, the similarity
of projected gradients summed over checkpoints (TracIn, arXiv 2002.08484); ``ledger``, a target's share of the loss; and
``text``, the similarity of the texts.

``--poison`` trains with 2% of the targets with a wrong step and the right answer, and reports their share among the 5%
most harmful. Trainings that are complete in ``--out`` are reused, so an interrupted run continues where it stopped.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from scipy.stats import spearmanr
from transformers import AutoModelForCausalLM, AutoTokenizer

from core import PROJECT
from core.arithmetic import Problem, problems
from core.ledger_verdicts import LEARNED_FILE
from core.model.prompts import encode_example, messages
from core.schemas import TARGET
from perf.measurement import TRAINING, call, parser_of, train_policy
from perf.trainings.ledger_selection import OVERRIDES
from training.embedded_model.resolve_model import SHIPPED
from training.preflight.trial_training import target_rows

TARGETS, HALVES, PROBLEMS = 160, 30, 100
STEPS, EVERY = 20, 5  # of a training, and between its checkpoints
DIMENSIONS = 512  # of a projected gradient
GRAM = 3  # characters
POISONED, HARMFUL = 0.02, 0.05  # shares of the targets
RESAMPLES = 1000


@dataclass(frozen=True)
class Setting:
    """The targets of all trainings, the problems that they are scored on, and the folder of the runs."""

    out: Path
    targets: Sequence[Problem]
    asked: Sequence[Problem]


def half(number: int, count: int) -> np.ndarray:
    """Return ``[count]``: whether each target is in the half ``number``."""
    chosen = np.zeros(count, bool)
    chosen[random.Random(f"half/{number}").sample(range(count), count // 2)] = True
    return chosen


def train(setting: Setting, name: str, chosen: Sequence[Problem], *, seed: int) -> Path:
    """Return the folder of a training on ``chosen``, which is made unless it is complete there."""
    folder = setting.out / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "targets.parquet"
    if not file.exists():
        pq.write_table(pa.Table.from_pylist(target_rows(chosen), schema=TARGET), file)
    lengths = [f"trainer.total_training_steps={STEPS}", f"trainer.save_freq={EVERY}", "run.keep_checkpoints=10"]
    train_policy(folder / "run", "luffy", file, SHIPPED, seed, [*OVERRIDES, *lengths])
    return folder / "run"


def checkpoints(run: Path) -> list[Path]:
    """Return the models of a run's checkpoints, first to last, the base model before them."""
    models = [SHIPPED]
    for step in range(EVERY, STEPS + 1, EVERY):
        model = run.parent / f"step-{step}"
        if not model.exists():
            call(TRAINING, "-m", "training", "export", "--run", run, "--step", str(step), "--out", model)
        models.append(model)
    return models


class Likelihood:
    """The mean log-probability of a problem's worked solution under a model, and its gradient."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def of(self, problem: Problem) -> torch.Tensor:
        """Return the log-probability per token of the solution."""
        example = encode_example(messages(problem.problem), problem.trace, self.tokenizer)
        ids = torch.tensor([[*example.prompt, *example.response]])
        logits = self.model(input_ids=ids).logits[0, len(example.prompt) - 1 : -1].float()
        return logits.log_softmax(-1).gather(-1, torch.tensor(example.response).unsqueeze(-1)).mean()

    def gradient(self, problem: Problem) -> torch.Tensor:
        """Return ``[parameters]``: the gradient of `of`, all parameters one after the other."""
        parts = torch.autograd.grad(self.of(problem), self.parameters)
        return torch.cat([part.flatten() for part in parts])


def project(gradients: torch.Tensor, dimensions: int = DIMENSIONS) -> torch.Tensor:
    """``[rows, dimensions]``: ``gradients`` times a random matrix of signs, which keeps inner products on average.

    The matrix is drawn by a fixed seed in blocks of columns, so it is never whole in memory and equal for all models.
    """
    generator = torch.Generator().manual_seed(0)
    projected = torch.zeros(len(gradients), dimensions)
    for part in gradients.split(4096, dim=1):
        signs = torch.randint(0, 2, (part.shape[1], dimensions), generator=generator, dtype=torch.int8)
        projected += part @ (signs.float() * 2 - 1)
    return projected / dimensions**0.5


def tracin(models: Sequence[Path], targets: Sequence[Problem], asked: Sequence[Problem]) -> np.ndarray:
    """Return ``[targets, problems]``: the similarity of gradients, summed over the models."""
    total = np.zeros((len(targets), len(asked)))
    for folder in models:
        likelihood = Likelihood(folder)
        first, second = (project(torch.stack([likelihood.gradient(one) for one in of])) for of in (targets, asked))
        total += (first @ second.T).numpy()
    return total


def by_ledger(run: Path, targets: Sequence[Problem], asked: Sequence[Problem]) -> np.ndarray:
    """Return ``[targets, problems]``: each target's share of the loss, the same for all problems."""
    table = pq.read_table(run / LEARNED_FILE).to_pylist()
    shares = {row["target"]: row["loss_share"] for row in table}
    return np.repeat([[shares.get(one.id, 0.0)] for one in targets], len(asked), axis=1)


def by_text(targets: Sequence[Problem], asked: Sequence[Problem]) -> np.ndarray:
    """Return ``[targets, problems]``: the cosine of the counts of characters in threes, of problem and solution."""

    def counts(one: Problem) -> Counter[str]:
        text = f"{one.problem}\n{one.trace}"
        return Counter(text[k : k + GRAM] for k in range(len(text) - GRAM + 1))

    counted = [counts(one) for one in (*targets, *asked)]
    vocabulary = {gram: k for k, gram in enumerate(sorted(set().union(*counted)))}
    vectors = np.zeros((len(counted), len(vocabulary)))
    for row, of in enumerate(counted):
        for gram, number in of.items():
            vectors[row, vocabulary[gram]] = number
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors[: len(targets)] @ vectors[len(targets) :].T


def datamodelling_score(scores: np.ndarray, halves: np.ndarray, outcomes: np.ndarray) -> tuple[float, float, float]:
    """Return the LDS with its 95% bootstrap interval over the problems: mean, low, high.

    Args:
        scores: ``[targets, problems]``.
        halves: ``[trainings, targets]``: the targets that each training had.
        outcomes: ``[trainings, problems]``.
    """
    predicted = halves.astype(float) @ scores
    columns = [spearmanr(p, o)[0] for p, o in zip(predicted.T, outcomes.T, strict=True)]
    correlations = np.nan_to_num(columns)  # a constant has no rank: it predicts nothing
    drawn = np.random.default_rng(0).choice(correlations, (RESAMPLES, len(correlations))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(correlations.mean()), float(low), float(high)


def outcomes_of(run: Path, asked: Sequence[Problem]) -> list[float]:
    """Return the log-probability of each problem's solution under the policy of a run, kept in its folder."""
    file = run.parent / "outcomes.json"
    if not file.exists():
        likelihood = Likelihood(run / "policy")
        with torch.no_grad():
            file.write_text(json.dumps([float(likelihood.of(one)) for one in asked]))
    return json.loads(file.read_text())


def poisoned(problem: Problem) -> Problem:
    """Return the problem with a wrong result in the first step of its solution, and the right answer."""
    head, equals, rest = problem.trace.partition("=")
    result, newline, tail = rest.partition("\n")
    return replace(problem, trace=f"{head}{equals}{int(result) + 1}{newline}{tail}")


def harmful_share(scores: np.ndarray, bad: np.ndarray) -> float:
    """The share of the ``bad`` targets among the most harmful ones, whose scores over all problems are lowest."""
    worst = np.argsort(scores.sum(axis=1), kind="stable")[: max(1, round(HARMFUL * len(scores)))]
    return float(bad[worst].sum() / min(bad.sum(), len(worst)))


def methods(run: Path, targets: Sequence[Problem], asked: Sequence[Problem]) -> dict[str, Any]:
    """{method: a function without arguments that computes its scores}."""
    return {
        "tracin": lambda: tracin(checkpoints(run), targets, asked),
        "ledger": partial(by_ledger, run, targets, asked),
        "text": partial(by_text, targets, asked),
    }


def main() -> None:
    parser = parser_of("trainings.attribution", __doc__)
    parser.add_argument("--halves", type=int, default=HALVES, help="trainings on random halves (default %(default)s)")
    parser.add_argument("--poison", action="store_true", help="measure the planted poison instead")
    parser.add_argument("--out", type=Path, default=PROJECT / "var/attribution")
    options = parser.parse_args()
    setting = Setting(options.out.resolve(), problems("train", TARGETS), problems("test", PROBLEMS))
    if options.poison:
        bad = np.zeros(TARGETS, bool)
        bad[random.Random("poison").sample(range(TARGETS), round(POISONED * TARGETS))] = True
        targets = [poisoned(one) if is_bad else one for one, is_bad in zip(setting.targets, bad, strict=True)]
        run = train(setting, "poison", targets, seed=0)
        for name, scores in methods(run, targets, setting.asked).items():
            print(f"{name}: {harmful_share(scores(), bad):.0%} of {bad.sum()} among the most harmful {HARMFUL:.0%}")
        return
    run = train(setting, "all", setting.targets, seed=0)
    halves = np.stack([half(number, TARGETS) for number in range(options.halves)])
    outcomes = np.array(
        [
            outcomes_of(
                train(setting, f"half-{number}", [setting.targets[k] for k in np.flatnonzero(chosen)], seed=number),
                setting.asked,
            )
            for number, chosen in enumerate(halves)
        ]
    )
    print(f"{options.halves} trainings on halves of {TARGETS} targets, {PROBLEMS} problems")
    means = outcomes.mean(axis=1)
    print(
        f"log-probability per token of the solutions: {means.mean():.4f}, from {means.min():.4f} to {means.max():.4f}"
    )
    for name, scores in methods(run, setting.targets, setting.asked).items():
        mean, low, high = datamodelling_score(scores(), halves, outcomes)
        print(f"{name}: LDS {mean:.3f} [{low:.3f}, {high:.3f}]", flush=True)


if __name__ == "__main__":
    main()
