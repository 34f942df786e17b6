"""``python -m pipelines.cli.registry show | promote | rollback``: look at the champion, or move it by hand.

``make promote`` and ``make rollback`` call it. A move writes a decision file, and reports a materialization of
registry/champion to the instance, so the UI shows who moved the champion, when and why.
"""

import sys

import dagster as dg

from assets.registry import CHAMPION
from assets.shared.metadata import cell
from assets.shared.references import ChampionReference
from assets.shared.storage import Storage
from core.cli import Parser, exit_status
from core.code_digest import SHORT_DIGEST
from evaluation.promotion.champions import Registry
from evaluation.promotion.decision_text import outcome_text, rule_text
from evaluation.promotion.records import PolicyRecord
from pipelines.definitions.instance import prepare_home
from pipelines.definitions.settings import load_settings


def parser() -> Parser:
    result = Parser(prog="python -m pipelines.cli.registry", description="Show the champion, or move it by hand.")
    actions = result.add_subparsers(dest="action", required=True)
    actions.add_parser("show", help="show the champion and the last decisions")
    promote = actions.add_parser("promote", help="make a policy the champion")
    promote.add_argument("to", metavar="TO", help="a run's folder, or the first characters of a policy's digest")
    rollback = actions.add_parser("rollback", help="make the previous champion the champion again")
    for command in (promote, rollback):
        command.add_argument("--reason", default="", help="reason for the move, kept with the decision")
    return result


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    settings = load_settings()
    storage = Storage(root=settings.storage.root)
    registry = Registry(storage.path)
    if options.action == "show":
        show(registry, settings.promotion.error_rate)
        return 0
    reason = options.reason or "no reason given"
    with storage.writable():
        promote = options.action == "promote"
        record = registry.promote(options.to, reason=reason) if promote else registry.rollback(reason=reason)
    storage.write_reference(
        CHAMPION.to_user_string(),
        ChampionReference(path=str(registry.pointer), digest=record.checkpoint, promoted=True),
    )
    prepare_home()
    with dg.DagsterInstance.get() as instance:
        instance.report_runless_asset_event(materialization(registry, record))
    sys.stdout.write(f"champion: {record.checkpoint[:SHORT_DIGEST]}  {record.policy}\n")
    return 0


def materialization(registry: Registry, record: PolicyRecord) -> dg.AssetMaterialization:
    """The materialization that the UI shows for a move by hand."""
    decision = record.decision
    return dg.AssetMaterialization(
        CHAMPION,
        description=f"{decision.by_hand} by hand, by {decision.by}",
        tags={"dagster/data_version": record.checkpoint},
        metadata={
            "champion": record.checkpoint[:SHORT_DIGEST],
            "promoted": True,
            "by hand": decision.by_hand,
            "by": cell(decision.by),
            "reasons": dg.MetadataValue.md("\n".join(f"- {cell(reason)}" for reason in decision.reasons)),
            "file": dg.MetadataValue.path(str(registry.pointer)),
        },
    )


def show(registry: Registry, error_rate: float, last: int = 10) -> None:
    """Write the champion and the last decisions, newest first."""
    champion = registry.champion()
    if champion is None:
        sys.stdout.write(f"there is no champion in {registry.folder} yet\n")
    else:
        sys.stdout.write(f"champion: {champion.checkpoint[:SHORT_DIGEST]}  {champion.policy}\n")
        rejected = ", ".join(digest[:SHORT_DIGEST] for digest in champion.rejected)
        sys.stdout.write(f"rolled back (only `make promote` can bring these back): {rejected}\n" if rejected else "")
    budget = registry.error_budget(error_rate)
    spent = f"{error_rate - budget.left:.3g} of {error_rate:g} spent by {budget.tests} comparisons"
    sys.stdout.write(f"error rate: {spent}, {budget.left:.3g} left\n")
    for record in reversed(registry.decisions()[-last:]):
        decision = record.decision
        what, text = outcome_text(decision), "; ".join(filter(None, [rule_text(decision), *decision.reasons]))
        sys.stdout.write(f"{record.time[:19]}  {record.checkpoint[:SHORT_DIGEST]}  {what:12} {text}".rstrip() + "\n")


if __name__ == "__main__":
    sys.exit(exit_status(main))
