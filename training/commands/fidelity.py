"""Write docs/fidelity.md: the published runs beside our recipes, key by key, as the configuration composes them.

.venv-train/bin/python -m training.commands.fidelity > docs/fidelity.md
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, ListConfig, OmegaConf

from core.cli import exit_status
from core.errors import InputError
from core.files import read_yaml
from training.job.configuration import CONFIG, compose_run

PUBLISHED = CONFIG / "published.yaml"
INHERITS = "from"
HEAD = """# Fidelity to the published run

This page compares our recipes with the published runs, key by key, and gives a reason for each difference. "Published"
is LUFFY, [arXiv 2504.14945](https://arxiv.org/abs/2504.14945), with its released scripts. Print what a recipe composes:

```sh
luffy train --recipe luffy --hardware gpu --print-config
```

`.venv-train/bin/python -m training.commands.fidelity > docs/fidelity.md` writes this page from
[published.yaml](../training/config/published.yaml) and the composed recipes; a test fails when the page is out of date.
[algorithm.md](algorithm.md) explains the keys of the section `mixed`.
"""


class Row(NamedTuple):
    """A key of a recipe: its published value, ours, and why they differ ("" where they do not)."""

    key: str
    published: Any
    ours: Any
    reason: str


def published_values(recipe: str, recipes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of ``recipe``, with those of the recipe that it comes from."""
    own = dict(recipes[recipe])
    parent = own.pop(INHERITS, None)
    return {**(published_values(parent, recipes) if parent else {}), **own}


def rows(recipe: str) -> list[Row]:
    """Return the comparison of one recipe.

    Raises:
        InputError: a key that does not exist, or one that differs and has no reason.
    """
    content = read_yaml(PUBLISHED, "published values")
    config = compose_run(recipe, "gpu", [], run=Path("run"))
    result = []
    for key, value in published_values(recipe, content["recipes"]).items():
        ours = _value(config, key)
        reason = "" if ours == value else content["reasons"].get(key, "")
        if ours != value and not reason:
            raise InputError(f"{PUBLISHED}: {recipe}: {key} is {ours} and was {value}: say why under reasons")
        result.append(Row(key, value, ours, reason))
    return result


def page() -> Iterator[str]:
    """Yield the lines of docs/fidelity.md."""
    content = read_yaml(PUBLISHED, "published values")
    yield from HEAD.splitlines()
    for recipe, own in content["recipes"].items():
        but = f": {own[INHERITS]} with these changes" if INHERITS in own else ""
        yield from ("", f"## {recipe}{but}", "")
        if note := content["notes"].get(recipe):
            yield from (note, "")
        yield from ("| key | published | ours | |", "|---|---|---|---|")
        for row in [row for row in rows(recipe) if row.key in own]:
            cells = f"`{row.key}`", _text(row.published), _text(row.ours), row.reason or "same"
            yield f"| {' | '.join(cells)} |"
    yield from ("", "## Beyond keys", "", "| | published | ours | |", "|---|---|---|---|")
    for entry in content["beyond"]:
        yield f"| {entry['aspect']} | {entry['published']} | {entry['ours']} | {entry['verdict']} |"


def _value(config: DictConfig, key: str) -> Any:
    section, _, name = key.rpartition(".")
    node = OmegaConf.select(config, section)
    if not isinstance(node, DictConfig) or name not in node:
        raise InputError(f"{PUBLISHED}: no key {key} in the configuration")
    return list(node[name]) if isinstance(node[name], ListConfig) else node[name]


def _text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
    return f"`{text}`"


def main() -> int:
    sys.stdout.write("\n".join(page()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(main))
