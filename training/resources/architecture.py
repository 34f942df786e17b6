"""Refuse a model that the engine, the kernels or the plan would take for another one, before anything starts.

Some of it would fail late, some would train something else without an error: verl's fused kernel multiplies the last
states with the head and leaves out whatever a model does to its logits; torch's attention leaves out soft caps; layers
that are no attention run across the sequences of a packed row; transformers draws weights that a file lacks.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.files import read_object
from core.model.model_folder import safetensors_header

if TYPE_CHECKING:
    from omegaconf import DictConfig

TRIED = ("gemma3_text", "llama", "phi3", "qwen2", "qwen3")  # model types of tests/model_zoo.py
FUSED, ATTENTION = "actor_rollout_ref.model.use_fused_kernels", "attention"
OTHER_INPUTS = ("vision_config", "audio_config", "speech_config")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
STATE_SPACE = ("mamba", "ssm", "linear_num", "rwkv")  # beginnings of settings of layers that are no attention
LAYERS = ("full_attention", "sliding_attention")
# What a model does to its logits -> the value that does nothing.
LOGITS = {"final_logit_softcapping": None, "logits_scaling": 1.0, "logit_scale": 1.0, "lm_head_multiplier": 1.0}
UNCAPPED = ("sdpa", "sdpa_packed")  # kernels that have no soft cap


def check_architecture(model: Path, config: "DictConfig", say: Callable[[str], None]) -> None:
    """Refuse the model in folder ``model`` if the run of a resolved ``config`` cannot train it; ``say`` gets doubts.

    Raises:
        InputError: the message names the setting of its config.json at fault, and what to do.
    """
    settings = read_object(model / "config.json")
    fused = bool(config.actor_rollout_ref.model.use_fused_kernels)
    if fault := fault_of(settings, fused=fused, attention=config.attention):
        raise InputError(f"model {model}: {fault}")
    headers = [safetensors_header(file) or {} for file in model.glob("*.safetensors")]
    shapes = {name: tensor["shape"] for header in headers for name, tensor in header.items()}
    if settings.get("model_type") in TRIED and (fault := weights_fault(shapes, settings)):
        raise InputError(f"model {model}: {fault}: copy config.json and weights from one model")
    if settings.get("model_type") not in TRIED:
        say(
            f"model_type {settings.get('model_type')} has not been tried ({', '.join(TRIED)} have): "
            "rollout_correction/abs_log_ratio_mean is below 0.05 if vLLM and the actor compute the same"
        )


def fault_of(settings: Mapping[str, Any], *, fused: bool, attention: str) -> str:
    """Return why a model with the config.json ``settings`` cannot be trained; "" if it can.

    >>> fault_of({"model_type": "gemma2", "final_logit_softcapping": 30.0}, fused=False, attention="eager")
    ''
    >>> fault_of({"model_type": "t5", "is_encoder_decoder": True}, fused=True, attention="sdpa")
    't5 is an encoder with a decoder: expected a decoder: take another model'
    """
    kind, another = settings.get("model_type"), "take another model"
    if parts := [name for name in OTHER_INPUTS if name in settings]:
        return f"{kind} takes more than text ({', '.join(parts)}): take the text model of its family"
    if settings.get("is_encoder_decoder"):
        return f"{kind} is an encoder with a decoder: expected a decoder: {another}"
    if experts := [name for name in EXPERTS if (settings.get(name) or 0) > 1]:
        name = experts[0]
        return (
            f"{kind} is a mixture of experts ({name}={settings[name]}): the plan of memory, LoRA and the finished "
            "policy are for dense models: take a dense model of its family"
        )
    others = sorted({str(layer) for layer in settings.get("layer_types") or ()} - set(LAYERS))
    others += [name for name, value in settings.items() if name.startswith(STATE_SPACE) and value]
    if others:
        return (
            f"{kind} has layers that are no attention ({', '.join(others)}), which would run across the sequences of "
            f"a packed row: {another}"
        )
    changed = [name for name, nothing in LOGITS.items() if settings.get(name) not in (None, nothing)]
    if fused and changed:
        return (
            f"{kind} changes its logits ({changed[0]}={settings[changed[0]]}), which the fused kernel leaves out: set "
            f"{FUSED}=false, and a smaller actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
        )
    if attention in UNCAPPED and (cap := settings.get("attn_logit_softcapping")):
        return (
            f"{kind} caps its attention (attn_logit_softcapping={cap}), which {ATTENTION}={attention} leaves out: set "
            f"{ATTENTION} to a flash attention"
        )
    return ""


def weights_fault(shapes: Mapping[str, Sequence[int]], settings: Mapping[str, Any]) -> str:
    """Return why weights are not those of a model with the config.json ``settings``; "" if they are.

    >>> shapes = {f"model.layers.{layer}.mlp.up_proj.weight": [8, 4] for layer in (0, 1)}
    >>> weights_fault(shapes, {"num_hidden_layers": 3})
    'its weights have 2 layers, and its config.json has num_hidden_layers=3'

    Args:
        shapes: of the tensors, by name; weights in which no tensor is of a layer are not looked at.
    """
    layers: dict[int, set[str]] = {}
    for name in shapes:
        before, _, after = name.partition("layers.")
        number, _, part = after.partition(".")
        if before in ("", "model.") and number.isdecimal():
            layers.setdefault(int(number), set()).add(part)
    if not layers:
        return ""
    if sorted(layers) != [*range(layers_expected := settings["num_hidden_layers"])]:
        return f"its weights have {len(layers)} layers, and its config.json has num_hidden_layers={layers_expected}"
    parts = set[str]().union(*layers.values())
    lacking = [f"layers.{number}.{part}" for number, own in sorted(layers.items()) for part in sorted(parts - own)]
    heads = [] if settings.get("tie_word_embeddings", True) else ["lm_head.weight"]
    others = [name for name in ("embed_tokens.weight", "norm.weight") if not {name, f"model.{name}"} & shapes.keys()]
    lacking += others + [name for name in heads if name not in shapes]
    if lacking:
        return f"its weights lack {lacking[0]}"
    rows, width = shapes.get("model.embed_tokens.weight") or shapes["embed_tokens.weight"]
    sizes = {"vocab_size": rows, "hidden_size": width}
    if wrong := [name for name, size in sizes.items() if settings[name] != size]:
        name = wrong[0]
        return f"its embedding is {rows} x {width}, and its config.json has {name}={settings[name]}"
    return ""
