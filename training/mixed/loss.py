"""The losses that each worker differentiates: verl's data in, the formulas of training.algorithms, metrics out.

Every term is a sum over tokens divided by a number that was counted over the whole batch of an update, so neither the
loss nor its gradient depends on how the batch was cut into micro-batches, ranks or padded widths.
"""

from typing import Any

import torch
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import kl_penalty
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.config import ActorConfig
from verl.workers.utils.padding import no_padding_2_padding

from training.algorithms.aggregate import BatchSize, agg_loss
from training.algorithms.options import MixedPolicyOptions
from training.algorithms.registry import LOSSES
from training.algorithms.sft import sft_token_loss
from training.algorithms.tensors import mask_of_prefix


def mixed_policy_loss(
    actor: ActorConfig,
    options: MixedPolicyOptions,
    response_length: int,
    model_output: dict[str, torch.Tensor],
    data: TensorDict,
    dp_group: Any = None,
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The share of one micro-batch in the loss of its update, and its metrics.

    Means over tokens are reported as pairs of sums (``sum:name``, ``count:name``), which the trainer divides.
    """
    log_prob = no_padding_2_padding(model_output["log_probs"], data)  # [batch, response]
    fields = ["response_mask", "old_log_probs", "advantages", "rollout_is_weights", "prefix_length"]
    if actor.use_kl_loss:
        fields.append("ref_log_prob")
    batch = data.select(*fields).to_padded_tensor()
    mask = batch["response_mask"].bool()
    off_policy_mask = mask_of_prefix(batch["prefix_length"], mask)
    ranks = data["dp_size"]
    size = BatchSize(data["batch_num_tokens"], data["global_batch_size"], response_length, ranks)

    old_log_prob, advantages = batch["old_log_probs"], batch["advantages"]
    token_loss = LOSSES.function(options.loss)
    losses, stats = token_loss(old_log_prob, log_prob, advantages, mask, off_policy_mask, options)
    loss = agg_loss(losses * batch["rollout_is_weights"], mask, options.loss_agg_mode, size)
    sums = {"pg_loss": loss}
    for name, (total, count) in stats.items():
        sums |= {f"sum:{name}": total, f"count:{name}": count}
    if (entropy := model_output.get("entropy")) is not None:
        coefficient = tu.get_non_tensor_data(data, "entropy_coeff", actor.entropy_coeff)
        sums["entropy_loss"] = agg_loss(no_padding_2_padding(entropy, data), mask, options.loss_agg_mode, size)
        loss = loss - coefficient * sums["entropy_loss"]
    if actor.use_kl_loss:
        divergence = kl_penalty(log_prob, batch["ref_log_prob"], actor.kl_loss_type)
        sums["kl_loss"] = agg_loss(divergence, mask, options.loss_agg_mode, size)
        loss = loss + actor.kl_loss_coef * sums["kl_loss"]
    if options.sft_multitask.use:
        size = BatchSize(tokens=max(data["off_policy_tokens"], 1), ranks=ranks)
        sums["sft_loss"] = agg_loss(sft_token_loss(log_prob, off_policy_mask), off_policy_mask, "token-mean", size)
        loss = loss + options.sft_multitask.coef * sums["sft_loss"]
    return loss, {name: Metric(value=value, aggregation=AggregationType.SUM) for name, value in sums.items()}


def supervised_loss(
    model_output: dict[str, torch.Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """The share of one micro-batch of targets in the mean of ``-log_prob`` over the target tokens of its update."""
    log_prob = model_output["log_probs"].values().unsqueeze(0)  # the rows one after the other, without padding
    # The log-probability of a token stands where the token before it does.
    mask = data["loss_mask"].values().roll(-1).unsqueeze(0)
    size = BatchSize(tokens=data["batch_num_tokens"], ranks=data["dp_size"])
    return agg_loss(sft_token_loss(log_prob, mask), mask, "token-mean", size), {}
