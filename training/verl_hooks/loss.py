"""The losses that each worker differentiates: verl's data in, the formulas of training.algorithms, metrics out.

Every term is reduced by ``training.algorithms.aggregate`` with counts over the whole batch of an update, so neither the
loss nor its gradient depends on how the batch was cut into micro-batches, ranks or padded widths (but see the mode
``published``).
"""

from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import kl_penalty
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.config import ActorConfig
from verl.workers.utils.padding import no_padding_2_padding

from training.algorithms.aggregate import BatchSize, agg_loss, agg_mean
from training.algorithms.methods.sft_schedule import policy_weight
from training.algorithms.options import MixedPolicyOptions
from training.algorithms.registry import LOSSES, MEAN_AGG_MODES
from training.algorithms.sft import sft_token_loss
from training.algorithms.tensors import mask_of_prefix
from training.verl_hooks.metrics import pair_of_sums


def mixed_policy_loss(
    actor: ActorConfig,
    options: MixedPolicyOptions,
    response_length: int,
    model_output: dict[str, torch.Tensor],
    data: TensorDict,
    dp_group: Any = None,
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The share of one micro-batch in the loss of its update, and its metrics.

    ``pg_loss``, ``entropy_loss``, ``kl_loss`` and ``sft_loss`` are the terms as they are optimised. Means over tokens
    are reported as pairs of sums (`pair_of_sums`), which the trainer divides.
    """
    if tu.get_non_tensor_data(data, "sft_update", False):
        return sft_update_loss(model_output, data)
    log_prob = no_padding_2_padding(model_output["log_probs"], data)  # [batch, response]
    fields = ["response_mask", "old_log_probs", "advantages", "rollout_is_weights", "prefix_length"]
    if actor.use_kl_loss:
        fields.append("ref_log_prob")
    if options.has_teacher_log_probs:
        fields.append("off_policy_log_probs")
    if options.gate.type != "none":
        fields.append("gate")
    batch = data.select(*fields).to_padded_tensor()
    mask = batch["response_mask"].bool()
    off_policy_mask = mask_of_prefix(batch["prefix_length"], mask)
    mode, size = options.loss_agg_mode, batch_size(data, response_length)

    old_log_prob, advantages = batch["old_log_probs"], batch["advantages"]
    token_loss = LOSSES.function(options.loss)
    phi = {"target_probs": batch["off_policy_log_probs"].exp()} if options.has_teacher_log_probs else {}
    losses, stats = token_loss(old_log_prob, log_prob, advantages, mask, off_policy_mask, options, **phi)
    losses = losses * batch["rollout_is_weights"]
    if options.gate.type != "none":
        losses = losses * batch["gate"]
    terms = {"pg_loss": agg_loss(losses, mask, mode, size if options.use_off_policy_loss else on_policy(size, data))}
    loss, supervised = terms["pg_loss"], options.sft_multitask
    coef = tu.get_non_tensor_data(data, "sft_coef", supervised.coef)
    if supervised.use and supervised.complement:
        loss = loss * policy_weight(supervised, coef)
    if (entropy := model_output.get("entropy")) is not None:
        coefficient = tu.get_non_tensor_data(data, "entropy_coeff", actor.entropy_coeff)
        terms["entropy_loss"] = agg_mean(no_padding_2_padding(entropy, data), mask, mode, size)
        loss = loss - coefficient * terms["entropy_loss"]
    if actor.use_kl_loss:
        divergence = kl_penalty(log_prob, batch["ref_log_prob"], actor.kl_loss_type)
        terms["kl_loss"] = agg_mean(divergence, mask, mode, size)
        loss = loss + actor.kl_loss_coef * terms["kl_loss"]
    if supervised.use:
        mode = mode if mode in MEAN_AGG_MODES else "token-mean"
        size = replace(size, tokens=max(data["off_policy_tokens"], 1))
        sft_losses = sft_token_loss(log_prob, off_policy_mask, supervised.weight)
        if options.gate.type != "none":
            sft_losses = sft_losses * batch["gate"]
        terms["sft_loss"] = agg_mean(sft_losses, off_policy_mask, mode, size)
        loss = loss + coef * terms["sft_loss"]

    losses = losses.detach()  # with the weights of the rollout correction, unlike those of stats
    for name, tokens in (("on_pg_loss", mask & ~off_policy_mask), ("off_pg_loss", off_policy_mask)):
        stats[name] = losses[tokens].sum(), tokens.sum()
    sums = {}
    for name, (total, count) in stats.items():
        if name != "pg_loss":
            sums |= pair_of_sums(name, total, count)
    metrics = {name: Metric(value=value, aggregation=AggregationType.SUM) for name, value in (terms | sums).items()}
    return loss, metrics


def batch_size(data: TensorDict, response_length: int) -> BatchSize:
    """The counts of an update, of which ``data`` is a micro-batch."""
    # An update can be all padding, where groups were dropped: its sums are 0, whatever they are divided by.
    tokens, sequences = max(data["batch_num_tokens"], 1), max(data["sequences"], 1)
    return BatchSize(tokens, sequences, tokens, sequences, response_length, data["dp_size"])


def on_policy(size: BatchSize, data: TensorDict) -> BatchSize:
    """``size`` where only on-policy tokens have the loss; 1 for none, whose sum is 0 too."""
    return replace(size, tokens=max(data["on_policy_tokens"], 1), sequences=max(data["on_policy_sequences"], 1))


def sft_update_loss(model_output: dict[str, torch.Tensor], data: TensorDict) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The share of one micro-batch in a supervised step of ReLIFT (arXiv 2506.07527): ``mean(-log p - c H)``.

    The mean is over the target tokens of the step, and ``c`` the entropy coefficient.
    """
    mask = data["response_mask"].to_padded_tensor(0.0).bool()
    size = BatchSize(tokens=data["batch_num_tokens"], ranks=data["dp_size"])
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    loss = nll = agg_loss(sft_token_loss(log_prob, mask), mask, "token-mean", size)
    if (entropy := model_output.get("entropy")) is not None:
        coefficient = data["entropy_coeff"]
        loss = loss - coefficient * agg_loss(no_padding_2_padding(entropy, data), mask, "token-mean", size)
    return loss, {"sft_loss": Metric(value=nll, aggregation=AggregationType.SUM)}


def supervised_loss(
    weight: str, model_output: dict[str, torch.Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The share of one micro-batch of targets in the mean of ``-w log_prob`` over the target tokens of its update.

    ``weight``: the name of ``w`` (`training.algorithms.methods.sft_weight`).
    """
    log_prob = model_output["log_probs"].values().unsqueeze(0)  # the rows one after the other, without padding
    # The log-probability of a token stands where the token before it does.
    mask = data["loss_mask"].values().roll(-1).unsqueeze(0)
    size = BatchSize(tokens=data["batch_num_tokens"], ranks=data["dp_size"])
    return agg_loss(sft_token_loss(log_prob, mask, weight), mask, "token-mean", size), {}
