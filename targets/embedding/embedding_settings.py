"""The setting ``embedding``: which model makes the vectors of problems, and from which similarity they are the same."""

from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from core.errors import InputError
from core.model.endpoints import address_problem
from core.model.model_folder import model_digest, model_files


class EmbeddingSettings(BaseModel):
    """An embedding model and its thresholds, of which none has a default: every model has its own scale."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    model: str = Field(
        min_length=1,
        description="Model folder, which vLLM of the training interpreter serves while vectors are computed. With a "
        "url: the name of the model at the endpoint.",
    )
    url: str | None = Field(default=None, description="OpenAI-compatible endpoint, such as http://localhost:8000/v1.")
    prefix: str = Field(
        default="", description="Text before each problem, such as 'query: ', if the model asks for it."
    )
    max_characters: int = Field(
        default=2000, ge=1, description="Maximum number of characters of a problem that the model reads."
    )
    semantic_duplicate: float | None = Field(
        default=None,
        ge=50,
        le=100,
        description="Minimum similarity (100 times the cosine) at which two problems with the same gold answer and "
        "numbers count as the same. None: they are not compared.",
    )
    paraphrased_benchmark: float | None = Field(
        default=None,
        ge=50,
        le=100,
        description="Minimum similarity at which a problem counts as a paraphrase or translation of a benchmark "
        "problem with the same numbers. None: they are not compared.",
    )
    batch: int = Field(default=64, ge=1, description="Number of problems per request.")
    timeout_s: float = Field(default=120.0, gt=0, description="Seconds allowed for one request.")

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and (problem := address_problem(url)):
            raise ValueError(problem)
        return url

    @model_validator(mode="after")
    def _compares_something(self) -> Self:
        if self.semantic_duplicate is None and self.paraphrased_benchmark is None:
            raise ValueError("embedding: give semantic_duplicate or paraphrased_benchmark, or both")
        return self

    @property
    def name(self) -> str:
        """The model, for messages."""
        return f"{self.model}@{self.url}" if self.url else self.model

    def vector_identity(self) -> dict[str, Any]:
        """What decides the vector of a problem; InputError where the folder holds no model."""
        if self.url is None and not (Path(self.model).is_dir() and model_files(Path(self.model))):
            raise InputError(
                f"embedding.model: {self.model}: no model folder; give one, or with embedding.url the name of a model "
                "that an endpoint serves"
            )
        model = {"endpoint": self.name} if self.url else {"model": _digest(Path(self.model), _stamps(Path(self.model)))}
        return {**model, "prefix": self.prefix, "max_characters": self.max_characters}

    def filter_identity(self) -> dict[str, Any]:
        """What decides about a single trace."""
        return {**self.vector_identity(), "paraphrased_benchmark": self.paraphrased_benchmark}

    def identity(self) -> dict[str, Any]:
        """What decides which targets come out."""
        return {**self.filter_identity(), "semantic_duplicate": self.semantic_duplicate}


def _stamps(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return the name, the size and the time of change of each file of a model."""
    return tuple((file.name, (stat := file.stat()).st_size, stat.st_mtime_ns) for file in model_files(folder))


@lru_cache(maxsize=8)
def _digest(folder: Path, _stamps: tuple[tuple[str, int, int], ...]) -> str:
    """Return the digest of a model, which a preparation asks for several times; its weights are read once."""
    return model_digest(folder)
