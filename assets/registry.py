"""registry/champion: the policy that is in use. It moves only to one that is better beyond chance."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from assets.display import cell, shown
from assets.failures import explained
from assets.identity import SHOWN, code_version
from assets.options import PromotionOptions, chosen, configured
from assets.promotion import Decision, decide, read_champion, to_record
from assets.report import SCORECARD, read_tables
from assets.storage import Reference, Storage
from evaluation.benchmarks import Benchmark

CHAMPION = dg.AssetKey(["registry", "champion"])


def build_registry(suite: Sequence[Benchmark], options: PromotionOptions) -> list[dg.AssetsDefinition]:
    """The champion, by default under the limits of ``options``."""

    @dg.asset(
        key=CHAMPION,
        group_name="registry",
        kinds={"json"},
        code_version=code_version("assets/promotion.py", "evaluation/statistics.py", "evaluation/report.py"),
        ins={"scorecard": dg.AssetIn(SCORECARD)},
        description="The policy in use: champion.json. A new policy replaces it when it is better in domain beyond "
        "chance, loses no more than allowed out of domain, and is not cut at the token limit; the first is compared "
        "with the base. Every decision is kept.",
    )
    @explained
    @configured(options)
    def champion(
        context: dg.AssetExecutionContext, config: dg.Config, storage: Storage, scorecard: Reference
    ) -> dg.MaterializeResult[Reference]:
        from evaluation.files import write_json

        wanted = chosen(config, options, stage="registry/champion")
        policy, base = scorecard.details["policy"], scorecard.details["base"]
        folder = storage.path / "registry"
        file = folder / "champion.json"
        current = read_champion(file)
        decision = _judge(current, scorecard, suite, wanted)
        now = datetime.now(UTC)
        record = {
            "policy": policy["path"],
            "checkpoint": policy["digest"],
            "base": base["digest"],
            "scorecard": scorecard.path,
            "scores": scorecard.details["scores"]["policy"],
            "decision": to_record(decision),
            "limits": wanted.model_dump(),
            "previous": current["checkpoint"] if current else None,
            "dagster_run": context.run_id,
            "time": now.isoformat(timespec="seconds"),
        }
        with storage.writable():
            write_json(record, folder / "decisions" / f"{now:%Y%m%dT%H%M%S}-{policy['digest'][:SHOWN]}.json")
            if decision.promoted:
                write_json(record, file)
        held = record if decision.promoted else current
        text = f"{'promoted' if decision.promoted else 'not promoted'}: {policy['digest'][:SHOWN]}"
        context.log.info("; ".join([text, *decision.reasons]))
        digest = held["checkpoint"] if held else "none"
        return dg.MaterializeResult(
            value=Reference(str(file if held else folder), digest, details={"promoted": decision.promoted}),
            data_version=dg.DataVersion(digest),
            metadata={
                "champion": digest[:SHOWN],
                "promoted": decision.promoted,
                "reasons": dg.MetadataValue.md("\n".join(f"- {cell(reason)}" for reason in decision.reasons) or "none"),
                "compared with": decision.against[:SHOWN],
                "in-domain difference": shown(decision.difference),
                "low": shown(decision.low),
                "high": shown(decision.high),
                **{f"difference {name}": shown(value) for name, value in decision.ood.items()},
                **{f"truncated {name}": shown(value) for name, value in decision.truncated.items()},
                "file": dg.MetadataValue.path(str(file)),
            },
        )

    return [champion]


def _judge(
    current: Mapping[str, Any] | None, scorecard: Reference, suite: Sequence[Benchmark], options: PromotionOptions
) -> Decision:
    """The decision on the scorecard's policy: against the current champion, or the base where there is none."""
    scores = scorecard.details["scores"]
    opponent = current["scores"] if current else scores["base"]
    if current and current["checkpoint"] == scorecard.details["policy"]["digest"]:
        return _held(current, "it is the champion already")
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
    return decide(
        read_tables({name: opponent[name]["file"] for name in scores["policy"]}),
        read_tables({name: score["file"] for name, score in scores["policy"].items()}),
        suite=suite,
        max_ood_drop=options.max_ood_drop,
        max_truncated=options.max_truncated,
    )


def _held(current: Mapping[str, Any], reason: str) -> Decision:
    """No promotion, and nothing that was compared."""
    return Decision(False, current["checkpoint"], (reason,), 0.0, 0.0, 0.0, {}, {})
