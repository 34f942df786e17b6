"""Refuse configuration keys that a run does not read, and name the key that does the work.

``keys.yaml`` has the table. A key is also refused while another one switches it off: `check_switches` looks at the
composed values for that. Neither OmegaConf nor torch is needed, so that the orchestration can ask, too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import InputError
from core.files import read_yaml
from core.plugins.config_files import RECIPES, config_files
from core.text.patterns import compile_full_match

TABLE = Path(__file__).with_name("keys.yaml")
# Sections into which a run accepts any key: they are handed on to vLLM, Ray, Slurm, the model, the processes, or a
# function of the user's.
OPEN = (
    "chat_template_kwargs",
    "environment",
    "ray_kwargs.ray_init",
    "run.slurm",
    "actor_rollout_ref.rollout.engine_kwargs.vllm",
    "actor_rollout_ref.rollout.checkpoint_engine.engine_kwargs",
    "actor_rollout_ref.model.override_config",
    "actor_rollout_ref.actor.optim.override_optimizer_config",
    "method",
)
MODULE = "pkg://"  # what verl takes for a module where it expects a file
NO_FILE = ("", "null")
PLAIN = compile_full_match(r"[A-Za-z0-9_./@%+:?-]*")  # a text that YAML reads without quotes
BACKSLASH, QUOTE = "\\", "'"
SIMILAR = 60  # similarity from 0 to 100; below it, two names have nothing to do with each other


class Rules(NamedTuple):
    """The content of ``keys.yaml``."""

    refused: Mapping[str, str]
    read_with: Mapping[str, str]
    rollouts_only: Sequence[str]
    supervised: Sequence[str]
    files: Sequence[str]


@cache
def rules() -> Rules:
    return Rules(**read_yaml(TABLE, "table of keys"))


def file_of(key: str, value: object, folder: Path) -> Path | None:
    """Return the file that ``key`` names, whose path starts from ``folder``; None for another key, none or a module."""
    if key not in rules().files or not isinstance(value, str) or value in NO_FILE or value.startswith(MODULE):
        return None
    return (folder / Path(value).expanduser()).absolute()


def leaf_values(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of each leaf of a nested mapping; an empty mapping is a leaf.

    >>> list(leaf_values({"a": {"b": 1, "c": {}}}))
    [('a.b', 1), ('a.c', {})]
    """
    for key, value in node.items():
        if isinstance(value, Mapping) and value:
            yield from leaf_values(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def leaves(node: Mapping[str, Any]) -> Iterator[str]:
    """Return the dotted names of the `leaf_values` of ``node``."""
    return (name for name, _ in leaf_values(node))


def within(key: str, sections: Iterable[str]) -> str | None:
    """Return the longest of ``sections`` that is ``key`` or holds it.

    >>> within("critic.optim.lr", ("critic", "data"))
    'critic'
    """
    matching = [section for section in sections if key == section or key.startswith(f"{section}.")]
    return max(matching, key=len, default=None)


def check_key(key: str, where: str = "--set") -> None:
    """Raise InputError for a key that no run reads; ``where`` says who sets it."""
    if section := within(key, rules().refused):
        raise InputError(f"{where}: {key} cannot be set: {rules().refused[section]}")


def check_objective(key: str, objective: str, where: str = "--set") -> None:
    """Raise InputError for a key that supervised training does not read; ``where`` says who sets it."""
    if objective == "sft" and _rollouts_only(key):
        raise InputError(
            f"{where}: {key} has no effect with objective=sft: supervised training has no rollouts. Leave it out"
        )


def check_switches(key: str, value_of: Callable[[str], Any], where: str = "--set") -> None:
    """Raise InputError for a key that a run with these values does not read; ``where`` says who sets it.

    ``value_of`` gives the value of a key.
    """
    check_objective(key, value_of("objective"), where)
    section = within(key, rules().read_with)
    while section is not None:
        condition = rules().read_with[section]
        switches = {part.partition("=")[0].removesuffix("!") for part in condition.split(" or ")}
        if key not in switches and not any(_holds(part, value_of) for part in condition.split(" or ")):
            present = ", ".join(f"{switch}={_text(value_of(switch))}" for switch in sorted(switches))
            raise InputError(
                f"{where}: {key} has no effect with {present}: it is read with {condition}. Set that, or leave it out"
            )
        section = within(section.rpartition(".")[0], rules().read_with)


def _rollouts_only(key: str) -> bool:
    return bool(within(key, rules().rollouts_only)) and key not in rules().supervised


def _holds(condition: str, value_of: Callable[[str], Any]) -> bool:
    """Return whether ``KEY=VALUE|VALUE`` or ``KEY!=VALUE`` is true."""
    switch, _, values = condition.partition("=")
    return (_text(value_of(switch.removesuffix("!"))) in values.split("|")) != switch.endswith("!")


def _text(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read_by(recipe: str, overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split ``overrides`` that several recipes share into those that ``recipe`` reads and those that it does not.

    >>> read_by("sft", ["data.train_batch_size=8", "mixed.use_std=true"])
    (['data.train_batch_size=8'], ['mixed.use_std=true'])
    """
    if objective(recipe) != "sft":
        return list(overrides), []
    others = [text for text in overrides if _rollouts_only(key_of(text))]
    return [text for text in overrides if text not in others], others


def objective(recipe: str) -> str:
    """Return ``rl`` or ``sft``: what a recipe, or the parent it names, computes."""
    configs = (read_yaml(file, "recipe") for file in config_files(RECIPES, recipe))
    return next((config["objective"] for config in configs if "objective" in config), "rl")


def key_of(override: str) -> str:
    """Return the key of an override ``KEY=VALUE``."""
    return override.partition("=")[0]


def values_of(overrides: Iterable[str]) -> dict[str, str]:
    """Return what ``overrides`` say, as text by key; of two values of one key the later one counts.

    >>> values_of(["teacher.model=base", "teacher.model='my model'"])
    {'teacher.model': 'my model'}
    """
    return {key_of(text): unquoted(text.partition("=")[2]) for text in overrides}


def quoted(text: str, beside: str = "") -> str:
    """Return ``text`` as YAML reads it in the value of an override: in quotes, unless it is plain.

    >>> print(quoted("/a/b.py:f"), quoted("/a b/c.py:f"), quoted("/it's/c.py:f"))
    /a/b.py:f '/a b/c.py:f' "/it's/c.py:f"

    Args:
        beside: The value that ``text`` will be part of, perhaps within quotes: they are not the same, if possible.
    """
    if PLAIN(text):
        return text
    if "'" in text + beside and '"' not in text + beside:
        return f'"{text.replace(BACKSLASH, 2 * BACKSLASH)}"'
    return f"'{text.replace(QUOTE, 2 * QUOTE)}'"


def unquoted(text: str) -> str:
    """Return what `quoted` was given."""
    mark = text[:1]
    if len(text) < 2 or mark not in "'\"" or not text.endswith(mark):
        return text
    escaped = 2 * (QUOTE if mark == QUOTE else BACKSLASH)
    return text[1:-1].replace(escaped, escaped[0])


def nearest(key: str, candidates: Iterable[str], common: Iterable[str]) -> str | None:
    """Return the candidate that a user who typed ``key`` most likely meant; None if none is similar.

    The last parts are compared first, because people know the name of an option better than where it lives. Among
    equals, ``common`` keys (those that recipes set) win, then those whose whole name is nearest.
    """
    from rapidfuzz import fuzz, process

    candidates, common = list(candidates), set(common)
    leaf = key.rpartition(".")[2]
    names = {candidate.rpartition(".")[2] for candidate in candidates}
    similar = process.extract(leaf, names, scorer=fuzz.ratio, limit=5, score_cutoff=SIMILAR)
    scores = {name: score for name, score, _ in similar}
    ranked = [
        (scores[name] + fuzz.ratio(key, candidate) / 2 + 10 * (candidate in common), -len(candidate), candidate)
        for candidate in candidates
        if (name := candidate.rpartition(".")[2]) in scores
    ]
    return max(ranked)[2] if ranked else None
