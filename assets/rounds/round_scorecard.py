"""The asset rounds/N/scorecard, and the definitions of all rounds."""

from collections.abc import Sequence
from statistics import fmean

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.experiments.comparison import scores
from assets.experiments.runs import base_run
from assets.models import KEY as BASE
from assets.rounds.round_problems import GROUP, key, round_of
from assets.rounds.round_traces import traces
from assets.rounds.train import train
from assets.shared.generation import GenerationOptions, RoundOptions
from assets.shared.profile import Names, Profile, profile_asset
from assets.shared.references import (
    ExperimentReference,
    ModelReference,
    PolicyReference,
    Reference,
    RoundReference,
    RoundTrainReference,
    SuiteReference,
)
from assets.shared.stage_options import EvaluationOptions, TrainingOptions
from assets.shared.storage import Storage
from assets.training import metrics_spec, policy
from core.code_digest import SHORT_DIGEST, code_version, identity
from core.errors import InputError
from evaluation.generation.endpoint import Endpoint
from evaluation.report.table import Table

PAGE = "rounds.html"
VERSION = code_version("evaluation/report", "evaluation/statistics")
COLUMNS = ("round", "unsolved before", "asked", "tokens", "tokens so far", "score", "points per 1,000 tokens", "policy")


@profile_asset(
    group_name=GROUP,
    kinds={"html"},
    code_version=VERSION,
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
    digest = identity([[run.checkpoint for run in recipe.runs] for recipe in recipes], names, table, VERSION)
    folder = storage.folder(GROUP, "scorecard", digest)
    if not folder.exists():
        with storage.writing(folder) as temporary:
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


def build_rounds(
    names: Names,
    options: RoundOptions,
    teacher: GenerationOptions | None,
    training: TrainingOptions,
    evaluation: EvaluationOptions,
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Build the assets of every round; each begins with what the round before leaves.

    Raises:
        InputError: there is no teacher behind an endpoint, or a recipe whose policy samples nothing.
    """
    from training.config.keys import read_by

    if teacher is None or Endpoint.parse(teacher.teacher) is None:
        raise InputError(
            "rounds: they ask the teacher of the section generate, which must be MODEL@URL of an endpoint, whose "
            "tokens are counted: set generate.teacher (a model folder is one behind `vllm serve`)"
        )
    if read_by(training.recipe, ["actor_rollout_ref.rollout.n=8"])[1]:
        raise InputError(
            f"rounds: the policy's own samples say what it does not solve, and training.recipe={training.recipe} draws "
            "none: choose a recipe with rollouts, such as luffy"
        )
    shared = {"base": dg.AssetIn(BASE), "suite": dg.AssetIn(SUITE)}
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = []
    for number in range(1, options.number + 1):
        earlier = range(1, number)
        ins = {f"policy_{past}": dg.AssetIn(key(past, "policy"), dagster_type=PolicyReference) for past in earlier}
        if number > 1:
            ins["before"] = dg.AssetIn(key(number - 1, "traces"), dagster_type=RoundReference)
        start = dg.AssetIn(key(number - 1, "policy"), dagster_type=Reference) if number > 1 else shared["base"]
        learned = {"train": dg.AssetIn(key(number, "train"), dagster_type=RoundTrainReference), "base": start}
        seeded = training.model_copy(update={"seed": training.seed + number - 1})
        rounds = {
            f"{name}_{past}": dg.AssetIn(key(past, name), dagster_type=kind)
            for name, kind in (("traces", RoundReference), ("scores", ExperimentReference))
            for past in [*earlier, number]
        }
        made = {"traces": dg.AssetIn(key(number, "traces"), dagster_type=RoundReference)}
        scored = {"policy": dg.AssetIn(key(number, "policy")), "problems": dg.AssetIn(SUITE)}
        assets += [
            traces.build(names, teacher, key=key(number, "traces"), ins=shared | ins),
            train.build(names, teacher, key=key(number, "train"), ins=shared | made),
            policy.build(names, seeded, key=key(number, "policy"), group_name=GROUP, ins=learned),
            metrics_spec(names, key(number, "policy")),
            scores.build(names, evaluation, key=key(number, "scores"), group_name=GROUP, ins=scored),
            scorecard.build(names, key=key(number, "scorecard"), ins=shared | rounds),
        ]
    return assets
