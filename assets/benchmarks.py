"""The asset benchmarks/suite: the problems that models are scored on."""

from collections import Counter

import dagster as dg

from assets.shared.failures import user_errors
from assets.shared.luffy import IO_MANAGER, Luffy
from assets.shared.metadata import columns, counts, preview
from assets.shared.references import SuiteReference
from core import kinds
from core.code_digest import identity
from core.files import write_table
from evaluation.sample_tables import problem_digests

KEY = dg.AssetKey(["benchmarks", "suite"])
FILE = "suite.parquet"


@dg.asset(
    key=KEY,
    io_manager_key=IO_MANAGER,
    group_name="benchmarks",
    kinds={"parquet"},
    code_version=kinds.GRADED.code_version,
    description="All problems that base and policy are scored on, with prompts and gold answers.",
)
def benchmarks_suite(
    context: dg.AssetExecutionContext, luffy: dg.ResourceParam[Luffy]
) -> dg.MaterializeResult[SuiteReference]:
    from evaluation.benchmarks.benchmark_problems import read_suite

    with user_errors(context):
        storage = luffy.storage
        settings = luffy.settings.benchmarks
        drawn = settings.model_dump(include={"limit", "seed", "system_prompt"})
        table = read_suite(luffy.suite, settings.folders, **drawn)
        digests = problem_digests(table)
        digest = identity(digests)
        folder = storage.folder("benchmarks", "suite", digest)
        reused = folder.exists()
        if not reused:
            with storage.writing(folder) as temporary:
                write_table(table, temporary / FILE)
        sizes = Counter(table["benchmark"].to_pylist())
        context.log.info(f"{table.num_rows} problems: " + ", ".join(f"{n} {name}" for name, n in sizes.items()))
        return SuiteReference(path=str(folder / FILE), digest=digest, digests=digests).result(
            {
                "dagster/row_count": table.num_rows,
                "dagster/column_schema": columns(table.schema),
                "problems": counts(sizes, ("benchmark", "problems")),
                "preview": preview(table, ["benchmark", "prompt", "gold", "verifier"]),
                "file": dg.MetadataValue.path(str(folder / FILE)),
                "reused": reused,
            }
        )
