"""The losses of the workers: verl's data in, the formulas of training.algorithms, metrics out.

Every term is reduced by ``training.algorithms.aggregate`` with counts over the whole batch of an update, so neither the
loss nor its gradient depends on how the batch was cut into micro-batches, ranks or padded widths (but see the mode
``published``).
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nested._internal.nested_tensor import NestedTensor
from verl.trainer.ppo.core_algos import kl_penalty
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.config import ActorConfig

from training.algorithms.aggregate import BatchSize, agg_loss, agg_mean
from training.algorithms.methods.sft import policy_weight, sft_token_loss
from training.algorithms.methods.srft import entropy_advantage, row_entropy, supervised_scale
from training.algorithms.mixed_loss import Stats
from training.algorithms.options import MixedPolicyOptions
from training.algorithms.registry import LOSSES, MEAN_AGG_MODES
from training.algorithms.tensors import mask_of_prefix
from training.verl_hooks.target_uses import row_figures

Losses = tuple[Tensor, dict[str, Metric]]


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """A micro-batch, padded to ``[batch, response]``, and the counts of the update that it belongs to.

    ``mask`` has the tokens that count: where a gate gives a row the weight 0, it is as if the row had been dropped.
    """

    fields: TensorDict
    log_prob: Tensor
    entropy: Tensor | None
    mask: Tensor
    off_policy_mask: Tensor
    size: BatchSize
    counts: TensorDict

    def size_of(self, tokens: str, sequences: str) -> BatchSize:
        """Return ``size`` for a term that only some tokens have; 1 for none of them, whose sum is 0 too."""
        return replace(self.size, tokens=self.counts[tokens] or 1, sequences=self.counts[sequences] or 1)


def mixed_policy_loss(
    actor: ActorConfig,
    options: MixedPolicyOptions,
    response_length: int,
    model_output: dict[str, Tensor],
    data: TensorDict,
    dp_group: Any = None,
) -> Losses:
    """Return the share of one micro-batch in the loss of its update, and its metrics.

    ``pg_loss``, ``entropy_loss``, ``kl_loss`` and ``sft_loss`` are the terms as they are optimised. Means over tokens
    are reported as pairs of sums (`pair_of_sums`), which the trainer divides.
    """
    if tu.get_non_tensor_data(data, "sft_update", False):
        return sft_update_loss(model_output, data)
    batch = read_micro_batch(actor, options, response_length, model_output, data)
    supervised = options.sft_multitask
    sft_coef = cast("float", tu.get_non_tensor_data(data, "sft_coef", supervised.coef))

    terms: dict[str, Tensor] = {}
    terms["pg_loss"], stats = policy_term(batch, options)
    loss = terms["pg_loss"]
    if supervised.use and supervised.complement:
        loss = loss * policy_weight(supervised, sft_coef)
    mask, size = regularized(batch, options)
    if batch.entropy is not None:
        coefficient = cast("float", tu.get_non_tensor_data(data, "entropy_coeff", actor.entropy_coeff))
        terms["entropy_loss"] = agg_mean(batch.entropy, mask, options.loss_agg_mode, size)
        loss = loss - coefficient * terms["entropy_loss"]
    if actor.use_kl_loss:
        divergence = kl_penalty(
            batch.log_prob,  # pyright: ignore[reportArgumentType]  a tensor is no FloatTensor to torch's types
            batch.fields["ref_log_prob"],
            actor.kl_loss_type,
        )
        terms["kl_loss"] = agg_mean(divergence, mask, options.loss_agg_mode, size)
        loss = loss + actor.kl_loss_coef * terms["kl_loss"]
    if supervised.use:
        terms["sft_loss"] = supervised_term(batch, options)
        loss = loss + sft_coef * terms["sft_loss"]
    return loss, as_metrics(terms, stats)


def read_micro_batch(
    actor: ActorConfig,
    options: MixedPolicyOptions,
    response_length: int,
    model_output: dict[str, Tensor],
    data: TensorDict,
) -> MicroBatch:
    """Return ``data`` with the fields that ``options`` need, and the model's log-probabilities and entropies."""
    gated = options.gate.type != "none"
    fields = ["response_mask", "old_log_probs", "advantages", "rollout_is_weights", "prefix_length"]
    optional = {
        "ref_log_prob": actor.use_kl_loss,
        "off_policy_log_probs": options.has_teacher_log_probs,
        "gate": gated,
    }
    fields += [name for name, needed in optional.items() if needed]
    padded = data.select(*fields).to_padded_tensor()
    valid = padded["response_mask"].bool()
    entropy = model_output.get("entropy")
    # An update can be all padding, where groups were dropped: its sums are 0, whatever they are divided by.
    tokens = (data["kept_tokens"] if gated else data["batch_num_tokens"]) or 1
    sequences = data["sequences"] or 1
    return MicroBatch(
        fields=padded,
        log_prob=of_responses(model_output["log_probs"], data, valid.shape[1]),
        entropy=None if entropy is None else of_responses(entropy, data, valid.shape[1]),
        mask=valid & (padded["gate"] > 0) if gated else valid,
        off_policy_mask=mask_of_prefix(padded["prefix_length"], valid),
        size=BatchSize(tokens, sequences, tokens, sequences, response_length, data["dp_size"]),
        counts=data,
    )


