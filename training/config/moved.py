"""What somebody means who sets a key that no run has: the name of another project, or one that is mistyped.

The tables of ``docs/coming-from.md`` translate the names that people bring from LUFFY, verl and Trinity.
"""

from collections.abc import Sequence
from functools import cache

from core import PROJECT
from core.files import read_yaml
from core.plugins.config_files import HARDWARE, RECIPES
from training.config.verl_keys import leaf_values

PAGE = PROJECT / "docs" / "coming-from.md"
SOURCES = ("LUFFY", "verl", "Trinity")
SAME, NONE = "the same", "none"
# Words that people use for options which are called otherwise.
COMMON = {
    "learning_rate": "actor_rollout_ref.actor.optim.lr",
    "lr": "actor_rollout_ref.actor.optim.lr",
    "batch_size": "data.train_batch_size",
    "steps": "trainer.total_training_steps",
    "max_steps": "trainer.total_training_steps",
    "total_steps": "trainer.total_training_steps",
    "num_epochs": "trainer.total_epochs",
    "save_steps": "trainer.save_freq",
    "num_generations": "actor_rollout_ref.rollout.n",
    "temperature": "actor_rollout_ref.rollout.temperature",
}
SIMILAR = 60  # similarity from 0 to 100; below it, two names have nothing to do with each other


@cache
def translations() -> dict[str, str]:
    """Return what to use instead of each key that has another name here, or none."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    table: dict[str, str] = {}
    for source in SOURCES:
        section = text.partition(f"## Keys of {source}\n")[2].partition("\n## ")[0]
        for line in (line for line in section.splitlines() if line.startswith("| `")):
            theirs, ours, *_, note = (cell.strip().replace("`", "") for cell in line.split("|")[1:-1])
            if ours in (SAME, theirs):
                continue
            where = f"{ours[:-1]} of the profile does that" if ours.endswith("*") else f"use {ours}"
            told = f"{where} ({note})" if note else where
            table.setdefault(theirs, note if ours == NONE else told)
    return table


def hint(key: str) -> str | None:
    """Return what to do about a key of another project; None for our keys and for unknown names.

    >>> hint("actor_rollout_ref.actor.grad_clip")
    'use actor_rollout_ref.actor.optim.clip_grad'
    """
    return translations().get(key)


def nearest(key: str, candidates: Sequence[str]) -> str | None:
    """Return the candidate that a user who typed ``key`` most likely meant; None if none is similar.

    The last parts are compared first, because people know the name of an option better than where it lives. Among
    equals, the keys that our recipes set win.
    """
    from rapidfuzz import fuzz, process

    if (meant := COMMON.get(key.rpartition(".")[2])) in candidates:
        return meant
    files = [file for folder in (RECIPES, HARDWARE) for file in (PROJECT / folder).glob("*.yaml")]
    common = {name for file in files for name, _ in leaf_values(read_yaml(file, "configuration"))}
    names = {candidate.rpartition(".")[2] for candidate in candidates}
    similar = process.extract(key.rpartition(".")[2], names, scorer=fuzz.ratio, limit=5, score_cutoff=SIMILAR)
    scores = {name: score for name, score, _ in similar}
    ranked = [
        (scores[name] + fuzz.ratio(key, candidate) / 2 + 10 * (candidate in common), -len(candidate), candidate)
        for candidate in candidates
        if (name := candidate.rpartition(".")[2]) in scores
    ]
    return max(ranked)[2] if ranked else None
