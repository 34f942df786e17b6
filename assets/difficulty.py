"""The asset targets/difficulty: how often the base model solves each problem of the sources.

The asset exists if the profile has a section `difficulty`. Its samples are drawn and graded as in evals/*.
"""

from pathlib import Path

import dagster as dg

from assets.evals.answers import Sampler
from assets.generated import with_generated
from assets.models import KEY as BASE
from assets.shared.failures import user_errors
from assets.shared.gpu_slot import TAG
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.luffy import IO_MANAGER, Luffy
from assets.shared.metadata import columns, percents, pictures, preview
from assets.shared.references import ModelReference, Reference, SuiteReference
from assets.source import SOURCE, with_upstream_files
from assets.targets import DIFFICULTY as KEY
from core import kinds
from core.code_digest import identity
from core.errors import InputError
from core.files import digest_table, write_table
from core.text.markdown import markdown_table
from targets.settings import TargetSettings

FILE = "difficulty.parquet"


def check_one_source_of_rates(targets: TargetSettings) -> None:
    """Raise InputError if a profile that measures pass rates also names a file of them."""
    if targets.difficulty is not None:
        raise InputError(
            f"the section difficulty measures pass rates, and targets.difficulty={targets.difficulty} has them: leave "
            "one out of the profile"
        )


@dg.asset(
    key=KEY,
    io_manager_key=IO_MANAGER,
    group_name="targets",
    kinds={"vllm", "parquet"},
    code_version=kinds.GRADED.code_version,
    ins={"base": dg.AssetIn(BASE)},
    deps=[SOURCE],
    tags=TAG,
    description="How often the base model solves each problem, with the 95% interval. targets/prepared uses it to "
    "select problems (pass_rate), and training uses it to choose the prompts with off-policy samples "
    "(method.guide) and the order of the prompts (data.order).",
)
def difficulty(
    context: dg.AssetExecutionContext,
    luffy: dg.ResourceParam[Luffy],
    base: ModelReference,
    luffy_interpreter: TrainingInterpreter,
) -> dg.MaterializeResult[Reference]:
    import pyarrow.parquet as pq

    from evaluation.statistics.solve_rate import as_suite, graded_difficulty
    from targets.problems import NAME, read_problems

    with user_errors(context):
        storage = luffy.storage
        settings = luffy.settings.difficulty
        assert settings is not None
        options, teacher = with_generated(context, luffy)
        sources = with_upstream_files(context.instance, options)
        generated = Path(teacher.path) if teacher else None
        problems = read_problems(sources, Path(base.path), settings.limit, generated, luffy.settings.tools)
        digest = identity(digest_table(problems), settings.samples)
        folder = storage.folder("targets", "problems", digest)
        if not folder.exists():
            with storage.writing(folder) as temporary:
                write_table(as_suite(problems, settings.samples), temporary / "problems.parquet")
        suite = SuiteReference(path=str(folder / "problems.parquet"), digest=digest, digests={NAME: digest})
        sampler = Sampler(context, storage, suite, settings, luffy_interpreter, luffy.settings.tools)
        graded = sampler.answers(base, [NAME]).graded[NAME]
        out = storage.result("targets", "difficulty", kinds.GRADED.identity(graded.parent.name))
        reused = storage.has(out, kinds.GRADED, context.log)
        if not reused:
            with storage.writing(out, kinds.GRADED) as temporary:
                write_table(graded_difficulty(pq.read_table(graded), problems, base.digest), temporary / FILE)
        return _result(out / FILE, reused)


def _result(file: Path, reused: bool) -> dg.MaterializeResult[Reference]:
    import pyarrow.parquet as pq

    from evaluation.report import charts
    from evaluation.statistics.solve_rate import BINS, histogram

    table = pq.read_table(file)
    digest, rates = digest_table(table), table["pass_rate"].to_pylist()
    bins = ((name, f"{n:,}") for name, n in histogram(table).items())
    drawn = charts.histogram("Problems by pass rate, in percent", [100 * r for r in rates], limit=100, bins=BINS)
    return Reference(path=str(file), digest=digest).result(
        {
            "dagster/row_count": table.num_rows,
            "dagster/column_schema": columns(table.schema),
            "pass rates": pictures(drawn),
            "problems by pass rate": dg.MetadataValue.md(markdown_table(("pass rate", "problems"), bins)),
            **percents({"mean pass rate": sum(rates) / len(rates)}),
            "never solved": sum(rate == 0 for rate in rates),
            "always solved": sum(rate == 1 for rate in rates),
            "samples per problem": table["samples"][0].as_py(),
            "model": table["model"][0].as_py(),
            "preview": preview(table, ["problem", "solved", "samples", "pass_rate", "low", "high"]),
            "file": dg.MetadataValue.path(str(file)),
            "reused": reused,
        },
    )
