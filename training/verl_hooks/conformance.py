"""What every method must hold, tried on seeded samples: ``luffy train check``."""

import inspect
import json
import math
import traceback
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

from core.errors import InputError, did_you_mean
from training.algorithms.replay import Trajectory
from training.algorithms.samples import Samples, Signal
from training.methods.given import Group, Prompt, Start
from training.methods.guided import Guided
from training.methods.method import Method
from training.verl_hooks.loss import PHI, TOP, WEIGHTS, from_logits, step_loss
from training.verl_hooks.metrics import batch_metrics, update_counts
from training.verl_hooks.target_uses import target_uses

GROUPS, N, PROMPT, LIMIT, STEP = 3, 8, 5, 10, 7
AT, HOLE = 2, 3  # where an observation stands in a response, and its tokens
ROWS = GROUPS * N
OTHERS, TOP_TOKENS = 4, 3  # tokens of the vocabulary besides the sampled one, and those that a teacher scores
# The ranks of an update, and where it is cut into micro-batches.
CUTS = ((1, (0, 8, 16, ROWS)), (2, (0, 12, ROWS)), (2, (0, 3, 12, 17, ROWS)))
TOLERANCE = 1e-9  # relative: everything is in float64
ROUNDING = 1e-6  # of figures, which are in float32 in part
LONGEST = 300  # characters of an error of the user's
PUBLISHED = "published"  # the mode of `Reduce` that depends on the cut, as the original does


@dataclass
class SeededTools:
    """The trainer, as a method asks for it, with answers that depend on the question alone."""

    seed: int = 0
    global_steps: int = STEP + 1
    n: int = N
    updates: list[str] = field(default_factory=list)

    def prompts(self) -> list[int]:
        return list(range(ROWS))

    def has_target(self, prompt: int) -> bool:
        return True

    def entropies(self, answers: Sequence[tuple[int, Trajectory]]) -> list[float]:
        return [float(sum(path.tokens)) for _, path in answers]

    def supervised_update(
        self,
        prompts: Sequence[int],
        loss: str,
        coefficients: Mapping[str, float],
        clip_grad: float,
    ) -> dict[str, float]:
        self.updates.append(loss)
        return {"sft_loss": 1.0, "grad_norm": 1.0}


def check_method(method: Method) -> list[str]:
    """Return what was tried.

    Raises:
        InputError: something does not hold; the message says what, and in which loss or line of the user's file.
    """
    try:
        return _tried(method)
    except InputError:
        raise
    except Exception as error:  # whatever the user's class raises
        raise InputError(f"method: {_place_of(error, method)}{type(error).__name__}: {_in_one_line(error)}") from error


def _place_of(error: Exception, method: Method) -> str:
    """Return the last line of the method's file that led to an error; "" if none did."""
    file = inspect.getfile(type(method))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{frames[-1].name}() in line {frames[-1].lineno} of {file}: " if frames else ""


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:LONGEST]


def _check_names(method: Method) -> None:
    """Refuse a public name of the user's that nobody calls and that looks like one that is called.

    Other public names may be helpers.
    """
    ours = next(kind for kind in type(method).__mro__ if kind.__module__.startswith("training."))
    called = [name for name in vars(Method) if not name.startswith(("_", "model_"))]
    for name in sorted({*dir(type(method))} - {*dir(ours)}):
        if name.startswith("_"):
            continue
        guess = did_you_mean(name, called)
        require(
            not guess,
            f"{name}: nothing calls or reads it{guess} The name of a helper begins with _",
        )


def _tried(method: Method) -> list[str]:
    _check_names(method)
    losses = method.losses()
    require(
        isinstance(losses, Mapping), f"losses(): got {type(losses).__name__}, expected a mapping of names to losses"
    )
    if method.supervised:
        return ["losses"]
    require("policy" in losses, "losses(): expected a loss called policy")
    samples = seeded_samples(method)
    unknown = [name for name in method.fields() if name not in samples.rows.keys()]  # noqa: SIM118  a TensorDict
    require(
        not unknown,
        f"fields(): samples have no {', '.join(unknown)}, but {', '.join(sorted(samples.rows.keys()))}; to use "
        "another number per sample, return it from the reward function, name it in rewards, and read samples.rewards",
    )
    tried = [*_check_hooks(method, samples)]
    before = deepcopy(method)
    update = Update(method, samples)
    for name, loss in losses.items():
        _check_loss(update, f"loss {name}", name)
        if loss.reduce != PUBLISHED:
            _check_cuts(update, f"loss {name}", name)
    _check_observations(update, Update(before, with_observations(samples)))
    return [*tried, "padding", "extremes", "cuts", "divisors", "observations"]


