"""The losses of the workers: verl's data in, the terms of training.algorithms, metrics out.

Every term is reduced by ``training.algorithms.aggregate`` with counts over the whole batch of an update, so neither the
loss nor its gradient depends on how the batch was cut into micro-batches, ranks or padded widths (but see the mode
``published``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nested._internal.nested_tensor import NestedTensor
from verl.utils.metric import AggregationType, Metric
from verl.utils.ulysses import get_ulysses_sequence_parallel_world_size, slice_input_tensor

from core.errors import InputError
from core.plugins.user_code import load_function
from training.algorithms.aggregate import MEAN_AGG_MODES, BatchSize, agg_loss, agg_mean
from training.algorithms.policy import Stats
from training.algorithms.tensors import mask_of_prefix, working_precision
from training.algorithms.term import EntropyBonus, Loss, LossInputs, LossOutputs, Term
from training.methods.method import Method
from training.verl_hooks.target_uses import row_figures

Losses = tuple[Tensor, dict[str, Metric]]
WEIGHTS = "weights/"  # before the name of a stream: the field with its weights
PHI = "phi"  # the field with the log-probabilities of what wrote the off-policy tokens
TOP = ("top_ids", "top_log_probs")  # the likeliest tokens of the teacher at each token of a response
FIELDS = (
    "response_mask",
    "prefix_length",
    "old_log_probs",
    "rollout_log_probs",
    "advantages",
    "rollout_is_weights",
    "ref_log_prob",
    PHI,
)


@cache
def losses_of(path: str, fields: str) -> Mapping[str, Loss]:
    """Return the losses of the method at ``path``, made of its ``fields`` as JSON: a user's class cannot be pickled."""
    return cast("type[Method]", load_function(path)).model_validate_json(fields).losses()


def method_loss(
    path: str, fields: str, *arguments: Any, student_logits: Tensor | None = None, **options: Any
) -> Losses | dict[str, Tensor]:
    """Return `step_loss` of a method; or `from_logits`, where verl calls it with the logits, before."""
    losses = losses_of(path, fields)
    if student_logits is None:
        return step_loss(losses, *arguments, **options)
    return from_logits(losses, student_logits, options["data"])


def from_logits(losses: Mapping[str, Loss], logits: Tensor, data: TensorDict) -> dict[str, Tensor]:
    """Return what the terms of an update read of the logits, by their names, before its loss is computed.

    verl's engine calls the loss with the logits once the model has run, gathers what it returns over the ranks of
    Ulysses, and hands it to the loss with the log-probabilities.

    Args:
        logits: ``[1, tokens, vocabulary]``: this rank's share of the rows, one after the other, prompt and response.
        data: the micro-batch, with what the teacher said of the tokens of the responses.

    Returns:
        ``[1, tokens]`` each: a number of a token stands where the token before it does.
    """
    said = [at_logits(cast("NestedTensor", data[name]), data) for name in TOP]
    if get_ulysses_sequence_parallel_world_size() > 1:
        said = [slice_input_tensor(values, dim=0) for values in said]
    ids, log_probs = said
    terms = [term for term in losses[cast("str", data["loss"])].terms if term.reads_logits]
    return {term.name: term.on_logits(logits[0], ids.long(), log_probs).unsqueeze(0) for term in terms}


def at_logits(said: "NestedTensor", data: TensorDict) -> Tensor:
    """Return what is ``said`` of the tokens of responses where their logits are: ``[tokens, k]``, 0 elsewhere.

    It is the inverse of `of_responses`: the logits of a token stand where the token before it does, and nothing waits
    for the device. What a row has too much, which verl copied to fill a batch up, is left out.

    Args:
        said: ``[batch, length, k]``, as jagged as the responses.
        data: the micro-batch.
    """
    rows = cast("NestedTensor", data["input_ids"])
    lengths = cast("NestedTensor", data["response_mask"]).offsets().diff()
    values = said.values()
    total = len(rows.values())
    # Of each token that something is said of: its row, and its number in the response.
    number = torch.arange(len(values), device=values.device)
    row = torch.bucketize(number, said.offsets()[1:], right=True)
    position = number - said.offsets()[row]

    place = rows.offsets()[1:][row] - lengths[row] - 1 + position
    place = torch.where(position < lengths[row], place, total)  # the last place is cut off
    packed = values.new_zeros(total + 1, values.shape[1])
    packed[place] = values
    return packed[:total]


