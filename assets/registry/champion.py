"""The asset registry/champion: the policy in use. It changes only to one that is better beyond chance."""

from pathlib import Path
from typing import Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.checks import check_keys, require_known_failures, verdicts
from assets.report import SCORECARD
from assets.shared.failures import user_errors
from assets.shared.luffy import IO_MANAGER, Luffy
from assets.shared.metadata import bullets, percents, rounded
from assets.shared.references import ChampionReference, ScorecardReference, SuiteReference
from assets.training import FAILED_CHECKS
from core.code_digest import SHORT_DIGEST, code_version
from core.model.lineage_file import read_manifest
from evaluation.promotion.champions import Registry
from evaluation.promotion.decision_text import decision_rows, outcome_text
from evaluation.promotion.promotion_rules import compare_with_champion
from evaluation.promotion.records import Decision, PolicyRecord, PromotionLimits
from evaluation.sample_tables import read_suite_file

CHAMPION = dg.AssetKey(["registry", "champion"])


@dg.asset(
    key=CHAMPION,
    io_manager_key=IO_MANAGER,
    group_name="registry",
    kinds={"json"},
    code_version=code_version(
        "evaluation/promotion",
        "evaluation/statistics",
        "evaluation/report/scorecard/scorecard.py",
        "grading/contamination.py",
    ),
    ins={"scorecard": dg.AssetIn(SCORECARD)},
    description="The policy in use, which champion.json names. A new policy replaces it if its answers are evidence of "
    "a gain in domain, within the error rate of all decisions together, and if it loses no more out of domain than the "
    "limits allow, is rarely cut at the token limit, and was trained on none of the problems. The first policy is "
    "compared with the base. Every decision is recorded. To move the champion by hand, use `luffy champion promote` or "
    "`luffy champion rollback`.",
)
def champion(
    context: dg.AssetExecutionContext, luffy: dg.ResourceParam[Luffy], scorecard: ScorecardReference
) -> dg.MaterializeResult[ChampionReference]:
    from grading.contamination import search_lineage

    with user_errors(context):
        storage = luffy.storage
        policy, limits = scorecard.contenders.policy, luffy.settings.promotion
        lineage = read_manifest(Path(policy.path))
        if version := lineage.upstream.get("targets", {}).get("digest"):
            checked = verdicts(context.instance, check_keys(luffy), version)
            require_known_failures(checked, lineage.upstream.get(FAILED_CHECKS, []))
        registry = Registry(storage.path)
        problems = storage.read_reference(SUITE.to_user_string(), SuiteReference)
        suite_problems = read_suite_file(Path(problems.path))
        with storage.writable():
            record, champion, file = registry.record_decision(
                policy,
                lambda current: compare_with_champion(
                    scorecard.contenders,
                    current,
                    registry=registry,
                    suite=luffy.suite,
                    limits=limits,
                    search=lambda: search_lineage(lineage, Path(policy.path), suite_problems),
                ),
                base=scorecard.contenders.base.digest,
                scorecard=scorecard.path,
                limits=limits,
                dagster_run=context.run_id,
            )
        decision = record.decision
        verb = outcome_text(decision)
        context.log.info("; ".join([f"{verb}: {policy.digest[:SHORT_DIGEST]}", *decision.reasons]))
        return _result(registry, decision, champion, file, limits)


def _result(
    registry: Registry, decision: Decision, champion: PolicyRecord | None, file: Path, limits: PromotionLimits
) -> dg.MaterializeResult[ChampionReference]:
    """Return the champion after a decision, with the metadata of the decision that ``file`` keeps."""
    digest = champion.checkpoint if champion else "none"
    path = str(registry.pointer if champion else registry.folder)
    return ChampionReference(path=path, digest=digest, promoted=decision.promoted).result(
        {
            **dict(decision_rows(decision)),
            "champion": digest[:SHORT_DIGEST],
            "promoted": decision.promoted,
            "reasons": bullets(decision.reasons),
            "compared with": (decision.against or "")[:SHORT_DIGEST],
            **_numbers(decision),
            "limits": dg.MetadataValue.json(limits.model_dump()),
            "file": dg.MetadataValue.path(str(registry.pointer)),
            "decision": dg.MetadataValue.path(str(file)),
        }
    )


def _numbers(decision: Decision) -> dict[str, Any]:
    """Return every number of a decision that made a comparison, for the plots of the UI."""
    gain = {} if decision.difference is None else {"in-domain difference": decision.difference}
    numbers = percents(gain | {f"difference {name}": value for name, value in decision.ood.items()}, "points")
    numbers |= percents({f"truncated {name}": share for name, share in decision.truncated.items()})
    if decision.left is not None and decision.log_evidence is not None:
        numbers |= {"error rate left": decision.left, "evidence (logarithm)": rounded(decision.log_evidence)}
    return numbers | {f"problems in targets {name}": count for name, count in (decision.contamination or {}).items()}
