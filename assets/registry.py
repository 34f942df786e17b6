"""registry/champion: the policy that is in use. It moves only to one that is better beyond chance."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.report import SCORECARD, read_tables
from assets.shared.failures import explained
from assets.shared.metadata import cell, shown
from assets.shared.options import PromotionOptions, with_defaults
from assets.shared.storage import Reference, Storage
from core.code import SHORT_DIGEST, code_version
from core.manifest import read_manifest
from evaluation.benchmarks.registry import Benchmark
from evaluation.promotion import Decision, Registry, decide, now, to_record

CHAMPION = dg.AssetKey(["registry", "champion"])


def build_registry(suite: Sequence[Benchmark], options: PromotionOptions) -> list[dg.AssetsDefinition]:
    """The champion, by default under the limits of ``options``."""

    class Config(with_defaults(options)): ...

    @dg.asset(
        key=CHAMPION,
        group_name="registry",
        kinds={"json"},
        code_version=code_version(
            "evaluation/promotion.py",
            "evaluation/statistics",
            "evaluation/report/scorecard.py",
            "grading/contamination.py",
        ),
        ins={"scorecard": dg.AssetIn(SCORECARD), "problems": dg.AssetIn(SUITE)},
        description="The policy in use: champion.json. A new policy replaces it when it is better in domain beyond "
        "chance, loses no more than allowed out of domain, is not cut at the token limit, and was trained on none of "
        "the problems; the first is compared with the base. Every decision is kept. By hand: make promote, make "
        "rollback.",
    )
    @explained
    def champion(
        context: dg.AssetExecutionContext,
        config: Config,
        storage: Storage,
        scorecard: Reference,
        problems: Reference,
    ) -> dg.MaterializeResult[Reference]:
        policy, base = scorecard.details["policy"], scorecard.details["base"]
        registry = Registry(storage.path)
        current = registry.champion()
        decision = _judge(current, scorecard, problems, suite, config)
        record = {
            "policy": policy["path"],
            "checkpoint": policy["digest"],
            "base": base["digest"],
            "scorecard": scorecard.path,
            "scores": scorecard.details["scores"]["policy"],
            "decision": to_record(decision),
            "limits": config.model_dump(),
            "previous": current["checkpoint"] if current else None,
            "refused": current.get("refused", []) if current else [],
            "dagster_run": context.run_id,
            "time": now(),
        }
        with storage.writable():
            kept = registry.write(record, move=decision.promoted)
        held = record if decision.promoted else current
        text = f"{'promoted' if decision.promoted else 'not promoted'}: {policy['digest'][:SHORT_DIGEST]}"
        context.log.info("; ".join([text, *decision.reasons]))
        digest = held["checkpoint"] if held else "none"
        return dg.MaterializeResult(
            value=Reference(
                str(registry.pointer if held else registry.folder), digest, details={"promoted": decision.promoted}
            ),
            data_version=dg.DataVersion(digest),
            metadata={
                "champion": digest[:SHORT_DIGEST],
                "promoted": decision.promoted,
                "reasons": dg.MetadataValue.md("\n".join(f"- {cell(reason)}" for reason in decision.reasons) or "none"),
                "compared with": decision.against[:SHORT_DIGEST],
                **_numbers(decision),
                "limits": dg.MetadataValue.json(config.model_dump()),
                "file": dg.MetadataValue.path(str(registry.pointer)),
                "decision": dg.MetadataValue.path(str(kept)),
            },
        )

    return [champion]


def _numbers(decision: Decision) -> dict[str, Any]:
    """Every number of a decision that compared something, for the UI's plots."""
    main = {"in-domain difference": decision.difference, "low": decision.low, "high": decision.high}
    found = {name: shown(value) for name, value in main.items() if value is not None}
    tables = (("p", decision.p_values), ("difference", decision.ood), ("truncated", decision.truncated))
    found |= {f"{title} {name}": shown(value) for title, values in tables for name, value in values.items()}
    return found | {f"problems in targets {name}": count for name, count in (decision.contamination or {}).items()}


def _judge(
    current: Mapping[str, Any] | None,
    scorecard: Reference,
    problems: Reference,
    suite: Sequence[Benchmark],
    options: PromotionOptions,
) -> Decision:
    """The decision on the scorecard's policy: against the current champion, or the base where there is none."""
    from evaluation.tables import read_suite_file
    from grading.contamination import search_lineage

    scores, policy = scorecard.details["scores"], scorecard.details["policy"]
    opponent = current["scores"] if current else scores["base"]
    if current and current["checkpoint"] == policy["digest"]:
        return _held(current, "it is the champion already")
    if current and policy["digest"] in current.get("refused", []):
        return _held(current, "it was rolled back by hand; only `make promote` brings it back")
    missing = [
        name
        for name, score in scores["policy"].items()
        if opponent.get(name, {}).get("problems") != score["problems"] or not Path(opponent[name]["file"]).exists()
    ]
    if current and missing:
        return _held(
            current,
            f"the champion has no scores on these problems of {', '.join(missing)}: nothing to compare with; "
            "score it on this suite, or move champion.json away to start from the base",
        )
    found = search_lineage(read_manifest(Path(policy["path"])).to_json(), read_suite_file(Path(problems.path)))
    return decide(
        read_tables({name: opponent[name]["file"] for name in scores["policy"]}),
        read_tables({name: score["file"] for name, score in scores["policy"].items()}),
        suite=suite,
        max_ood_drop=options.max_ood_drop,
        max_truncated=options.max_truncated,
        contamination=None if found is None else {name: found.by_benchmark().get(name, 0) for name in scores["policy"]},
    )


def _held(current: Mapping[str, Any], reason: str) -> Decision:
    """No promotion, and nothing that was compared."""
    return Decision(False, current["checkpoint"], (reason,))
