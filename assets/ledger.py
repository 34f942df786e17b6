"""The asset training/ledger: what the policy learned from each target, and every use of a target."""

from collections.abc import Mapping
from pathlib import Path

import dagster as dg

from assets.shared.failures import user_errors
from assets.shared.luffy import IO_MANAGER, Luffy
from assets.shared.metadata import pictures, rows_table
from assets.shared.references import PolicyReference, Reference
from assets.shared.storage import Storage
from assets.targets import REJECTED
from assets.training import POLICY
from core import kinds
from core.files import digest_file
from core.ledger_verdicts import LEARNED_FILE, VERDICTS
from core.model.lineage_file import read_manifest

LEDGER = dg.AssetKey(["training", "ledger"])
PAGE = "ledger.html"
OTHER_TARGETS = "none: the targets were prepared anew after this training; materialize training/policy again"


@dg.asset(
    key=LEDGER,
    io_manager_key=IO_MANAGER,
    group_name=LEDGER.path[0],
    kinds={"parquet"},
    code_version=kinds.POLICY.code_version,
    ins={"policy": dg.AssetIn(POLICY), "rejected": dg.AssetIn(REJECTED)},
    description="What the training made of each target: taught, imitated, known before, contradicted, not learned or "
    "not used. Its tables have one row per target, and one per use of a target in an update; on its page you can "
    "filter all traces by verdict. The setting targets.ledger leaves targets out of the next preparation by verdict.",
)
def ledger(
    context: dg.AssetExecutionContext, luffy: dg.ResourceParam[Luffy], policy: PolicyReference, rejected: Reference
) -> dg.MaterializeResult[Reference]:
    with user_errors(context):
        storage = luffy.storage
        manifest = read_manifest(Path(policy.path))
        counts, run = manifest.ledger, Path(policy.metrics).parent
        metadata: dict[str, dg.MetadataValue] = {}
        if counts is None:
            context.log.info("no ledger: the recipe has no off-policy samples")
        else:
            trained_on = manifest.upstream.get("targets", {}).get("prepared_digest")
            prepared = Path(rejected.path).parent
            metadata = _metadata(counts, run) | _page(prepared, trained_on, run, storage, context.log)
            total = {name: sum(of_source.get(name, 0) for of_source in counts.values()) for name in VERDICTS}
            context.log.info(_used_text(total))
        return Reference(path=str(run), digest=policy.digest).result(metadata)


def _used_text(total: Mapping[str, int]) -> str:
    """Say how many targets the training used, and how many of them taught it nothing new.

    >>> _used_text({"taught": 186, "known": 294, "unused": 3616})
    '480 of 4,096 traces were used; 294 of them the model could already do'
    """
    text = f"{sum(total.values()) - total['unused']:,} of {sum(total.values()):,} traces were used"
    return f"{text}; {total['known']:,} of them the model could already do" if total["known"] else text


def _page(
    prepared: Path, trained_on: str | None, run: Path, storage: Storage, log: dg.DagsterLogManager
) -> dict[str, dg.MetadataValue]:
    """Write the page of the traces of a preparation, with what the policy learned from each of them.

    Args:
        prepared: Folder of the newest preparation.
        trained_on: Digest of the preparation that the training read.
    """
    from targets.prepared_files import read_prepared
    from targets.trace_browser import browse

    preparation = read_prepared(prepared)
    if preparation.digest != trained_on:
        return {"page": dg.MetadataValue.text(OTHER_TARGETS)}
    folder = storage.result("training", "ledger", kinds.POLICY.identity(prepared.name, digest_file(run / LEARNED_FILE)))
    if not storage.has(folder, kinds.POLICY, log):
        with storage.writing(folder, kinds.POLICY) as temporary:
            browse(preparation, temporary / PAGE, run)
    return {"page": storage.link(folder / PAGE)}


def _metadata(counts: Mapping[str, Mapping[str, int]], run: Path) -> dict[str, dg.MetadataValue]:
    """Describe the verdicts by source, what they mean, and the targets with the largest weights."""
    from evaluation.report import charts
    from evaluation.report.scorecard.scorecard_text import learned_table
    from training.job.records.ledger_table import USES_FILE, heaviest

    table = learned_table(counts)
    meanings = [f"- {name}: {VERDICTS[name.replace(' ', '_')]}" for name in table.columns[1:]]
    columns = ("target", "problem", "share of the loss", "uses", "p, first to last", "solved, first to last", "verdict")
    bars = [
        (f"{source}: {title}" if len(counts) > 1 else title, of[name])
        for source, of in sorted(counts.items())
        for name, title in ((name, name.replace("_", " ")) for name in VERDICTS)
        if name in of
    ]
    return {
        "figure": pictures(charts.counts("Targets by what the training made of them", bars)),
        "targets by verdict": dg.MetadataValue.md("\n".join([table.to_markdown(), "", *meanings])),
        "heaviest targets": rows_table(columns, heaviest(run), left=(0, 1, 6)),
        "targets": dg.MetadataValue.path(str(run / LEARNED_FILE)),
        "uses": dg.MetadataValue.path(str(run / USES_FILE)),
    }
