"""The loss that each actor worker differentiates: verl's data in, the formulas of training.algorithms, metrics out."""

from typing import Any

import torch
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import kl_penalty
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.config import ActorConfig
from verl.workers.utils.padding import no_padding_2_padding

from training.algorithms import mixed_policy_token_loss, normalise_loss, off_policy_mask, sft_token_loss
from training.algorithms.options import MixedPolicyOptions

SUM = AggregationType.SUM


def mixed_policy_loss(
    actor: ActorConfig,
    options: MixedPolicyOptions,
    response_length: int,
    model_output: dict[str, torch.Tensor],
    data: TensorDict,
    dp_group: Any = None,
) -> tuple[torch.Tensor, dict[str, Metric | float]]:
    """Loss of one micro-batch, already divided by the size of the whole batch, and its metrics.

    Every term is a sum over tokens divided by a number that the trainer counted over the global batch, so neither the
    loss nor its gradient depends on how the batch was cut into micro-batches, ranks or padded widths. Means over
    tokens are reported as pairs of sums (``sum:name``, ``count:name``), which the trainer divides.
    """
    log_prob = no_padding_2_padding(model_output["log_probs"], data)  # [batch, response]
    entropy = model_output.get("entropy")
    fields = ["response_mask", "old_log_probs", "advantages", "rollout_is_weights", "prefix_length"]
    if actor.use_kl_loss:
        fields.append("ref_log_prob")
    batch = data.select(*fields).to_padded_tensor()
    mask = batch["response_mask"].bool()
    prefix_mask = off_policy_mask(batch["prefix_length"], mask)

    def normalised(matrix: torch.Tensor) -> torch.Tensor:
        return normalise_loss(
            matrix,
            mask,
            options.loss_normaliser,
            tokens=data["batch_num_tokens"],
            sequences=data["global_batch_size"],
            response_length=response_length,
            ranks=data["dp_size"],
        )

    losses, stats = mixed_policy_token_loss(
        old_log_prob=batch["old_log_probs"],
        log_prob=log_prob,
        advantages=batch["advantages"],
        eos_mask=mask,
        prefix_mask=prefix_mask,
        **options.loss_arguments(),
    )
    loss = normalised(losses * batch["rollout_is_weights"])
    metrics: dict[str, Metric | float] = {"pg_loss": Metric(value=loss, aggregation=SUM)}
    for name, (total, count) in stats.items():
        metrics[f"sum:{name}"] = Metric(value=total, aggregation=SUM)
        metrics[f"count:{name}"] = Metric(value=count, aggregation=SUM)

    if entropy is not None:
        coefficient = tu.get_non_tensor_data(data, "entropy_coeff", actor.entropy_coeff)
        bonus = normalised(no_padding_2_padding(entropy, data))
        loss = loss - coefficient * bonus
        metrics["entropy_loss"] = Metric(value=bonus, aggregation=SUM)
    if actor.use_kl_loss:
        divergence = normalised(kl_penalty(log_prob, batch["ref_log_prob"], actor.kl_loss_type))
        loss = loss + actor.kl_loss_coef * divergence
        metrics["kl_loss"] = Metric(value=divergence, aggregation=SUM)
    if options.sft_multitask.use:
        sft = normalise_loss(
            sft_token_loss(log_prob, prefix_mask),
            prefix_mask,
            "token-mean",
            tokens=max(data["prefix_tokens"], 1),
            ranks=data["dp_size"],
        )
        loss = loss + options.sft_multitask.coef * sft
        metrics["sft_loss"] = Metric(value=sft, aggregation=SUM)
    return loss, metrics