def require(holds: object, complaint: str) -> None:
    if not holds:
        raise InputError(f"method: {complaint}")


def _check_hooks(method: Method, samples: Samples) -> Iterator[str]:
    """The plan of a prompt, the hooks of the trainer in their order, with no rows too, and the state."""
    tools = SeededTools()
    for has_target in (True, False):
        prompt = Prompt(1, "p", STEP, 0, has_target, 0.0)
        drawn = dict(enumerate(method.plan(prompt, N)))
        draws = len(drawn)
        while more := method.draw_more(prompt, Group(dict.fromkeys(drawn, False), draws), N):
            drawn, draws = drawn | more, draws + len(more)
            require(
                draws <= N * N,
                "draw_more(): it never ends for a group without a right sample",
            )
        require(
            len(drawn) == N,
            f"plan(): expected {N} starts, one for each sample, got {len(drawn)}",
        )
        wrong = {type(start).__name__ for start in drawn.values() if not isinstance(start, Start)}
        require(not wrong, f"plan(): got {', '.join(sorted(wrong))}, expected starts, such as Start(ratio=0.5)")
    method.begin_epoch(ROWS, GROUPS)
    method.choose(tools, GROUPS)
    yield "plan"
    none = replace(samples, sampled=torch.zeros(ROWS, dtype=torch.bool))
    for batch in (samples, none):
        noted = method.note(batch, tools)
        wrong = [name for name, value in noted.items() if not isinstance(value, int | float)]
        require(not wrong, f"note(): {', '.join(wrong)}: expected metrics that are numbers")
        method.end_step({"actor/entropy": 0.5} if batch is samples else {})
        method.after_update(tools)
    require(
        set(tools.updates) <= {*method.losses()},
        f"after_update(): no loss {tools.updates} in losses()",
    )
    yield "hooks"
    try:
        json.dumps(method.state(), allow_nan=False)
    except (TypeError, ValueError) as error:
        why = "expected JSON values, finite even after a step without samples"
        raise InputError(f"method: state(): {error}: {why}") from error
    other = type(method).model_validate_json(method.model_dump_json())
    with TemporaryDirectory() as folder:
        method.save(Path(folder))
        other.load(Path(folder))
    require(other.state() == method.state(), "load(): the state is not what save() wrote")
    before, after = (one.__pydantic_private__ or {} for one in (method, other))
    lost = [name for name, value in before.items() if repr(value) != repr(after[name])]
    require(
        not lost,
        f"load(): {', '.join(lost)} changed in a step and is not what it was: state() must return it, and restore() "
        "take it over, or a resumed run differs",
    )
    require(
        other.losses() == method.losses(),
        "losses() depend on the state, which the workers do not have",
    )
    yield "state"