def step_loss(
    losses: Mapping[str, Loss],
    response_length: int,
    model_output: dict[str, Tensor],
    data: TensorDict,
    dp_group: Any = None,
) -> Losses:
    """Return the share of one micro-batch in the loss of its update, and its metrics.

    The loss is the sum over the terms of ``coefficient x reduce(weight x losses)``. ``data`` names the loss, and has
    the coefficients, the weights of each stream, and the tokens and rows that each stream has in the whole update.
    Each term is reported as it is optimised, and means over tokens as pairs of sums (`pair_of_sums`), which the trainer
    divides.
    """
    terms, mode = losses[cast("str", data["loss"])]
    counts = cast("Mapping[str, tuple[float, float]]", data["counts"])
    names = [name for name in map(str, data.keys()) if name in FIELDS or name.startswith(WEIGHTS)]
    fields = data.select(*names).to_padded_tensor()
    x = loss_inputs(fields, model_output, data, [term.name for term in terms if term.reads_logits])
    kept = counts.get("kept", (data["batch_num_tokens"], counts["valid"][1]))
    # An update can be all padding, where groups were dropped: its sums are 0, whatever they are divided by.
    tokens, rows = kept[0] or 1, kept[1] or 1
    size = BatchSize(tokens, rows, tokens, rows, response_length, data["dp_size"])

    shares: dict[str, Tensor] = {}
    stats: Stats = {}
    total: Any = 0.0
    coefficients = cast("Mapping[str, float]", data["coefficients"])
    for term in (term for term in terms if x.entropy is not None or not isinstance(term, EntropyBonus)):
        weight = fields.get(f"{WEIGHTS}{term.stream}")
        if weight is None:
            own, own_size = x.valid, size
        else:
            own = fields["response_mask"].bool() & (weight != 0)
            own_tokens, own_rows = counts[term.stream]
            own_size = replace(size, tokens=own_tokens or 1, sequences=own_rows or 1)
        outputs = term.losses(replace(x, tokens=own))
        if not isinstance(outputs, LossOutputs):
            raise InputError(f"losses() of {type(term).__name__}: got {type(outputs).__name__}, expected LossOutputs")
        if outputs.losses.shape != own.shape:
            shapes = f"got {list(outputs.losses.shape)}, expected {list(own.shape)}, a loss for each token"
            raise InputError(f"losses() of {type(term).__name__}: {shapes}")
        values = outputs.losses * fields["rollout_is_weights"] if term.stream == "policy" else outputs.losses
        values = values if weight is None else values * weight
        if outputs.stats:
            stats |= with_weights(outputs.stats, values, x)
        share = shares[term.name] = reduced(term, values, own, mode, own_size)
        total = total + coefficients[term.name] * share
    return total, as_metrics(shares, stats)


def loss_inputs(
    fields: TensorDict, model_output: dict[str, Tensor], data: TensorDict, on_logits: Sequence[str] = ()
) -> LossInputs:
    """Return what a term reads of a micro-batch, padded to ``[batch, response]``; ``on_logits``: see `from_logits`."""
    valid = fields["response_mask"].bool()
    entropy = model_output.get("entropy")
    phi = fields.get(PHI)
    kept = fields.get(f"{WEIGHTS}kept")
    kept = valid if kept is None else valid & (kept > 0)
    prefix = fields.get("prefix_length")
    return LossInputs(
        log_prob=of_responses(model_output["log_probs"], data, valid.shape[1]),
        entropy=None if entropy is None else of_responses(working_precision(entropy), data, valid.shape[1]),
        old_log_prob=fields.get("old_log_probs"),
        advantages=fields.get("advantages"),
        ref_log_prob=fields.get("ref_log_prob"),
        phi=None if phi is None else phi.exp(),
        tokens=kept,
        valid=kept,
        off_policy=valid if prefix is None else mask_of_prefix(prefix, valid),  # None: all rows are targets
        rollout_log_prob=fields.get("rollout_log_probs"),
        from_logits={name: of_responses(model_output[name], data, valid.shape[1]) for name in on_logits},
    )


def reduced(term: Term, values: Tensor, tokens: Tensor, mode: str, size: BatchSize) -> Tensor:
    """Return the share of a term: the policy loss by `agg_loss`, what is a mean over tokens by `agg_mean`."""
    if term.stream == "policy":
        return agg_loss(values, tokens, mode, size)
    own_divisor = term.stream == "imitation" and mode not in MEAN_AGG_MODES
    return agg_mean(values, tokens, "token-mean" if own_divisor else mode, size)


