"""An estimate of the memory that a run takes: ``auto`` values follow from it, and what is too much is warned of.

With P parameters a GPU holds 16 P bytes of state over the GPUs that share it (float32 parameters and gradients, and
Adam's two moments), the bfloat16 copy of what is computed at the moment, activations, logits, and a sleeping vLLM.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from training.resources.layout import Layout
from training.resources.machine import Machine
from training.resources.model_shape import ModelShape

GB = 1e9
PARAMETER, STATE = 4, 16  # bytes of a float32 parameter, and with its gradient and Adam's moments
OPTIMIZER, BFLOAT16 = 8, 2
# Bytes per logit: bfloat16 and twice float32; flash-attn's cross-entropy saves one. The fused kernel has five float32
# copies of a chunk of tokens.
LOGIT, LOGIT_FLASH, LOGIT_CHUNK, CHUNK = 10, 8, 20, 512
LOGIT_COMPARED = 12  # of a divergence: log-probabilities in float32, and two gradients
ASLEEP = 5.5e9  # vLLM asleep, CUDA graphs and contexts: an estimate
CONTEXT = 1.5e9  # a CUDA context and NCCL's buffers, where there is no vLLM
GRAPHS = 2e9  # CUDA graphs and workspace of vLLM awake
USABLE = 0.95  # share of a GPU; the allocator loses some to fragments
WEIGHTS_SHARE = 0.6  # share of what vLLM has of a GPU; the rest is for keys and values, as in evaluation
# A node's processes with a model of no size, measured on a CPU: of a run with rollouts, and of each rank.
PROCESSES, RANK, SUPERVISED_RANK = 3.5e9, 2.5e9, 2.2e9


@dataclass(frozen=True)
class Estimate:
    """Bytes that something takes, by purpose, and the bytes that it has. ``remedy`` names the keys to change."""

    name: str
    parts: Mapping[str, float]
    available: float
    remedy: str

    @property
    def fits(self) -> bool:
        return sum(self.parts.values()) <= self.available

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {part / GB:,.1f} GB" for name, part in self.parts.items() if part >= 0.05 * GB)
        return f"{self.name}: about {sum(self.parts.values()) / GB:,.1f} GB of {self.available / GB:,.1f} GB ({parts})"


def trainable(shape: ModelShape, layout: Layout) -> float:
    """Return the number of trained parameters: all, or LoRA's adapters."""
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
    numbers = 4 * shape.intermediate + 8 * shape.hidden + 2 * shape.query_width + 2 * shape.kv_width
    layer, inputs = tokens * width * numbers, shape.layers * tokens * shape.hidden * width
    # As booleans, and twice as bfloat16.
    mask = tokens**2 * 5.0 if layout.attention == "sdpa" and layout.packed else 0.0
    # What a reduce-scatter reads: the float32 gradients of the unit of the model and of a layer.
    scattered = PARAMETER * (shape.root + shape.layer) if layout.shards > 1 and not layout.lora_rank else 0.0
    logit = LOGIT_FLASH if layout.attention == "flash_attention_2" else LOGIT
    logit += LOGIT_COMPARED * (layout.scores > 0)
    return {
        "state": 0.0 if layout.offload == "always" else state_bytes(shape, layout) / layout.shards,
        "gathered": root + 2 * shape.layer * width,
        "reduced": scattered,
        "activations": (inputs + layer if layout.checkpointing else shape.layers * layer) + mask,
        "logits": shape.vocabulary * (min(CHUNK, tokens) * LOGIT_CHUNK if layout.fused else tokens * logit),
        "vLLM asleep": ASLEEP if layout.objective == "rl" and not layout.rollout_gpus else CONTEXT,
    }


def generation_memory(shape: ModelShape, layout: Layout, card: float) -> dict[str, float]:
    """Return the bytes on each GPU of ``card`` bytes while vLLM generates; its share holds weights and cache."""
    beside = layout.offload == "none" and not layout.rollout_gpus  # the actor's state, but for the freed gradients
    state = state_bytes(shape, layout) - PARAMETER * trainable(shape, layout)
    return {"state": beside * state / layout.shards, "vLLM": layout.utilization * card, "contexts": CONTEXT}


def server_memory(shape: ModelShape, layout: Layout, gpus: int, width: int) -> dict[str, float]:
    """Return what vLLM's share of a GPU must hold if ``gpus`` share a model with ``width`` bytes per number."""
    cache = 2 * shape.layers * shape.kv_width * width * (layout.prompt_length + layout.response_length)
    return {"weights": width * shape.parameters / gpus, "one sample of full length": cache / gpus, "graphs": GRAPHS}


def node_memory(shape: ModelShape, layout: Layout, *, cuda: bool) -> dict[str, float]:
    """Return the bytes of memory of each node, by purpose."""
    ranks = layout.gpus + layout.rollout_gpus + layout.teacher_gpus
    rollouts = layout.objective == "rl"
    held = not cuda or layout.offload != "none"
    return {
        "processes": PROCESSES + RANK * ranks if rollouts else SUPERVISED_RANK * ranks,
        "state": held * state_bytes(shape, layout) * layout.gpus / layout.shards,
        "vLLM": 2 * PARAMETER * shape.parameters * layout.gpus if rollouts and not cuda else 0.0,
    }


def estimates(
    layout: Layout, machine: Machine, shape: ModelShape, *, cuda: bool, teacher: ModelShape | None = None
) -> Iterator[Estimate]:
    """Yield what a run takes of each GPU and node of ``machine``, as far as their sizes are known.

    Args:
        teacher: a model that verl serves with the policy.
    """
    share = "actor_rollout_ref.rollout.gpu_memory_utilization"
    if (memory := machine.gpu_memory) and cuda:
        smaller = f"a smaller actor_rollout_ref.actor.ppo_max_token_len_per_gpu (from {layout.least_micro_batch})"
        remedy = f"machine.offload=always, actor_rollout_ref.model.lora_rank=64, {smaller} or more GPUs"
        yield Estimate("each GPU while it trains", training_memory(shape, layout), USABLE * memory, remedy)
        if layout.objective == "rl":
            generation, remedy = generation_memory(shape, layout, memory), f"a lower {share} or machine.offload=rollout"
            yield Estimate("each GPU while vLLM generates", generation, USABLE * memory, remedy)
            server = server_memory(shape, layout, layout.tensor_parallel, layout.width)
            remedy = f"a higher {share} or tensor_model_parallel_size, or a lower data.max_response_length"
            yield Estimate("vLLM's share of each GPU", server, layout.utilization * memory, remedy)
        if teacher:
            server = server_memory(teacher, layout, layout.teacher_parallel, BFLOAT16)
            logits = (layout.prompt_length + layout.response_length) * teacher.vocabulary * LOGIT
            remedy = (
                "another method.teacher.gpus or method.teacher.gpu_memory_utilization, or a teacher behind an endpoint"
            )
            available = layout.teacher_utilization * memory
            yield Estimate("vLLM's share of each GPU of the teacher", server, available, remedy)
            whole = {"vLLM": available, "logits": logits, "contexts": CONTEXT}
            yield Estimate("each GPU of the teacher", whole, USABLE * memory, remedy)
    if machine.memory:
        remedy = "a smaller model, fewer workers (actor_rollout_ref.rollout.agent.num_workers) or more nodes"
        yield Estimate("memory of each node", node_memory(shape, layout, cuda=cuda), machine.memory, remedy)
