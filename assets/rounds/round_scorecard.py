"""The asset rounds/N/scorecard."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import dagster as dg

from assets.rounds.round_problems import GROUP, round_of
from assets.rounds.round_scores import base_tables
from assets.shared.profile import Luffy, profile_asset
from assets.shared.references import (
    ModelReference,
    Reference,
    RoundReference,
    RoundScoresReference,
    SuiteReference,
)
from assets.shared.storage import Storage
from core import kinds
from core.code_digest import SHORT_DIGEST
from evaluation.report.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

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
    luffy: dg.ResourceParam[Luffy],
    base: ModelReference,
    suite: SuiteReference,
    storage: Storage,
    **rounds: Reference,
) -> dg.MaterializeResult[Reference]:
    from evaluation.report.html_page import render
    from evaluation.report.model_comparison import comparison_table
    from evaluation.sample_tables import read_scores

    last = round_of(luffy.names, context.asset_key)
    untrained = base_tables(storage, luffy, base, suite)
    results = {"base": untrained} if untrained else {}
    asked: list[RoundReference] = []
    checkpoints: list[str] = []
    for number in range(1, last + 1):
        facts, scored = rounds[f"traces_{number}"], rounds[f"scores_{number}"]
        assert isinstance(facts, RoundReference) and isinstance(scored, RoundScoresReference)
        asked.append(facts)
        checkpoints.append(scored.policy.digest)
        results[f"round {number}"] = read_scores({name: score.file for name, score in scored.policy.scores.items()})
    means = [_mean(tables) for tables in results.values()]
    table = rounds_table(asked, means[-last:], means[0] if untrained else None, checkpoints)
    digest = kinds.GRADED.identity(base.digest if untrained else None, checkpoints, table.to_markdown())
    folder = storage.result(GROUP, "scorecard", digest)
    if not storage.has(folder, kinds.GRADED, context.log):
        page = render("rounds.html.jinja", rounds=table, differences=comparison_table(results))
        with storage.writing(folder, kinds.GRADED) as temporary:
            (temporary / "rounds.md").write_text(f"{table.to_markdown()}\n", encoding="utf-8")
            (temporary / PAGE).write_text(page, encoding="utf-8")
    context.log.info(f"round {last}: score {means[-1]:.1%} after {asked[-1].teacher_tokens_in_all:,} teacher tokens")
    return Reference(path=str(folder), digest=digest).result(
        {
            "rounds": dg.MetadataValue.md(table.to_markdown()),
            "score": means[-1],
            "teacher tokens so far": asked[-1].teacher_tokens_in_all,
            "page": storage.link(folder / PAGE),
        },
    )


def _mean(tables: "Mapping[str, pa.Table]") -> float:
    """Return the mean score over the problems of each benchmark, which weigh the same."""
    from evaluation.statistics.benchmark_scores import summarize

    return fmean(summarize(table).mean for table in tables.values())


def rounds_table(
    rounds: Sequence[RoundReference], means: Sequence[float], base: float | None, checkpoints: Sequence[str]
) -> Table:
    """Return the rounds as a table.

    Args:
        rounds: what was asked in each.
        means: of the benchmarks' scores, after each round.
        base: of the model that the first round starts from. None: it was not scored.
        checkpoints: digests of the policies.
    """
    table, before = Table(COLUMNS, left=(len(COLUMNS) - 1,)), base
    for one, mean, checkpoint in zip(rounds, means, checkpoints, strict=True):
        gained = "" if before is None else f"{100 * (mean - before) / (one.teacher_tokens / 1000):+.2f}"
        cells = [str(one.round), f"{one.unsolved:,} of {one.problems:,}", str(one.asked), f"{one.teacher_tokens:,}"]
        table.add(*cells, f"{one.teacher_tokens_in_all:,}", f"{mean:.1%}", gained, checkpoint[:SHORT_DIGEST])
        before = mean
    return table
