"""Check that the weights in a model folder are those that its config.json describes, tensor by tensor.

transformers draws at random what the weights lack and leaves out what it has no place for, and says so in a warning.
So names and shapes are compared before anything starts, with a table of the families of dense decoders; it costs no
torch, which takes seconds to import. Of other families, only what does not depend on the architecture is checked.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import InputError
from core.model.weights import PIECE, Tensor, read_tensors

# The widths of a decoder: of its states, of all queries, of all keys (or values), of one head, of the inner layer.
HIDDEN, QUERY, KEY, HEAD, INNER = "hidden", "query", "key", "head", "inner"
QKV, GATE_UP = "qkv", "gate_up"  # several matrices in one
Shape = tuple[str, ...]
ATTENTION: dict[str, Shape] = {
    "self_attn.q_proj": (QUERY, HIDDEN),
    "self_attn.k_proj": (KEY, HIDDEN),
    "self_attn.v_proj": (KEY, HIDDEN),
    "self_attn.o_proj": (HIDDEN, QUERY),
}
GATED: dict[str, Shape] = {
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}
FUSED: dict[str, Shape] = {
    "self_attn.qkv_proj": (QKV, HIDDEN),
    "self_attn.o_proj": (HIDDEN, QUERY),
    "mlp.gate_up_proj": (GATE_UP, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}
BEFORE: dict[str, Shape] = {"input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,)}
AFTER: dict[str, Shape] = {"post_attention_layernorm": (HIDDEN,), "post_feedforward_layernorm": (HIDDEN,)}
AROUND: dict[str, Shape] = BEFORE | AFTER | {"pre_feedforward_layernorm": (HIDDEN,)}
OF_HEADS: dict[str, Shape] = {"self_attn.q_norm": (HEAD,), "self_attn.k_norm": (HEAD,)}
OF_ALL_HEADS: dict[str, Shape] = {"self_attn.q_norm": (QUERY,), "self_attn.k_norm": (KEY,)}
LLAMA = ATTENTION | GATED | BEFORE
# model_type -> the matrices and vectors of a layer.
FAMILIES: dict[str, dict[str, Shape]] = {
    "exaone4": ATTENTION | GATED | AFTER | OF_HEADS,
    "gemma": LLAMA,
    "gemma2": ATTENTION | GATED | AROUND,
    "gemma3_text": ATTENTION | GATED | AROUND | OF_HEADS,
    "granite": LLAMA,
    "llama": LLAMA,
    "mistral": LLAMA,
    "olmo2": ATTENTION | GATED | AFTER | OF_ALL_HEADS,
    "olmo3": ATTENTION | GATED | AFTER | OF_ALL_HEADS,
    "phi3": FUSED | BEFORE,
    "qwen2": LLAMA,
    "qwen3": LLAMA | OF_HEADS,
    "smollm3": LLAMA,
}
# What a config.json may leave to the class of its family, unless 0, None and False.
DEFAULTS: dict[str, dict[str, Any]] = {
    "exaone4": {"num_key_value_heads": 32},
    "gemma": {"num_key_value_heads": 16, "head_dim": 256, "tie_word_embeddings": True},
    "gemma2": {"num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": True},
    "gemma3_text": {"num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": True},
    "mistral": {"num_key_value_heads": 8},
    "qwen2": {"num_key_value_heads": 32},
    "qwen3": {"num_key_value_heads": 32, "head_dim": 128},
    "smollm3": {"num_key_value_heads": 4, "tie_word_embeddings": True},
}
# Families that read the settings attention_bias and mlp_bias, and the vectors that one has without being asked.
ATTENTION_BIAS = ("gemma", "gemma2", "gemma3_text", "granite", "llama", "olmo2", "olmo3", "qwen3", "smollm3")
MLP_BIAS = ("granite", "llama", "smollm3")
BIASES = {"qwen2": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")}
EMBEDDING, NORM, LM_HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
# What programs that wrap a model put into the names of its tensors -> the program, and how to save without it.
WRAPPERS = {
    "base_model.model": ("PEFT", "save model.merge_and_unload()"),
    "_orig_mod": ("torch.compile", "save model._orig_mod"),
    "module": ("DistributedDataParallel or DeepSpeed", "save model.module"),
    "_forward_module": ("Lightning Fabric", "save its module"),
    "_fsdp_wrapped_module": ("FSDP", "save the full state dict that get_model_state_dict returns"),
    "_checkpoint_wrapped_module": ("activation checkpointing", "save the model before it is wrapped"),
}
FLOATS = {"F64": (8, 0x7FF << 52), "F32": (4, 0xFF << 23), "F16": (2, 0x1F << 10), "BF16": (2, 0xFF << 7)}  # exponents
ZERO_AT_START = ("o_proj.weight", "down_proj.weight")  # of layers that were added to a model
READ_BYTES = 1 << 26  # the most that is read of all values
BUFFER = ".rotary_emb.inv_freq"  # was saved with a model once
NAMED = 3  # tensors that a message names


def check_weights(folder: Path, config: Mapping[str, Any], *, trained: bool) -> None:
    """Check that the weights in ``folder`` are whole and belong to the model that the config.json ``config`` describes.

    Args:
        trained: training cannot load quantized weights; vLLM, which only samples, can.

    Raises:
        InputError: they are not; the message names tensors, and both shapes where these differ.
    """
    tensors, kind = read_tensors(folder), config["model_type"]
    if (folder / "adapter_config.json").is_file():
        raise InputError(
            f"{folder}: an adapter next to the weights (adapter_config.json), which transformers adds to them and vLLM "
            "does not: merge it (PEFT: merge_and_unload), or remove its files"
        )
    _refuse_wrapped(folder, tensors)
    if is_quantized(folder, config):
        if trained:
            raise InputError(
                f"{folder}: quantized weights ({_method(config)}), which cannot be trained: take the model in "
                "bfloat16, float16 or float32 that they were made of"
            )
        return
    if kind not in FAMILIES:
        return
    expected = decoder_shapes(config, str(folder))
    _compare(folder, kind, tensors, expected)
    if LM_HEAD in tensors and LM_HEAD not in expected:
        _compare_head(folder, tensors[LM_HEAD], tensors[EMBEDDING])
    _check_values(folder, {name: tensors[name] for name in expected})


def is_quantized(folder: Path, config: Mapping[str, Any]) -> bool:
    """Return whether the weights are quantized: by their config.json, or by a file of older GPTQ and AWQ models."""
    return bool(config.get("quantization_config")) or any(folder.glob("quant*_config.json"))


class Sizes(NamedTuple):
    """The sizes of a decoder; ``inner`` and ``head_dim`` are the widths of a feed-forward layer and of a head."""

    hidden: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    key_value_heads: int
    head_dim: int


def decoder_sizes(config: Mapping[str, Any], where: str) -> Sizes:
    """Return the sizes in the config.json ``config``; InputError that starts with ``where`` if one is no size."""
    settings = _with_defaults(config)
    hidden, layers, heads, inner, vocabulary = (_size(settings, name, where) for name in SIZES)
    groups, head_dim = (
        _size(settings, name, where) if settings.get(name) is not None else otherwise
        for name, otherwise in (("num_key_value_heads", heads), ("head_dim", hidden // heads))
    )
    return Sizes(hidden, layers, heads, inner, vocabulary, groups, head_dim)


def is_tied(config: Mapping[str, Any]) -> bool:
    """Return whether the embedding is the head, too."""
    return bool(_with_defaults(config).get("tie_word_embeddings"))


def decoder_shapes(config: Mapping[str, Any], where: str) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor, by name, of a model of `FAMILIES` with the config.json ``config``.

    Raises:
        InputError: a size is missing or no size; ``where`` is the start of its message.
    """
    kind, size = config["model_type"], decoder_sizes(config, where)
    settings, layer = _with_defaults(config), FAMILIES[kind]
    query, key = size.heads * size.head_dim, size.key_value_heads * size.head_dim
    widths = {HIDDEN: size.hidden, QUERY: query, KEY: key, HEAD: size.head_dim, INNER: size.inner}
    widths |= {QKV: query + 2 * key, GATE_UP: 2 * size.inner}
    biased = [*BIASES.get(kind, ())]
    biased += ATTENTION if kind in ATTENTION_BIAS and settings.get("attention_bias") else ()
    biased += GATED if kind in MLP_BIAS and settings.get("mlp_bias") else ()
    of_layer = {f"{name}.weight": tuple(widths[width] for width in shape) for name, shape in layer.items()}
    of_layer |= {f"{name}.bias": (widths[layer[name][0]],) for name in biased}
    matrix = size.vocabulary, size.hidden
    shapes = {f"model.layers.{n}.{name}": shape for n in range(size.layers) for name, shape in of_layer.items()}
    return {EMBEDDING: matrix, NORM: (size.hidden,), **shapes, **({} if is_tied(config) else {LM_HEAD: matrix})}


