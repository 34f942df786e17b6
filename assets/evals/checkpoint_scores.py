"""The asset training/checkpoints: the scores of the policy's saved checkpoints on one benchmark, on request."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals.answers import Sampler
from assets.shared.failures import user_errors
from assets.shared.gpu_slot import TAG
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.luffy import IO_MANAGER, Luffy
from assets.shared.metadata import percents, pictures, rows_table
from assets.shared.references import PolicyReference, Reference, SuiteReference
from assets.training import POLICY
from core import kinds
from core.code_digest import identity
from core.errors import InputError
from core.files import read_json
from core.model.lineage_file import MANIFEST
from core.model.model_folder import model_digest

if TYPE_CHECKING:
    from evaluation.statistics.benchmark_scores import Summary

CHECKPOINTS = dg.AssetKey(["training", "checkpoints"])


@dg.asset(
    key=CHECKPOINTS,
    io_manager_key=IO_MANAGER,
    group_name=CHECKPOINTS.path[0],
    kinds={"vllm"},
    tags=TAG,
    code_version=kinds.GRADED.code_version,
    ins={"policy": dg.AssetIn(POLICY)},  # an arrow from the benchmarks would say that it is trained on them
    description="The accuracy of every saved checkpoint of the policy's run on one benchmark. run.keep_checkpoints "
    "sets how many checkpoints are saved. Materialize this asset on request; no job includes it.",
)
def checkpoints(
    context: dg.AssetExecutionContext,
    luffy: dg.ResourceParam[Luffy],
    policy: PolicyReference,
    luffy_interpreter: TrainingInterpreter,
) -> dg.MaterializeResult[Reference]:
    import pyarrow.parquet as pq

    from evaluation.statistics.benchmark_scores import summarize
    from training.job.checkpoints import complete_steps

    with user_errors(context):
        storage = luffy.storage
        suite = storage.read_reference(SUITE.to_user_string(), SuiteReference)
        benchmark = luffy.benchmark
        if benchmark not in suite.digests:
            raise InputError(f"benchmark {benchmark!r}: expected one of {', '.join(suite.digests)}")
        run = Path(policy.path).parent
        if not (steps := complete_steps(run / "checkpoints")):
            raise InputError(f"{run}: it has no checkpoints any more (retention.drop_checkpoints removes them)")
        settings, summaries = luffy.settings, {}
        sampler = Sampler(context, storage, suite, settings.evaluation, luffy_interpreter, settings.tools)
        for step in steps:
            with storage.working("generations", "checkpoints", identity(policy.digest, step)) as folder:
                model = folder / f"step_{step}"
                _write_model(context, run, step, model, luffy_interpreter)
                reference = Reference(path=str(model), digest=model_digest(model))
                graded = sampler.answers(reference, [benchmark]).graded[benchmark]
            summaries[step] = summarize(pq.read_table(graded))
            context.log.info(f"step {step}: {benchmark} {summaries[step].mean:.1%}")
        return _result(run, summaries, benchmark, [policy.digest, suite.digests[benchmark]])


def _result(
    run: Path, summaries: "Mapping[int, Summary]", benchmark: str, versions: list[str]
) -> dg.MaterializeResult[Reference]:
    """Return the accuracy of each step as a table and a curve; ``versions`` are digests of policy and problems."""
    from evaluation.report.figures import training_curves

    records = [{"step": step, "data": {"accuracy": summary.mean}} for step, summary in summaries.items()]
    best = max(summaries, key=lambda step: (summaries[step].mean, step))
    digest = identity(*versions, records)
    rows = ((step, f"{s.mean:.1%}", f"{s.low:.1%} to {s.high:.1%}") for step, s in summaries.items())
    curve = training_curves(records, {"accuracy": f"{benchmark} by checkpoint"})
    return Reference(path=str(run / "checkpoints"), digest=digest).result(
        {
            "benchmark": benchmark,
            "scores": rows_table(("step", "accuracy", "95% interval"), rows, left=(2,)),
            "best step": best,
            **percents({"best accuracy": summaries[best].mean}),
            **({"curve": pictures(*curve)} if curve else {}),
        },
    )


def _write_model(
    context: dg.AssetExecutionContext, run: Path, step: int, out: Path, interpreter: TrainingInterpreter
) -> None:
    """Write the model of a checkpoint, with the lineage of the policy, which records its training prompt."""
    import shutil

    dtype = read_json(run / "policy" / "config.json")["dtype"]
    arguments = ["training", "export", "--run", str(run), "--step", str(step), "--dtype", dtype, "--out", str(out)]
    if not out.exists():  # otherwise it belongs to a step that was killed, whose evaluation may still run
        interpreter.run(context, arguments, lambda message: None)
    shutil.copy(run / "policy" / MANIFEST, out / MANIFEST)
