"""The commands of ``luffy`` that compare recipes and models, with their options.

As in `pipelines.cli.luffy`, what a command needs is imported when it runs.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli import whole_number
from pipelines.cli.shared_options import CopyTo, Overrides, Profile, Recipes, profiles


def experiments(
    recipes: Recipes = None, profile: Profile = None, overrides: Overrides = None, copy_to: CopyTo = None
) -> int:
    """Train and score recipes, and compare them on one page."""
    from pipelines.cli.experiments import run_experiments

    return run_experiments(recipes or [], profile, overrides or [], copy_to)


def compare(
    recipes: Recipes = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", parser=whole_number(1), help="Seeds per recipe. Default: those of the profile."),
    ] = None,
    overrides: Overrides = None,
    copy_to: CopyTo = None,
) -> int:
    """Repeat the paper's comparison of recipes on the built-in task, with several seeds each. It takes hours."""
    more = [] if seeds is None else [f"experiments.seeds={seeds}"]
    return experiments(recipes, "comparison", [*(overrides or []), *more], copy_to)


def remake(
    run: Annotated[Path, typer.Argument(metavar="RUN.zip", help="A recorded run of an experiment.")],
    recipe: Annotated[
        str | None,
        typer.Option(metavar="FILE.yaml", help="The recipe of the run. Default: the recipe of the same name here."),
    ] = None,
    profile: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Profile with the targets, base model and benchmarks of the run.",
            autocompletion=profiles,
        ),
    ] = "comparison",
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the new run and its recording.")] = Path(
        "var/remade"
    ),
) -> int:
    """Repeat a recorded run: train, sample and grade with its settings and seed, and report differences."""
    from pipelines.cli.remake import remake

    return remake(run, recipe, profile, overrides or [], out)


def drift(variants: Recipes = None, overrides: Overrides = None, copy_to: CopyTo = None) -> int:
    """Compare the rollout corrections on stale samples of the built-in task. It takes hours."""
    return experiments(variants, "drift", overrides, copy_to)


def words(
    recipes: Recipes = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of word_problems_train.jsonl and svamp_test.jsonl, which docs/results/words.md describes. "
            "Default: the files that the settings name.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Model folder, GGUF file or hub id. Default: the model of the profile."),
    ] = None,
    overrides: Overrides = None,
    copy_to: CopyTo = None,
) -> int:
    """Train a language model on word problems in English on the CPU, and compare recipes. It takes hours."""
    from pipelines.cli.experiments import word_problems

    return experiments(recipes, "words", [*word_problems(data, model, overrides or []), *(overrides or [])], copy_to)


def leaderboard(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...", help="Model folders or hub ids to evaluate first, on the suite of the profile."
        ),
    ] = None,
    profile: Profile = None,
    overrides: Overrides = None,
) -> int:
    """Rank all evaluated checkpoints."""
    from pipelines.cli.experiments import rank

    return rank(models or [], profile, overrides or [])


COMMANDS: Mapping[Callable[..., Any], Sequence[str]] = {  # each with examples
    experiments: ["luffy experiments luffy on_policy --set experiments.seeds=3"],
    compare: ["luffy compare luffy hpt --seeds 8", "luffy compare mine.yaml luffy sft_rl --seeds 3"],
    remake: [
        "luffy remake research/runs/comparison/sft-0.zip",
        "luffy remake theirs/mine-0.zip --recipe theirs/mine.yaml",
    ],
    drift: ["luffy drift", "luffy drift stale_4_none stale_4_tis --copy-to drift"],
    words: ["luffy words --data problems --model SmolLM2-135M-Instruct.Q4_1.gguf"],
    leaderboard: ["luffy leaderboard", "luffy leaderboard Qwen/Qwen3-0.6B models/mine --set suite.name=mine.yaml"],
}