def _with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    return {**DEFAULTS.get(str(config.get("model_type")), {}), **config}


def _size(settings: Mapping[str, Any], name: str, where: str) -> int:
    if name not in settings:
        raise InputError(f"{where}: no {name} in its config.json: expected a dense decoder")
    value = settings[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{where}: config.json: {name} is {value!r:.80}; expected a number from 1")
    return value


def _method(config: Mapping[str, Any]) -> str:
    settings = config.get("quantization_config")
    return str(settings.get("quant_method", "quantization_config")) if isinstance(settings, dict) else "GPTQ or AWQ"


def _refuse_wrapped(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise InputError if a program that wraps models has put its mark into every name."""
    parts = [next((part for part in WRAPPERS if f".{part}." in f".{name}"), "") for name in sorted(tensors)]
    if all(parts):
        program, remedy = WRAPPERS[parts[0]]
        raise InputError(
            f"{folder}: the names of all {len(parts)} tensors have {parts[0]!r} in them ({min(tensors)}), which "
            f"{program} adds: {remedy}, or rename the tensors"
        )


def _compare(folder: Path, kind: str, tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise InputError unless ``tensors`` have the names and shapes ``expected``, and are floats."""
    more = [name for name in tensors.keys() - expected.keys() if name != LM_HEAD and not name.endswith(BUFFER)]
    both = {name: (tensors[name], shape) for name, shape in expected.items() if name in tensors}
    shapes = [
        f"{name} is {[*tensor.shape]} and should be {[*shape]}"
        for name, (tensor, shape) in both.items()
        if tensor.shape != shape
    ]
    types = [
        f"{name} is {tensor.dtype} and should be one of {', '.join(FLOATS)}"
        for name, (tensor, _) in both.items()
        if tensor.dtype not in FLOATS
    ]
    faults = [
        *_named("missing", sorted(expected.keys() - tensors.keys())),
        *_named("too many", sorted(more)),
        *shapes[:NAMED],
        *types[:NAMED],
    ]
    if faults:
        raise InputError(
            f"{folder}: its weights do not belong to the {kind} in its config.json: {'; '.join(faults)}: copy "
            "config.json and weights from one model"
        )


def _named(what: str, names: Sequence[str]) -> list[str]:
    more = ", …" if len(names) > NAMED else ""
    return [f"{len(names)} {what} ({', '.join(names[:NAMED])}{more})"] if names else []


def _compare_head(folder: Path, head: Tensor, embedding: Tensor) -> None:
    """Raise InputError unless ``head`` is the matrix ``embedding``."""
    same = (head.dtype, head.shape) == (embedding.dtype, embedding.shape)
    if not same or any(one != other for one, other in zip(head.pieces(), embedding.pieces(), strict=True)):
        raise InputError(
            f"{folder}: tie_word_embeddings is true in its config.json, and {LM_HEAD} is another matrix than "
            f"{EMBEDDING}: training would use it, sampling would not: set tie_word_embeddings to false, or remove "
            f"{LM_HEAD}"
        )


def _check_values(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise InputError for a value that is no number, and for a matrix of zeros, as far as `READ_BYTES` show it."""
    import numpy as np

    for name, tensor in tensors.items():
        width, exponent = FLOATS[tensor.dtype]
        data = b"".join(tensor.pieces(max(PIECE, READ_BYTES // len(tensors))))
        bits = np.frombuffer(data, f"<u{width}")
        if (bits & exponent == exponent).any():
            raise InputError(
                f"{folder}: {name} has values that are not finite: take a checkpoint from before they arose"
            )
        if len(tensor.shape) > 1 and not bits.any() and not name.endswith(ZERO_AT_START):
            raise InputError(f"{folder}: {name} is zero throughout, as in a download that ended early: copy it again")
