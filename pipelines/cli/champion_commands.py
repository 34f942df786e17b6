"""``luffy champion`` with ``promote`` and ``rollback``: look at the champion, or move it by hand.

A move writes a decision file, and reports a materialization of registry/champion to the instance, so the UI shows who
moved the champion, when and why.
"""

import sys
from collections.abc import Callable, Sequence

import dagster as dg

from assets.registry.champion import CHAMPION
from assets.registry.retention import KEY as RETENTION
from assets.shared.metadata import bullets, cell
from assets.shared.references import ChampionReference
from assets.shared.storage import Storage
from core.cli import say
from core.code_digest import SHORT_DIGEST
from evaluation.promotion.champions import Registry
from evaluation.promotion.decision_text import level_text, outcome_text
from evaluation.promotion.records import PolicyRecord
from pipelines.cli.run import run_graph
from pipelines.definitions.instance import prepare_home
from pipelines.definitions.jobs import RETAIN
from pipelines.settings import load


def retention(profile: str | None, overrides: Sequence[str], *, remove: bool) -> int:
    """List the old outputs that nothing refers to, or remove them, by a run of the job ``retention``."""
    settings = load(profile, [*overrides, f"retention.dry_run={str(not remove).lower()}"])
    status = run_graph(settings, None, 1, RETAIN)
    if status == 0:
        with dg.DagsterInstance.get() as instance:
            event = instance.get_latest_materialization_event(RETENTION)
        if event and event.asset_materialization:
            metadata = event.asset_materialization.metadata
            size = metadata["bytes freed" if remove else "bytes to free"].value
            say(metadata["list"].value)
            say(f"{metadata['folders'].value} folders {'removed' if remove else 'can be removed'}: {size:,} bytes")
    return status


def move_champion(move: Callable[[Registry], PolicyRecord], profile: str | None) -> None:
    """Move the champion by hand, and report that to the instance."""
    storage = Storage(root=load(profile).storage.root)
    registry = Registry(storage.path)
    prepare_home(storage.root)
    # No other move may come between our move and its report.
    with storage.writable(), registry.locked():
        record = move(registry)
        storage.write_reference(
            CHAMPION.to_user_string(),
            ChampionReference(path=str(registry.pointer), digest=record.checkpoint, promoted=True),
        )
        with dg.DagsterInstance.get() as instance:
            instance.report_runless_asset_event(materialization(registry, record))
    sys.stdout.write(f"champion: {record.checkpoint[:SHORT_DIGEST]}  {record.policy}\n")


def materialization(registry: Registry, record: PolicyRecord) -> dg.AssetMaterialization:
    """Return the materialization that the UI shows for a move by hand."""
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
            "reasons": bullets(decision.reasons),
            "file": dg.MetadataValue.path(str(registry.pointer)),
        },
    )


def show(profile: str | None, last: int = 10) -> None:
    """Write the champion and the last decisions, newest first."""
    settings = load(profile)
    registry, error_rate = Registry(Storage(root=settings.storage.root).path), settings.promotion.error_rate
    champion = registry.champion()
    if champion is None:
        sys.stdout.write(f"there is no champion in {registry.folder} yet\n")
    else:
        sys.stdout.write(f"champion: {champion.checkpoint[:SHORT_DIGEST]}  {champion.policy}\n")
        rejected = ", ".join(digest[:SHORT_DIGEST] for digest in champion.rejected)
        sys.stdout.write(f"rolled back (`luffy champion promote` brings them back): {rejected}\n" if rejected else "")
    budget = registry.error_budget(error_rate)
    spent = f"{error_rate - budget.left:.3g} of {error_rate:g} spent by {budget.tests} comparisons"
    sys.stdout.write(f"error rate: {spent}, {budget.left:.3g} left\n")
    for record in reversed(registry.decisions()[-last:]):
        decision = record.decision
        what, text = outcome_text(decision), "; ".join(filter(None, [level_text(decision), *decision.reasons]))
        sys.stdout.write(f"{record.time[:19]}  {record.checkpoint[:SHORT_DIGEST]}  {what:12} {text}".rstrip() + "\n")
