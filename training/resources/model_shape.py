"""The numbers that decide the memory and the speed of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from core.files import read_json
from core.model.architecture import LM_HEAD, decoder_sizes, is_tied
from core.model.weights import read_tensors


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
        """Return the shape of the model in a Hugging Face folder; its weights are counted.

        Raises:
            InputError: its config.json lacks a number, or its weights cannot be read.
        """
        tensors = read_tensors(Path(folder))
        # A config.json may leave it to transformers whether embedding and head are one.
        config = {"tie_word_embeddings": LM_HEAD not in tensors, **read_json(Path(folder) / "config.json")}
        shape = cls.of_config(config, where=str(folder))
        counted = sum(prod(tensor.shape) for tensor in tensors.values())
        return cls(**{**vars(shape), "parameters": counted}) if counted > shape.root else shape

    @classmethod
    def of_config(cls, config: Mapping[str, Any], *, where: str = "model") -> "ModelShape":
        """Return the shape that a config.json like Llama's and Qwen2's describes."""
        settings = {**config, **config.get("text_config", {})}
        size, tied = decoder_sizes(settings, where), is_tied(settings)
        query_width, kv_width = size.heads * size.head_dim, size.key_value_heads * size.head_dim
        layer = 2 * size.hidden * (query_width + kv_width) + 3 * size.hidden * size.inner + 2 * size.hidden
        root = size.vocabulary * size.hidden * (1 if tied else 2)
        total = root + size.layers * layer + size.hidden
        widths = size.hidden, size.inner, size.vocabulary, size.head_dim, kv_width
        return cls(total, root, size.layers, *widths, tied, size.heads)
