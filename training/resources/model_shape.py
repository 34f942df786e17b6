"""The numbers that decide the memory and the speed of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import read_json
from core.model.model_folder import safetensors_header

HEAD = "lm_head.weight"
NUMBERS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
OPTIONAL = ("num_key_value_heads", "head_dim")


@dataclass(frozen=True)
class ModelShape:
    """A dense decoder: ``root`` are the parameters of embedding and head, ``parameters`` are all of them."""

    parameters: int
    root: int
    layers: int
    hidden: int
    intermediate: int
    vocabulary: int
    head_dim: int
    kv_width: int  # heads of keys and values x their dimension
    tied: bool  # embedding and head are one matrix
    heads: int = 1  # number of query heads

    @property
    def query_width(self) -> int:
        """Heads of queries x their dimension."""
        return self.heads * self.head_dim

    @property
    def layer(self) -> float:
        """Parameters of one layer."""
        return (self.parameters - self.root) / self.layers

    @classmethod
    def of_folder(cls, folder: Path) -> "ModelShape":
        """Return the shape of the model in a Hugging Face folder; weights in safetensors are counted, others computed.

        Raises:
            InputError: its config.json lacks a number.
        """
        headers = [safetensors_header(file) or {} for file in Path(folder).glob("*.safetensors")]
        config = read_json(Path(folder) / "config.json")
        if headers:  # a config.json may leave it to transformers whether embedding and head are one
            config = {"tie_word_embeddings": not any(HEAD in header for header in headers), **config}
        shape = cls.of_config(config, where=str(folder))
        counted = sum(prod(tensor["shape"]) for header in headers for tensor in header.values())
        return cls(**{**vars(shape), "parameters": counted}) if counted > shape.root else shape

    @classmethod
    def of_config(cls, config: Mapping[str, Any], *, where: str = "model") -> "ModelShape":
        """Return the shape that a config.json describes, as those of Llama and Qwen2 do."""
        settings = {**config, **config.get("text_config", {})}
        try:
            hidden, layers, heads = (settings[name] for name in NUMBERS[:3])
            intermediate, vocabulary = (settings[name] for name in NUMBERS[3:])
        except KeyError as error:
            raise InputError(f"{where}: no {error} in its config.json: expected a dense decoder") from error
        for name in (*NUMBERS, *(name for name in OPTIONAL if settings.get(name) is not None)):
            if not isinstance(settings[name], int) or settings[name] < 1:
                raise InputError(f"{where}: config.json: {name} is {settings[name]!r:.80}; expected a number from 1")
        head_dim = settings.get("head_dim") or hidden // heads
        kv_width = (settings.get("num_key_value_heads") or heads) * head_dim
        tied = bool(settings.get("tie_word_embeddings", str(settings.get("model_type")).startswith("gemma")))
        layer = 2 * hidden * heads * head_dim + 2 * hidden * kv_width + 3 * hidden * intermediate + 2 * hidden
        root = vocabulary * hidden * (1 if tied else 2)
        total = root + layers * layer + hidden
        return cls(total, root, layers, hidden, intermediate, vocabulary, head_dim, kv_width, tied, heads)
