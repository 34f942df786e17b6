"""The asset targets/browser: a page for people with every trace, used or rejected."""

from pathlib import Path

import dagster as dg

from assets.shared.failures import user_errors
from assets.shared.luffy import IO_MANAGER, Luffy
from assets.shared.references import Reference
from assets.targets import REJECTED
from core import kinds
from core.files import digest_file

BROWSER = dg.AssetKey(["targets", "browser"])
PAGE = "browser.html"


@dg.asset(
    key=BROWSER,
    io_manager_key=IO_MANAGER,
    group_name="targets",
    kinds={"html"},
    code_version=kinds.PREPARED.code_version,
    ins={"rejected": dg.AssetIn(REJECTED)},
    description="A page with every trace, used or rejected. It filters, searches and renders formulas, and shows the "
    "gold answer and the near duplicate of each trace. Reviewers download their decisions as review.csv, and the "
    "next preparation follows them if targets.review names that file.",
)
def browser(
    context: dg.AssetExecutionContext, luffy: dg.ResourceParam[Luffy], rejected: Reference
) -> dg.MaterializeResult[Reference]:
    from targets.prepared_files import read_prepared
    from targets.trace_browser import browse

    with user_errors(context):
        storage = luffy.storage
        source = Path(rejected.path).parent
        folder = storage.result("targets", "browser", kinds.PREPARED.identity(source.name))
        if not storage.has(folder, kinds.PREPARED, context.log):
            with storage.writing(folder, kinds.PREPARED) as temporary:
                browse(read_prepared(source), temporary / PAGE)
        digest = digest_file(folder / PAGE)
        context.log.info(f"page of {source.name}: {folder / PAGE}")
        return Reference(path=str(folder), digest=digest).result(
            {"page": storage.link(folder / PAGE), "file": dg.MetadataValue.path(str(folder / PAGE))}
        )