def with_weights(stats: Mapping[str, tuple[Tensor, Tensor]], losses: Tensor, x: LossInputs) -> Stats:
    """Return the ``stats`` of a policy loss, with its parts as they are optimised."""
    losses = losses.detach()
    parts = {"on_pg_loss": x.valid & ~x.off_policy, "off_pg_loss": x.valid & x.off_policy}
    return {**stats} | {name: (torch.where(part, losses, 0.0).sum(), part.sum()) for name, part in parts.items()}


def of_responses(output: Tensor, data: TensorDict, width: int) -> Tensor:
    """Return what the model says of the tokens of the responses: ``[batch, width]``, 0 after the end of a row.

    ``output`` has the rows one after the other, prompt and response. What it says of a token stands where the token
    before it does. Unlike verl's function for this, it reads no lengths, so that nothing waits for the device.
    """
    nested_output = cast("NestedTensor", output)
    mask = cast("NestedTensor", data["response_mask"])
    lengths = mask.offsets().diff().unsqueeze(-1)
    positions = torch.arange(width, device=lengths.device)
    starts = nested_output.offsets()[1:, None] - lengths - 1
    values = output.values()
    picked = values[(starts + positions).clamp(max=len(values) - 1)]
    return torch.where(positions < lengths, picked, 0.0)


def as_metrics(terms: dict[str, Tensor], stats: Stats) -> dict[str, Metric]:
    """Return the terms, and the sums and counts of ``stats``: their shares add up over micro-batches and ranks."""
    values: dict[str, Any] = dict(terms)
    for name, (total, count) in stats.items():
        if name != "pg_loss":
            values.update(pair_of_sums(name, total, count))
    numbers = torch.stack([value.detach().double() for value in values.values()]).tolist()  # waits for the device once
    return {
        name: Metric(value=number, aggregation=AggregationType.SUM)
        for name, number in zip(values, numbers, strict=True)
    }


# verl reduces a metric over the updates of a batch by its name: with "max" or "min" in it, it takes the largest or
# smallest value. In capitals, no name of a pair has these.
def pair_of_sums(name: str, total: Any, count: Any) -> dict[str, Any]:
    """Return the entries of a mean over tokens: its sum and its count."""
    return {f"SUM:{name.upper()}": total, f"COUNT:{name.upper()}": count}


def mean_of_sums(metrics: dict[str, Any], prefix: str = "") -> None:
    """Replace each `pair_of_sums` of ``metrics``, under ``prefix``, by its mean; a mean over nothing is left out."""
    start = f"{prefix}SUM:"
    for name in [name for name in metrics if name.startswith(start)]:
        mean = name.removeprefix(start)
        total = metrics.pop(name)
        count = metrics.pop(f"{prefix}COUNT:{mean}")
        if count:
            metrics[f"{prefix}{mean.lower()}"] = total / count


def supervised_loss(
    path: str, fields: str, model_output: dict[str, Tensor], data: TensorDict, dp_group: Any = None
) -> Losses:
    """Return the share of a micro-batch of targets in the mean of the losses of its update's target tokens.

    Its metrics are the figures of its rows for the ledger, as they are before the update.

    Args:
        path, fields: of a method that learns without rollouts, as `losses_of` takes them.
    """
    log_prob = model_output["log_probs"].values().unsqueeze(0)  # the rows one after the other, without padding
    # The log-probability of a token stands where the token before it does.
    mask = cast("Tensor", data["loss_mask"]).values().roll(-1).unsqueeze(0)
    size = BatchSize(tokens=data["batch_num_tokens"], ranks=data["dp_size"])
    tokens, before = mask.bool(), log_prob.detach()
    x = LossInputs(log_prob, None, before, torch.ones_like(before), None, None, tokens, tokens, tokens)
    (term,) = losses_of(path, fields)["policy"].terms
    losses = term.losses(x).losses
    offsets = cast("Any", data["loss_mask"]).offsets()
    rows = cast("Tensor", data["row"]).values()
    uses: Any = row_figures(log_prob[0], losses[0], mask[0], offsets, rows)  # verl joins the lists of micro-batches
    return agg_loss(losses, mask, "token-mean", size), {"uses": uses}
