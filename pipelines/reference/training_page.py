"""Generate the pages of the training configuration: algorithm options, recipes and hardware profiles."""

import re
from collections.abc import Iterator

from core.code_digest import HARDWARE, PROJECT, RECIPES
from core.text.patterns import compile_quick_pattern
from pipelines.reference.options_page import default_text, leaves, type_text
from pipelines.reference.page_markdown import block, code, page, prose, table
from training.algorithms.options import MixedPolicyOptions, RolloutOptions

HEADING = compile_quick_pattern(r"^#{2,3} (.+)$")
ROW = compile_quick_pattern(r"^\| `([\w.]+)` \| `[^`]+` \| (.+?) \|")
LINK = compile_quick_pattern(r"\]\(([^)]+)\)")
EXPLAINED = {"algorithm.md": (MixedPolicyOptions, "mixed."), "asynchronous.md": (RolloutOptions, "")}
VERLS = "clip_ratio"  # an option of the algorithm that stands in verl's section


def options_page() -> str:
    """Generate the page of the algorithm's options, with the meaning from docs/algorithm.md and a link to it."""
    parts = []
    for file, (kind, prefix) in EXPLAINED.items():
        meanings = dict(_meanings(file))
        rows = [
            (code(prefix + key), prose(type_text(field)), code(default_text(field)), meanings[key])
            for key, field in leaves(kind)
            if key != VERLS
        ]
        parts += [f"## {prefix.rstrip('.') or 'rollouts'}", table(("key", "type", "default", "meaning"), rows)]
    shared = (PROJECT / "training" / "config" / "train.yaml").read_text(encoding="utf-8")
    return page(
        "Training options",
        "The keys of the training configuration that are not verl's own. Set one with `luffy train --set KEY=VALUE`, "
        "or in `training.overrides` of a profile. `luffy train --print-config` prints the whole configuration, with "
        "verl's keys.",
        *parts,
        "## What all trainings share",
        block("yaml", shared),
        "## Hardware profiles",
        *_files(HARDWARE),
    )


def recipes_page() -> str:
    """Generate the page with every recipe, verbatim."""
    return page(
        "Recipes",
        "A recipe is a file of `training/config/recipe`: what it changes in [the options](training-options.md), or in "
        "the recipe that it names under `defaults`. [Training](../training.md#recipes) says in a line what each does.",
        *_files(RECIPES),
    )


def _files(group: str) -> list[str]:
    files = sorted((PROJECT / group).glob("*.yaml"))
    return [f"### {file.stem}\n\n{block('yaml', file.read_text(encoding='utf-8'))}" for file in files]


def _meanings(file: str) -> Iterator[tuple[str, str]]:
    """Collect the options that the tables of a page explain, with links that are valid in the reference."""
    section = ""
    for line in (PROJECT / "docs" / file).read_text(encoding="utf-8").splitlines():
        if heading := HEADING.match(line):
            section = re.sub(r"[^\w]+", "-", heading[1].lower()).strip("-")
        elif row := ROW.match(line):
            meaning = LINK.sub(lambda link: f"](../{file if link[1][0] == '#' else ''}{link[1]})", row[2])
            yield row[1], f"{meaning} ([more](../{file}#{section}))"