class Update:
    """The losses of a method on the samples of a step, as the workers compute them."""

    def __init__(self, method: Method, samples: Samples) -> None:
        self.losses, self.samples = method.losses(), samples
        self.signal = signal = method.signal(samples, samples.rows["rm_scores"], STEP)
        require(isinstance(signal, Signal), f"signal(): got {type(signal).__name__}, expected a Signal")
        for name, values in {"advantages": signal.advantages, "ratio_weights": signal.ratio_weights}.items():
            shapes = f"got {list(values.shape)}, expected {list(samples.mask.shape)}, a number for each token"
            require(values.shape == samples.mask.shape, f"signal(): {name}: {shapes}")
            require(values.isfinite().all(), f"signal(): {name}: some are not finite, for finite rewards")
        random = torch.Generator().manual_seed(1)
        self.lengths = [int(row.nonzero().max()) + 1 for row in samples.mask]
        self.log_probs = [-2 * uniform((PROMPT + length,), random) for length in self.lengths]
        self.entropies = [2 * uniform((PROMPT + length,), random) for length in self.lengths]
        rows = samples.rows
        self.others = [-2 * uniform((*row.shape, OTHERS), random) for row in self.log_probs]
        names = "response_mask", "old_log_probs", "rollout_log_probs", "ref_log_prob", *TOP
        fields = {name: rows[name] for name in names}
        fields |= {PHI: rows["off_policy_log_probs"]} if "off_policy_log_probs" in method.fields() else {}
        fields |= {
            "advantages": signal.advantages,
            "rollout_is_weights": signal.ratio_weights,
        }
        fields |= {f"{WEIGHTS}{name}": weight.expand(samples.mask.shape) for name, weight in signal.weights.items()}
        self.fields = fields

    def of(
        self,
        name: str,
        parts: Sequence[range] = (range(ROWS),),
        ranks: int = 1,
        p: float | None = None,
    ) -> tuple[float, list[Tensor]]:
        """Return the loss called ``name`` over micro-batches of these rows, and its gradient by each row.

        Args:
            p: the probability of all tokens, in the place of drawn ones.
        """
        coefficients = {"sft_loss": 1.0, "entropy_loss": -0.001} | self.signal.coefficients
        missing = [term.name for term in self.losses[name].terms if term.name not in coefficients]
        require(
            not missing,
            f"loss {name}: the signal has no coefficient of {', '.join(missing)}",
        )
        times = sum(map(len, parts)) / ROWS
        counts = update_counts(self.samples.mask, self.signal.weights, times)
        rest = {
            "counts": counts,
            "coefficients": coefficients,
            "loss": name,
            "dp_size": ranks,
        }
        rest["batch_num_tokens"] = times * int(self.samples.mask.sum())
        leaves = [row.clone() if p is None else torch.full_like(row, math.log(p)) for row in self.log_probs]
        for leaf in leaves:
            leaf.requires_grad_()
        total = 0.0
        for part in parts:
            given: dict[str, Any] = {
                field: nested([values[row, : self.lengths[row]].double() for row in part])
                for field, values in self.fields.items()
            }
            given["prefix_length"] = self.samples.rows["prefix_length"][list(part)]
            offsets = torch.tensor([0, *np.cumsum([len(leaves[row]) for row in part])])
            output = {
                key: torch.nested.nested_tensor_from_jagged(torch.cat([of_rows[row] for row in part]), offsets)
                for key, of_rows in (("log_probs", leaves), ("entropy", self.entropies))
            }
            given["input_ids"] = output["log_probs"].detach()  # of which the lengths are read
            data = tu.get_tensordict(given, rest)
            for key, values in from_logits(self.losses, self.logits(leaves, part), data).items():
                output[key] = torch.nested.nested_tensor_from_jagged(values[0], offsets)
            share, _ = step_loss(self.losses, LIMIT, output, data)
            require(share.requires_grad, f"loss {name}: it does not depend on the policy, and so has no gradient")
            share.backward()
            total += float(share.detach()) / ranks
        return total, [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad / ranks for leaf in leaves]

    def logits(self, leaves: Sequence[Tensor], part: range) -> Tensor:
        """Return logits for rows, ``[1, tokens, vocabulary]``: the numbers of ``leaves`` are those of one token."""
        rows = [torch.cat([leaves[row].unsqueeze(-1), self.others[row]], dim=-1) for row in part]
        return torch.cat(rows).unsqueeze(0)

    def figures(self) -> dict[str, float]:
        """Return the metrics of the step, and what the ledger says of its targets."""
        terms = self.losses[self.signal.loss].terms
        numbers: dict[str, float] = {}
        for number, use in enumerate(target_uses(self.samples, self.signal, terms, STEP)):
            for name, value in use.items():
                if isinstance(value, int | float):
                    numbers[f"ledger {name} of use {number}"] = value
        return self.signal.metrics | batch_metrics(self.samples, STEP) | numbers


