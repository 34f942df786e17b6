"""Predict the seconds of each phase of a step from the model's shape, the batch and the card's numbers.

A matrix product of a token with P parameters is 2 P operations forward and 4 P backward, and checkpointing repeats the
forward pass. Generation reads the weights and the cache once per token of the longest samples. The shares of the card's
peak that are reached are assumptions, and the only ones: no run on a GPU has corrected them.
"""

from dataclasses import dataclass, replace

from training.resources.layout import Layout
from training.resources.machine import Card
from training.resources.memory import PARAMETER, cache_bytes, state_bytes, token_bytes
from training.resources.model_shape import ModelShape

COMPUTE, BANDWIDTH, LINK = 0.5, 0.7, 0.7  # shares of the peaks
HOST_LINK = 25e9  # bytes per second between a node's memory and a GPU (PCIe 4 x16)
HOST_MEMORY = 50e9  # bytes per second at which the processors of a node update Adam's state
ADAM = 28  # bytes that an update of one parameter reads and writes


@dataclass(frozen=True)
class Prediction:
    """Predicted duration of one step by phase, with its throughput and utilisation."""

    seconds: dict[str, float]
    tokens_per_second: float  # rate of the whole step, per device
    mfu: float  # of the update, without what checkpointing repeats and what attention computes for nothing


def predict(
    shape: ModelShape, layout: Layout, card: Card, *, prompt: float, response: float, generated: float
) -> Prediction:
    """Predict the cost of a step whose samples have ``prompt`` and ``response`` tokens on average.

    Args:
        shape: the model.
        layout: the run.
        card: each of its GPUs.
        prompt: tokens.
        response: tokens.
        generated: the share of the responses' tokens that vLLM generates; the others are off-policy.
    """
    tokens = layout.sequences * (prompt + response)
    speed = layout.devices * card.flops * COMPUTE
    forward = tokens * forward_flops(shape, layout, prompt + response)
    passes = 4 if layout.checkpointing else 3
    seconds: dict[str, float] = {}
    if layout.objective == "rl":
        seconds["gen"] = _generation(shape, layout, card, prompt, response, generated)
        seconds["old_log_prob"] = forward / speed
        if layout.reference:
            seconds["ref"] = forward / speed
        moved = PARAMETER * shape.parameters
        seconds["update_weights"] = moved / (card.link * LINK) + moved / (card.bandwidth * BANDWIDTH)
    seconds["update_actor"] = passes * forward / speed + _offload(shape, layout, tokens)
    total = sum(seconds.values())
    useful = 3 * tokens * forward_flops(shape, replace(layout, attention="flash_attention_2"), prompt + response)
    mfu = useful / (layout.devices * card.flops * seconds["update_actor"])
    return Prediction(seconds, tokens / total / layout.devices, mfu)


def forward_flops(shape: ModelShape, layout: Layout, length: float) -> float:
    """Return the operations of one token forward, in sequences of ``length`` tokens."""
    embedding = 0 if shape.tied else shape.root / 2  # a look-up
    context = layout.micro_batch if layout.attention == "sdpa" and layout.packed else length / 2
    return 2 * (shape.parameters - embedding) + 4 * shape.layers * shape.query_width * context


def _generation(
    shape: ModelShape, layout: Layout, card: Card, prompt: float, response: float, generated: float
) -> float:
    """Return vLLM's seconds: as many samples at once as its cache holds, one reading of the weights per token."""
    share = layout.tensor_parallel / (layout.nodes * layout.engine_gpus) * layout.sequences  # samples of one engine
    per_token = token_bytes(shape, layout)
    room = cache_bytes(shape, layout, card.memory) / (per_token * (prompt + response))
    at_once = max(1.0, min(share, layout.max_num_seqs, room))
    read = layout.width * shape.parameters / layout.tensor_parallel + at_once * (prompt + response / 2) * per_token
    compute = at_once * 2 * shape.parameters / layout.tensor_parallel / (card.flops * COMPUTE)
    turns = max(share / at_once * response * generated, response)
    return turns * max(read / (card.bandwidth * BANDWIDTH), compute)


def _offload(shape: ModelShape, layout: Layout, tokens: float) -> float:
    """Return the seconds of an update for what travels between the node's memory and its GPUs."""
    state = state_bytes(shape, layout) / layout.shards
    match layout.offload:
        case "rollout":
            return 2 * state / HOST_LINK
        case "always":  # each micro-batch fetches the parameters three times: forward, again, and backward
            micro_batches = max(layout.updates, tokens / layout.devices / layout.micro_batch)
            fetched = 3 * micro_batches * PARAMETER * shape.parameters / layout.shards / HOST_LINK
            adam = layout.updates * ADAM * shape.parameters / layout.shards * layout.gpus / HOST_MEMORY
            return fetched + adam
    return 0.0