def of_responses(output: Tensor, data: TensorDict, width: int) -> Tensor:
    """Return what the model says of the tokens of the responses: ``[batch, width]``, 0 after the end of a row.

    ``output`` has the rows one after the other, prompt and response. What it says of a token stands where the token
    before it does. Unlike verl's function for this, it reads no lengths, so that nothing waits for the device.
    """
    nested_output, mask = cast("NestedTensor", output), cast("NestedTensor", data["response_mask"])
    lengths = mask.offsets().diff().unsqueeze(-1)
    positions = torch.arange(width, device=lengths.device)
    starts = nested_output.offsets()[1:, None] - lengths - 1
    values = output.values()
    picked = values[(starts + positions).clamp(max=len(values) - 1)]
    return torch.where(positions < lengths, picked, 0.0)


def policy_term(batch: MicroBatch, options: MixedPolicyOptions) -> tuple[Tensor, Stats]:
    """Return the policy loss, and the sums and counts of its metrics."""
    fields, mask, off_policy_mask = batch.fields, batch.mask, batch.off_policy_mask
    advantages, phi = fields["advantages"], {}
    if options.srft.use:
        advantages = entropy_advantage(advantages, off_policy_mask, row_entropy(required_entropy(batch), mask))
    if options.has_teacher_log_probs:
        phi = {"target_probs": fields["off_policy_log_probs"].exp()}
    token_loss = LOSSES.function(options.loss)
    losses, stats = token_loss(
        fields["old_log_probs"], batch.log_prob, advantages, mask, off_policy_mask, options, **phi
    )
    losses = losses * fields["rollout_is_weights"]
    if options.gate.type != "none":
        losses = losses * fields["gate"]
    counted, size = mask, batch.size
    if not options.use_off_policy_loss:
        counted, size = mask & ~off_policy_mask, batch.size_of("on_policy_tokens", "on_policy_sequences")
    pg_loss = agg_loss(losses, counted, options.loss_agg_mode, size)
    losses = losses.detach()  # with the weights of the rollout correction, unlike those of stats
    for name, tokens in (("on_pg_loss", mask & ~off_policy_mask), ("off_pg_loss", mask & off_policy_mask)):
        stats[name] = torch.where(tokens, losses, 0.0).sum(), tokens.sum()
    return pg_loss, stats


def regularized(batch: MicroBatch, options: MixedPolicyOptions) -> tuple[Tensor, BatchSize]:
    """Return the tokens whose entropy and divergence from the reference the loss has, and their counts."""
    if options.regularize_on == "on_policy":
        return batch.mask & ~batch.off_policy_mask, batch.size_of("on_policy_tokens", "on_policy_sequences")
    return batch.mask, batch.size


def supervised_term(batch: MicroBatch, options: MixedPolicyOptions) -> Tensor:
    """Return the supervised loss on off-policy tokens."""
    mask = batch.mask & batch.off_policy_mask
    losses = sft_token_loss(batch.log_prob, mask, options.sft_multitask.weight)
    if options.gate.type != "none":
        losses = losses * batch.fields["gate"]
    if options.srft.use:
        losses = losses * supervised_scale(row_entropy(required_entropy(batch), batch.mask), options.srft)
    mode = options.loss_agg_mode if options.loss_agg_mode in MEAN_AGG_MODES else "token-mean"
    return agg_mean(losses, mask, mode, batch.size_of("off_policy_tokens", "off_policy_sequences"))


def required_entropy(batch: MicroBatch) -> Tensor:
    if batch.entropy is None:
        raise ValueError("srft needs the entropy of each token: actor_rollout_ref.actor.calculate_entropy must be true")
    return batch.entropy


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
        total, count = metrics.pop(name), metrics.pop(f"{prefix}COUNT:{mean}")
        if count:
            metrics[f"{prefix}{mean.lower()}"] = total / count


def sft_update_loss(model_output: dict[str, Tensor], data: TensorDict) -> Losses:
    """Return the share of one micro-batch in a supervised step of ReLIFT (arXiv 2506.07527): ``mean(-log p - c H)``.

    The mean is over the target tokens of the step, and ``c`` the entropy coefficient.
    """
    mask = data["response_mask"].to_padded_tensor(0.0).bool()
    size = BatchSize(tokens=data["batch_num_tokens"], ranks=data["dp_size"])
    log_prob = of_responses(model_output["log_probs"], data, mask.shape[1])
    loss = nll = agg_loss(sft_token_loss(log_prob, mask), mask, "token-mean", size)
    if (entropy := model_output.get("entropy")) is not None:
        coefficient = data["entropy_coeff"]
        loss = loss - coefficient * agg_loss(of_responses(entropy, data, mask.shape[1]), mask, "token-mean", size)
    return loss, {"sft_loss": Metric(value=nll, aggregation=AggregationType.SUM)}


def supervised_loss(weight: str, model_output: dict[str, Tensor], data: TensorDict, dp_group: Any = None) -> Losses:
    """Return the share of a micro-batch of targets in the mean of ``-w log_prob`` over its update's target tokens.

    Its metrics are the figures of its rows for the ledger, as they are before the update.

    ``weight``: the name of ``w`` (`training.algorithms.methods.sft`).
    """
    log_prob = model_output["log_probs"].values().unsqueeze(0)  # the rows one after the other, without padding
    # The log-probability of a token stands where the token before it does.
    mask = cast("Tensor", data["loss_mask"]).values().roll(-1).unsqueeze(0)
    size = BatchSize(tokens=data["batch_num_tokens"], ranks=data["dp_size"])
    losses = sft_token_loss(log_prob, mask, weight)
    offsets, rows = cast("Any", data["loss_mask"]).offsets(), cast("Tensor", data["row"]).values()
    uses: Any = row_figures(log_prob[0], losses[0], mask[0], offsets, rows)  # verl joins the lists of micro-batches
    return agg_loss(losses, mask, "token-mean", size), {"uses": uses}
