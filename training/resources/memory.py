"""Bytes that a run takes: on each GPU while it trains and while it generates, on each node, and on disk.

With P parameters a GPU holds 16 P bytes of state over the GPUs that share it (float32 parameters and gradients, and
Adam's two moments), the bfloat16 copy of what is computed at the moment, activations, logits, and a sleeping vLLM.
"""

from training.resources.layout import Layout
from training.resources.model_shape import ModelShape

PARAMETER, STATE = 4, 16  # bytes of a float32 parameter, and with its gradient and Adam's moments
OPTIMIZER, BFLOAT16 = 8, 2
# Bytes per logit: bfloat16 and twice float32; flash-attn's cross-entropy saves one; a chunk of the fused kernel has
# five float32 copies.
LOGIT, LOGIT_FLASH, LOGIT_CHUNK = 10, 8, 20
CHUNK = 512  # tokens that the fused kernel takes at once
ASLEEP = 5.5e9  # vLLM asleep, CUDA graphs and contexts: an estimate
CONTEXT = 1.5e9  # a CUDA context and NCCL's buffers, where there is no vLLM
GRAPHS = 2e9  # CUDA graphs and workspace of vLLM awake
USABLE = 0.95  # share of a GPU; the allocator loses some to fragments
WEIGHTS_SHARE = 0.6  # share of what vLLM has of a GPU; the rest is for keys and values, as in evaluation


def trainable(shape: ModelShape, layout: Layout) -> float:
    """Return the number of trained parameters: all, or those of LoRA's adapters."""
    if not layout.lora_rank:
        return shape.parameters
    widths = 4 * shape.hidden + 4 * shape.hidden + 3 * (shape.hidden + shape.intermediate)
    return min(shape.layers * layout.lora_rank * widths, shape.parameters)


def state_bytes(shape: ModelShape, layout: Layout) -> float:
    """Return the bytes of parameters, gradients and moments of one copy of the model."""
    frozen = shape.parameters if layout.lora_rank else 0
    moments = OPTIMIZER * (layout.optimizers - 1)  # moments of the other optimisers
    return (STATE + moments) * trainable(shape, layout) + PARAMETER * frozen


def training_memory(shape: ModelShape, layout: Layout) -> dict[str, float]:
    """Return the memory of each GPU at the peak of an update in bytes, by purpose."""
    tokens, width = layout.micro_batch, layout.width
    root = shape.root * width * (1 if layout.lora_rank else 2)  # with its gradient
    one_layer = (
        tokens * width * (4 * shape.intermediate + 8 * shape.hidden + 2 * shape.query_width + 2 * shape.kv_width)
    )
    inputs = shape.layers * tokens * shape.hidden * width  # of all layers
    kept = inputs + one_layer if layout.checkpointing else shape.layers * one_layer
    mask = tokens**2 * 3.0 if layout.attention == "sdpa" and layout.packed else 0.0  # as booleans and as bfloat16
    return {
        "state": 0.0 if layout.offload == "always" else state_bytes(shape, layout) / layout.shards,
        "gathered": root + 2 * shape.layer * width,
        "activations": kept + mask,
        "logits": logits_bytes(shape, layout),
        "vLLM asleep": ASLEEP if layout.objective == "rl" and not layout.rollout_gpus else CONTEXT,
    }


def logits_bytes(shape: ModelShape, layout: Layout) -> float:
    """Return the bytes of the logits of a micro-batch, or of a chunk of it."""
    tokens = layout.micro_batch
    if layout.fused:
        return min(CHUNK, tokens) * shape.vocabulary * LOGIT_CHUNK
    return tokens * shape.vocabulary * (LOGIT_FLASH if layout.attention == "flash_attention_2" else LOGIT)


def generation_memory(shape: ModelShape, layout: Layout, card: float) -> dict[str, float]:
    """Return the bytes on each GPU of ``card`` bytes while vLLM generates; its share holds weights and cache."""
    beside = layout.offload == "none" and not layout.rollout_gpus  # the actor's state
    resident = state_bytes(shape, layout) / layout.shards if beside else 0.0
    if beside:
        resident -= PARAMETER * trainable(shape, layout) / layout.shards  # gradients are freed after an update
    return {"state": resident, "vLLM": layout.utilization * card, "contexts": CONTEXT}


def cache_bytes(shape: ModelShape, layout: Layout, card: float) -> float:
    """Return what vLLM's share of a card leaves for keys and values."""
    return layout.utilization * card - layout.width * shape.parameters / layout.tensor_parallel - GRAPHS


def token_bytes(shape: ModelShape, layout: Layout) -> float:
    """Return the bytes of keys and values of one token on one GPU."""
    return 2 * shape.layers * shape.kv_width * layout.width / layout.tensor_parallel


def teacher_memory(teacher: ModelShape, layout: Layout, card: float) -> dict[str, float]:
    """Return the bytes on each GPU of a teacher: vLLM's share, and beside it the logits of the longest sample."""
    tokens = layout.prompt_length + layout.response_length
    return {
        "vLLM": layout.teacher_utilization * card,
        "logits": tokens * teacher.vocabulary * LOGIT,
        "contexts": CONTEXT,
    }


def teacher_server(teacher: ModelShape, layout: Layout) -> dict[str, float]:
    """Return the bytes that vLLM's share of a teacher's GPU must hold: weights, and the cache of the longest sample."""
    tokens, gpus = layout.prompt_length + layout.response_length, layout.teacher_parallel
    keys = 2 * teacher.layers * teacher.kv_width * BFLOAT16 * tokens
    return {"weights": BFLOAT16 * teacher.parameters / gpus, "keys and values": keys / gpus, "graphs": GRAPHS}


def checkpoint_bytes(shape: ModelShape, layout: Layout) -> float:
    """Return the bytes of a checkpoint: float32 parameters and moments of trained ones, once per copy of the state."""
    copies = layout.devices / layout.shards  # every rank writes its shard
    return copies * (PARAMETER * shape.parameters + layout.optimizers * OPTIMIZER * trainable(shape, layout))
