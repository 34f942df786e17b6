"""report/scorecard: base and policy on the same problems, with the lineage of both."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals import ROLES, key
from assets.models import KEY as BASE
from assets.shared.failures import explained
from assets.shared.metadata import shown
from assets.shared.storage import Reference, Storage
from assets.targets import PREPARED
from assets.training import POLICY
from core.code import code_version, identity
from core.errors import InputError
from evaluation.benchmarks.registry import Benchmark
from evaluation.promotion import read_champion

SCORECARD = dg.AssetKey(["report", "scorecard"])
PAGE, TEXT, MARKDOWN, NUMBERS = "scorecard.html", "scorecard.txt", "scorecard.md", "scorecard.json"


def eval_inputs(suite: Sequence[Benchmark]) -> dict[str, dg.AssetIn]:
    """Every score of both roles as an input named ``<role>__<benchmark>``."""
    return {f"{role}__{benchmark.name}": dg.AssetIn(key(benchmark, role)) for role in ROLES for benchmark in suite}


def scores(inputs: Mapping[str, Reference], suite: Sequence[Benchmark], role: str) -> dict[str, Reference]:
    """The references of ``role`` by benchmark, in the suite's order."""
    return {benchmark.name: inputs[f"{role}__{benchmark.name}"] for benchmark in suite}


def check_checkpoint(found: Mapping[str, Reference], suite: Sequence[Benchmark], role: str, model: Reference) -> None:
    """All scores of a role must be of the model that its asset names now; InputError lists those that are not."""
    groups = {benchmark.name: benchmark for benchmark in suite}
    stale = {
        key(groups[name], role).to_user_string(): reference.details["checkpoint"]
        for name, reference in found.items()
        if reference.details["checkpoint"] != model.digest
    }
    if stale:
        listed = ", ".join(f"{name} ({digest[:16]})" for name, digest in stale.items())
        raise InputError(
            f"scores of another checkpoint than {ROLES[role].to_user_string()}'s {model.short}: {listed}; "
            "materialize them again"
        )


def read_tables(files: Mapping[str, str]) -> dict[str, Any]:
    """The GRADED tables in ``files``."""
    import pyarrow.parquet as pq

    return {name: pq.read_table(file) for name, file in files.items()}


def champion_files(storage: Storage, policy: Reference, scores: Mapping[str, Reference]) -> dict[str, str] | None:
    """The champion's GRADED files by benchmark, where there is one besides the policy, scored on the same problems."""
    champion = read_champion(storage.path / "registry" / "champion.json")
    if champion is None or champion["checkpoint"] == policy.digest:
        return None
    found = {name: champion["scores"].get(name, {}) for name in scores}
    same = all(
        entry.get("problems") == scores[name].details["problems"] and Path(entry["file"]).exists()
        for name, entry in found.items()
    )
    return {name: entry["file"] for name, entry in found.items()} if same else None


def build_report(suite: Sequence[Benchmark]) -> list[dg.AssetsDefinition]:
    """The scorecard of the suite."""

    @dg.asset(
        key=SCORECARD,
        group_name="report",
        kinds={"html"},
        code_version=code_version("evaluation/report", "evaluation/statistics"),
        ins={
            "prepared": dg.AssetIn(PREPARED),
            "base": dg.AssetIn(BASE),
            "policy": dg.AssetIn(POLICY),
            "problems": dg.AssetIn(SUITE),
            **eval_inputs(suite),
        },
        description="Base against policy, benchmark by benchmark, with 95% intervals of the difference, champion and "
        "published scores beside them, transcripts, training curves, contamination, cost and lineage, as one page. "
        "Refuses scores of different checkpoints.",
    )
    @explained
    def scorecard(
        context: dg.AssetExecutionContext,
        storage: Storage,
        prepared: Reference,
        base: Reference,
        policy: Reference,
        problems: Reference,
        **evals: Reference,
    ) -> dg.MaterializeResult[Reference]:
        from core.files import read_json_lines
        from core.manifest import read_manifest
        from evaluation.report.scorecard import build_scorecard
        from evaluation.report.scorecard_html import write_page
        from evaluation.report.scorecard_text import render_markdown, render_text
        from evaluation.tables import read_suite_file
        from grading.contamination import search_lineage
        from training.export.card import write_scores

        models = {"base": base, "policy": policy}
        found = {role: scores(evals, suite, role) for role in ROLES}
        for role, model in models.items():
            check_checkpoint(found[role], suite, role, model)
        if (trained_from := policy.details["base"]) != base.digest:
            raise InputError(
                f"training/policy was trained from base {trained_from[:16]}, but models/base is {base.short} now: "
                "materialize training/policy again"
            )
        tables = {role: read_tables({name: r.path for name, r in found[role].items()}) for role in ROLES}
        lineage = read_manifest(Path(policy.path)).to_json()
        held = champion_files(storage, policy, found["policy"])
        card = build_scorecard(
            tables["base"],
            tables["policy"],
            suite=suite,
            champion=read_tables(held) if held else None,
            contamination=search_lineage(lineage, read_suite_file(Path(problems.path))),
            lineage=lineage,
            training_metrics=read_json_lines(Path(policy.details["metrics"])),
            funnel=prepared.details["funnel"],
        )
        digest = identity(
            [[name, r.digest] for role in ROLES for name, r in found[role].items()],
            sorted((held or {}).items()),
            code_version("evaluation/report", "evaluation/statistics"),
        )
        folder = storage.folder("report", "scorecard", digest)
        if not folder.exists():
            with storage.writing(folder) as temporary:
                write_page(card, temporary / PAGE)
                (temporary / TEXT).write_text(render_text(card) + "\n", encoding="utf-8")
                (temporary / MARKDOWN).write_text(render_markdown(card), encoding="utf-8")
                (temporary / NUMBERS).write_text(json.dumps(numbers(card), indent=2), encoding="utf-8")
        if (Path(policy.path) / "README.md").is_file():  # a policy that was trained elsewhere may have no card
            write_scores(Path(policy.path), {row.name: row.policy.mean for row in card.rows})
        context.log.info(card.verdict())
        return dg.MaterializeResult(
            value=Reference(
                str(folder),
                digest,
                details={
                    "policy": {"path": policy.path, "digest": policy.digest},
                    "base": {"path": base.path, "digest": base.digest},
                    "scores": {
                        role: {n: {"file": r.path, "problems": r.details["problems"]} for n, r in found[role].items()}
                        for role in ROLES
                    },
                },
            ),
            data_version=dg.DataVersion(digest),
            metadata={
                "verdict": card.verdict(),
                "scorecard": dg.MetadataValue.md(render_markdown(card)),
                "page": dg.MetadataValue.path(str(folder / PAGE)),
                **{f"{average.group} base": shown(average.base) for average in card.averages},
                **{f"{average.group} policy": shown(average.policy) for average in card.averages},
                **{f"{average.group} difference": shown(average.difference) for average in card.averages},
                "policy checkpoint": policy.digest,
                "base checkpoint": base.digest,
            },
        )

    return [scorecard]


def numbers(card: Any) -> dict[str, Any]:
    """Every figure of the scorecard, for programs."""
    from dataclasses import asdict

    return {
        "base": card.base,
        "policy": card.policy,
        "rows": [
            {**asdict(row), "published": row.published.model_dump() if row.published else None} for row in card.rows
        ],
        "averages": [asdict(average) for average in card.averages],
        "warnings": list(card.warnings),
    }