def _check_observations(update: Update, observed: Update) -> None:
    """Observations, tokens within a response that the policy did not write, change no loss, gradient or figure."""
    at = PROMPT - 1 + AT  # what the model says of a token stands where the token before it does
    observed.log_probs = [with_hole(row, at) for row in update.log_probs]
    observed.entropies = [with_hole(row, at) for row in update.entropies]
    observed.others = [with_hole(row.T, at).T for row in update.others]
    figures, others = update.figures(), observed.figures()
    for name, value in figures.items():
        equal = math.isclose(value, others[name], rel_tol=ROUNDING, abs_tol=TOLERANCE) or math.isnan(value)
        require(
            equal,
            f"{name}: {value:g}, but {others[name]:g} where responses have observations: use the response mask",
        )
    for name in update.losses:
        loss, gradient = update.of(name)
        other, slopes = observed.of(name)
        written = torch.cat([torch.cat([row[:at], row[at + HOLE :]]) for row in slopes])
        near = math.isclose(loss, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        require(
            near and torch.allclose(torch.cat(gradient), written, rtol=TOLERANCE, atol=TOLERANCE),
            f"loss {name}: {loss:g}, but {other:g} where responses have observations: leave out what is not in tokens",
        )


def with_observations(samples: Samples) -> Samples:
    """Return the samples with an observation within each response: NaN, and no part of its mask."""
    rows: dict[str, Tensor] = {}
    for name, values in samples.rows.items():
        counted = name in ("response_mask", "rm_scores") or not values.is_floating_point()
        if values.dim() > 1:
            values = with_hole(values.transpose(1, -1), AT, 0.0 if counted else math.nan).transpose(1, -1)
        rows[name] = values
    rows["prefix_length"] = rows["prefix_length"] + HOLE * (rows["prefix_length"] > AT)
    return replace(samples, rows=TensorDict(rows, batch_size=ROWS))


def with_hole(values: Tensor, at: int, fill: float = math.nan) -> Tensor:
    hole = torch.full((*values.shape[:-1], HOLE), fill).to(values.dtype)
    return torch.cat([values[..., :at], hole, values[..., at:]], dim=-1)


def _check_loss(update: Update, where: str, name: str) -> None:
    """Only responses have a gradient, and it is finite where a token is certain, or next to impossible."""
    _, gradient = update.of(name)
    # What the model says of a token stands where the token before it does.
    outside = [torch.cat([row[: PROMPT - 1], row[-1:]]) for row in gradient]
    require(not torch.cat(outside).any(), f"{where}: it has a gradient outside of the responses")
    for p in (None, 1.0, 1e-30):
        loss, gradient = update.of(name, p=p)
        finite = math.isfinite(loss) and bool(torch.cat(gradient).isfinite().all())
        at = "for ordinary probabilities" if p is None else f"where all probabilities are {p:g}"
        require(finite, f"{where}: it or its gradient is not finite {at}")


def _check_cuts(update: Update, where: str, name: str) -> None:
    """Neither micro-batches nor ranks change a loss, and each term is a mean: twice the samples have the same."""
    loss, gradient = update.of(name)
    for ranks, ends in CUTS:
        other, slopes = update.of(name, [range(*part) for part in pairwise(ends)], ranks)
        near = math.isclose(loss, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        require(
            near and torch.allclose(torch.cat(gradient), torch.cat(slopes), rtol=TOLERANCE, atol=TOLERANCE),
            f"{where}: {loss:g} in one micro-batch, {other:g} in {len(ends) - 1} on {ranks} ranks: its terms must be "
            "sums over tokens, divided by counts of the whole update",
        )
    twice, _ = update.of(name, [range(ROWS)] * 2)
    require(
        math.isclose(loss, twice, rel_tol=TOLERANCE, abs_tol=TOLERANCE),
        f"{where}: {loss:g}, but {twice:g} for the same samples twice: the divisor of a term must count its tokens",
    )


def uniform(shape: Sequence[int], random: torch.Generator) -> Tensor:
    return torch.rand(tuple(shape), generator=random, dtype=torch.float64)


def nested(rows: Sequence[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def seeded_samples(method: Method) -> Samples:
    """Return groups of samples, of which some start with a target, and of which the first group is never solved."""
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, LIMIT + 1, (ROWS,), generator=random)
    mask = (torch.arange(LIMIT) < lengths.unsqueeze(-1)).double()
    number = torch.arange(ROWS) % N
    shown = isinstance(method, Guided) and method.shown
    first = number < method.off_policy_samples(N)
    solved = uniform((ROWS,), random) < 0.4
    solved[:N] = first[:N]
    old = -2 * uniform(mask.shape, random) * mask
    rows = {
        "response_mask": mask,
        "responses": torch.randint(5, 99, mask.shape, generator=random),
        "old_log_probs": old,
        "rollout_log_probs": (old + 0.4 * uniform(mask.shape, random)) * mask,
        "entropy": 2 * uniform(mask.shape, random) * mask,
        "prefix_length": torch.where(first & (not shown), (lengths + 1) // 2, 0),
        "guided": (first & shown).long(),
        "rm_scores": torch.zeros_like(mask).scatter_(1, lengths.unsqueeze(-1) - 1, solved.double().unsqueeze(-1)),
        "off_policy_log_probs": -uniform(mask.shape, random) * mask,
        "teacher_log_probs": -2 * uniform(mask.shape, random) * mask,
        "teacher_mass": uniform(mask.shape, random) * mask,
        "top_ids": torch.randint(OTHERS + 1, (*mask.shape, TOP_TOKENS), generator=random),
        "top_log_probs": -2 - 2 * uniform((*mask.shape, TOP_TOKENS), random),
        "rollout_versions": torch.randint(STEP - 2, STEP + 1, mask.shape, generator=random),
        "prompt_key": torch.arange(ROWS) // N,
        "solved": solved,
        "ref_log_prob": -2 * uniform(mask.shape, random) * mask,
    }
    index = np.array([f"g{row // N}" for row in range(ROWS)], dtype=object)
    every = torch.ones(ROWS, dtype=torch.bool)
    targets = ["t" if length else "" for length in rows["prefix_length"].tolist()]
    rewards = {name: uniform((ROWS,), random) for name in method.rewards}
    more: Any = {"rewards": rewards, "numbers": number.tolist(), "sources": ["a"] * ROWS, "targets": targets}
    return Samples(TensorDict(rows, batch_size=ROWS), index, every, limit=LIMIT, **more)
