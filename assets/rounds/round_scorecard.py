"""The asset rounds/N/scorecard."""

from collections.abc import Sequence
from statistics import fmean

import dagster as dg

from assets.experiments.runs import base_run
from assets.rounds.round_problems import GROUP, round_of
from assets.shared.profile import Profile, profile_asset
from assets.shared.references import (
    ExperimentReference,
    ModelReference,
    Reference,
    RoundReference,
    SuiteReference,
)
from assets.shared.storage import Storage
from core import kinds
from core.code_digest import SHORT_DIGEST
from evaluation.report.table import Table

PAGE = "rounds.html"
COLUMNS = ("round", "unsolved before", "asked", "tokens", "tokens so far", "score", "points per 1,000 tokens", "policy")


@profile_asset(
    group_name=GROUP,
    kinds={"html"},
    code_version=kinds.GRADED.code_version,
    description="The policies of the rounds so far: their scores, the tokens that each round took from the teacher, "
    "and the points gained per token, on one page with the differences between the rounds.",
)
def scorecard(
    context: dg.AssetExecutionContext,
    profile: dg.ResourceParam[Profile],
    base: ModelReference,
    suite: SuiteReference,
    storage: Storage,
    **rounds: Reference,
) -> dg.MaterializeResult[Reference]:
    from evaluation.report.recipe_comparison import Recipe, Run, compare_recipes
    from evaluation.sample_tables import read_scores

    last = round_of(profile.names, context.asset_key)
    untrained = base_run(storage, profile.suite, base, suite)
    recipes = [Recipe("base", (untrained,))] if untrained else []
    asked: list[RoundReference] = []
    for number in range(1, last + 1):
        facts, scored = rounds[f"traces_{number}"], rounds[f"scores_{number}"]
        assert isinstance(facts, RoundReference) and isinstance(scored, ExperimentReference)
        asked.append(facts)
        tables = read_scores({name: score.file for name, score in scored.policy.scores.items()})
        shown = {"teacher tokens": f"{facts.teacher_tokens:,}", "problems asked": str(facts.asked)}
        recipes.append(Recipe(f"round {number}", (Run(scored.policy.digest, tables, facts=shown, seed=number),)))
    names = [benchmark.name for benchmark in profile.suite]
    means = [fmean(recipe.by_seed(names)) for recipe in recipes]
    table = rounds_table(asked, means[-last:], means[0] if untrained else None, [r.runs[0].checkpoint for r in recipes])
    compared = compare_recipes(recipes, baseline=recipes[0].name, suite=profile.suite) if len(recipes) > 1 else None
    digest = kinds.GRADED.identity([[run.checkpoint for run in recipe.runs] for recipe in recipes], names, table)
    folder = storage.result(GROUP, "scorecard", digest)
    if not storage.has(folder, kinds.GRADED, context.log):
        with storage.writing(folder, kinds.GRADED) as temporary:
            (temporary / "rounds.md").write_text(f"{table}\n", encoding="utf-8")
            if compared:
                compared.write(temporary, PAGE)
    context.log.info(f"round {last}: score {means[-1]:.1%} after {asked[-1].teacher_tokens_in_all:,} teacher tokens")
    return Reference(path=str(folder), digest=digest).result(
        {
            "rounds": dg.MetadataValue.md(table),
            "score": means[-1],
            "teacher tokens so far": asked[-1].teacher_tokens_in_all,
            **({"page": storage.link(folder / PAGE)} if compared else {}),
        },
    )


def rounds_table(
    rounds: Sequence[RoundReference], means: Sequence[float], base: float | None, checkpoints: Sequence[str]
) -> str:
    """The rounds as a Markdown table.

    Args:
        rounds: what was asked in each.
        means: of the benchmarks' scores, after each round.
        base: of the model that the first round starts from. None: it was not scored.
        checkpoints: digests of the policies, at the end those of the rounds.
    """
    table, before = Table(COLUMNS, left=(len(COLUMNS) - 1,)), base
    for one, mean, checkpoint in zip(rounds, means, checkpoints[-len(rounds) :], strict=True):
        gained = "" if before is None else f"{100 * (mean - before) / (one.teacher_tokens / 1000):+.2f}"
        cells = [str(one.round), f"{one.unsolved:,} of {one.problems:,}", str(one.asked), f"{one.teacher_tokens:,}"]
        table.add(*cells, f"{one.teacher_tokens_in_all:,}", f"{mean:.1%}", gained, checkpoint[:SHORT_DIGEST])
        before = mean
    return table.to_markdown()
