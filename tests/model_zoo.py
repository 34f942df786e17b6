"""Published models: their config.json, and tiny copies with all of its settings but the sizes, and random weights."""

import shutil
from pathlib import Path
from typing import Any

from core.files import write_json
from core.model.base_model import SHIPPED


def sizes(hidden: int, intermediate: int, layers: int, heads: int, groups: int, vocabulary: int) -> dict[str, int]:
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "vocab_size": vocabulary,
    }


QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-6,
    "use_cache": True,
    "use_mrope": False,
    "use_sliding_window": False,
}
QWEN2_MATH = {**QWEN2, "max_position_embeddings": 4096, "rope_theta": 10000, "sliding_window": 4096}
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 128,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "use_cache": True,
    "use_sliding_window": False,
}
LLAMA3_SCALING = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
GEMMA3 = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "head_dim": 256,
    "query_pre_attn_scalar": 256,
    "sliding_window": 512,
    "hidden_activation": "gelu_pytorch_tanh",
    "initializer_range": 0.02,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window_pattern": 6,
    "use_cache": True,
}
PHI4 = {
    "architectures": ["Phi3ForCausalLM"],
    "model_type": "phi3",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "embd_pdrop": 0.0,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 16384,
    "original_max_position_embeddings": 16384,
    "resid_pdrop": 0.0,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 250000,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_cache": True,
}
# What the config.json of each says, without the ids of special tokens.
MODELS: dict[str, dict[str, Any]] = {
    "Qwen2.5-Math-1.5B": {
        **QWEN2_MATH,
        **sizes(1536, 8960, 28, 12, 2, 151936),
        "max_window_layers": 21,
        "tie_word_embeddings": True,
    },
    "Qwen2.5-Math-7B": {
        **QWEN2_MATH,
        **sizes(3584, 18944, 28, 28, 4, 152064),
        "max_window_layers": 28,
        "tie_word_embeddings": False,
    },
    "Qwen3-4B": {**QWEN3, **sizes(2560, 9728, 36, 32, 8, 151936), "max_window_layers": 36, "tie_word_embeddings": True},
    "Qwen3-8B": {
        **QWEN3,
        **sizes(4096, 12288, 36, 32, 8, 151936),
        "max_window_layers": 36,
        "tie_word_embeddings": False,
    },
    "Qwen3-32B": {
        **QWEN3,
        **sizes(5120, 25600, 64, 64, 8, 151936),
        "max_window_layers": 64,
        "tie_word_embeddings": False,
    },
    "Llama-3.1-8B": {
        **sizes(4096, 14336, 32, 32, 8, 128256),
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-5,
        "rope_scaling": LLAMA3_SCALING,
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "use_cache": True,
    },
    "gemma-3-1b": {**GEMMA3, **sizes(1152, 6912, 26, 4, 1, 262144)},
    "phi-4": {**PHI4, **sizes(5120, 17920, 40, 40, 10, 100352)},
    "Qwen3-30B-A3B": {
        **QWEN3,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        **sizes(2048, 6144, 48, 32, 4, 151936),
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "decoder_sparse_step": 1,
        "max_window_layers": 48,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "output_router_logits": False,
        "router_aux_loss_coef": 0.001,
        "tie_word_embeddings": False,
    },
}
DENSE = [name for name, settings in MODELS.items() if "num_experts" not in settings]
TINY = {**sizes(64, 96, 2, 4, 2, 259), "bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0}
# vLLM knows no heads of 16; those of Qwen3 and Gemma 3 are wider than their share of a layer, here too.
MORE_TINY: dict[str, dict[str, Any]] = {
    "qwen2": {"hidden_size": 128},
    "llama": {"hidden_size": 128},
    "phi3": {"hidden_size": 128},
    "qwen3": {"head_dim": 32},
    "qwen3_moe": {"head_dim": 32, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2},
    # Six of its layers see so many tokens, and the seventh all.
    "gemma3_text": {"head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 8, "num_hidden_layers": 7},
}


def write_config(name: str, folder: Path, **changes: Any) -> Path:
    """A folder with the tiny config.json of ``name``, ``changes`` to it, and our tokenizer; no weights."""
    folder.mkdir(parents=True)
    for file in SHIPPED.iterdir():
        if file.suffix != ".safetensors":
            shutil.copyfile(file, folder / file.name)
    settings = MODELS[name]
    write_json({**settings, **TINY, **MORE_TINY[settings["model_type"]], **changes}, folder / "config.json")
    return folder


def write_model(name: str, folder: Path, **changes: Any) -> Path:
    """`write_config` with random weights, large enough to make some tokens likelier than others."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    write_config(name, folder, initializer_range=0.1, **changes)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    published = (folder / "config.json").read_bytes()
    model.save_pretrained(folder)
    (folder / "config.json").write_bytes(published)  # as its publisher writes it, not as this transformers does
    return folder
