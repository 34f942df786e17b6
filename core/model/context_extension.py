"""The context of a model made longer than its config.json says: positions and their rotation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.errors import InputError

# Of transformers and vLLM; those that know the context of the pretraining by a setting of its own.
SCALINGS = ("linear", "dynamic", "yarn", "longrope", "llama3")
WITH_ORIGINAL = ("yarn", "longrope", "llama3")
ROTATION = ("rope_theta", "partial_rotary_factor")  # what a scaling leaves as it is
POSITIONS, ORIGINAL = "max_position_embeddings", "original_max_position_embeddings"


@dataclass(frozen=True)
class ContextExtension:
    """Settings that replace settings of a config.json; the defaults leave it as it is.

    ``rope_theta`` is the base of the rotary position embedding, ``rope_scaling`` says how positions beyond the context
    of the pretraining are scaled, in the words of transformers: ``{rope_type: yarn, factor: 4.0}``.
    """

    rope_theta: float | None = None
    rope_scaling: Mapping[str, Any] = field(default_factory=dict)
    max_position_embeddings: int | None = None

    def __bool__(self) -> bool:
        return self != ContextExtension()

    def applied_to(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the content of the config.json ``config`` with these settings; ``where`` is its name in messages.

        >>> published = {"max_position_embeddings": 4096, "rope_theta": 10000}  # Qwen2.5-Math-7B
        >>> ContextExtension(rope_theta=40000, max_position_embeddings=16384).applied_to(published, "config.json")
        {'max_position_embeddings': 16384, 'rope_theta': 40000}

        Raises:
            InputError: the model has no rotary position embedding, or several; an unknown scaling.
        """
        settings = dict(config)
        parameters = dict(settings.get("rope_parameters") or {})  # what transformers from 5 on writes
        if self.rope_theta is not None or self.rope_scaling:
            several = "rope_local_base_freq" in settings or any(
                isinstance(value, dict) for value in parameters.values()
            )
            if several or not (parameters or "rope_theta" in settings):
                raise InputError(
                    f"{where}: {'several rope_theta' if several else 'no rope_theta'} in it: model.rope_theta and "
                    "model.rope_scaling are for models with one rotation in all layers: leave them out, and change "
                    "a copy of config.json"
                )
        if self.rope_theta is not None:
            target = parameters if parameters else settings
            target["rope_theta"] = self.rope_theta
        if self.rope_scaling:
            scaling = self._scaling(settings, where)
            if parameters:
                kept = {name: parameters[name] for name in ROTATION if name in parameters}
                parameters = {"rope_theta": settings.get("rope_theta"), **kept, **scaling}
            else:
                settings["rope_scaling"] = scaling
        if parameters:
            settings["rope_parameters"] = parameters
        if self.max_position_embeddings is not None:
            settings[POSITIONS] = self.max_position_embeddings
        return settings

    def _scaling(self, settings: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the scaling, which counts from the context of the pretraining."""
        kind, factor = self.rope_scaling.get("rope_type"), self.rope_scaling.get("factor")
        if kind not in SCALINGS:
            raise InputError(
                f"model.rope_scaling: rope_type is {kind!r:.80}, expected one of {', '.join(SCALINGS)}, as in "
                "{rope_type: yarn, factor: 4.0}"
            )
        if kind != "longrope" and (isinstance(factor, bool) or not isinstance(factor, int | float) or factor < 1):
            raise InputError(f"model.rope_scaling: factor is {factor!r:.80}, expected a number from 1")
        if kind not in WITH_ORIGINAL:
            return dict(self.rope_scaling)
        published = settings.get(POSITIONS)
        original = self.rope_scaling.get(ORIGINAL, published)
        if isinstance(original, bool) or not isinstance(original, int):
            raise InputError(f"{where}: no {POSITIONS} in it: give model.rope_scaling the number {ORIGINAL}")
        positions, most = self.max_position_embeddings or published, int(original * (factor or 1))
        if kind == "yarn" and isinstance(positions, int) and positions > most:  # vLLM takes no more than that
            raise InputError(
                f"model.rope_scaling: yarn stretches {ORIGINAL}={original} by factor={factor} to {most} positions, "
                f"and {POSITIONS} is {positions}: give factor {positions / original:g}, or lower model.{POSITIONS} to "
                f"{most}"
            )
        return {**self.rope_scaling, ORIGINAL: original}
