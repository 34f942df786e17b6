"""Refuse a model that the engine, the kernels or the plan would take for another one, before anything starts.

Some of it would fail late, some would train something else without an error: verl's fused kernel multiplies the last
states with the head and leaves out whatever a model does to its logits; torch's attention leaves out soft caps; layers
that are no attention run across the sequences of a packed row. `core.model.architecture` checks the weights.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.files import read_object
from core.model.architecture import FAMILIES
from core.program import run_module

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
        InputError: the message names the setting of its config.json or the tensors at fault, and what to do.
    """
    settings = read_object(model / "config.json")
    fused = bool(config.actor_rollout_ref.model.use_fused_kernels)
    if fault := fault_of(settings, fused=fused, attention=config.attention):
        raise InputError(f"model {model}: {fault}")
    if settings["model_type"] not in FAMILIES:
        trusted = str(bool(config.actor_rollout_ref.model.trust_remote_code)).lower()
        run_module("training.resources.load_check", str(model), trusted, HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
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
