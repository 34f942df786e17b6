"""The asset benchmarks/suite: the problems that models are scored on."""

from collections import Counter
from collections.abc import Sequence

import dagster as dg

from assets.shared.metadata import columns, counts, preview
from assets.shared.profile import Luffy, profile_asset
from assets.shared.references import SuiteReference
from assets.shared.storage import Storage
from core import kinds
from core.code_digest import identity
from evaluation.benchmarks.suite import Benchmark

KEY = dg.AssetKey(["benchmarks", "suite"])
FILE = "suite.parquet"


def description_of(suite: Sequence[Benchmark]) -> str:
    """Describe the asset, with the titles of its benchmarks."""
    titles = ", ".join(benchmark.title for benchmark in suite)
    return f"All problems that base and policy are scored on, with prompts and gold answers: {titles}."


@profile_asset(
    key=KEY,
    group_name="benchmarks",
    kinds={"parquet"},
    code_version=kinds.GRADED.code_version,
)
def benchmarks_suite(
    context: dg.AssetExecutionContext, luffy: dg.ResourceParam[Luffy], storage: Storage
) -> dg.MaterializeResult[SuiteReference]:
    from core.files import write_table
    from evaluation.benchmarks.benchmark_problems import read_suite
    from evaluation.sample_tables import problem_digests

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
        },
    )
