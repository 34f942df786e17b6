"""The assets evals/<role>/<benchmark> and ood/<role>/<benchmark>: scores of base and policy, one op per role.

The op loads the model once for all selected benchmarks, in the training interpreter. It reuses samples that were drawn
from the same model with the same prompts and sampling settings, and verdicts of the same grader.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals.opponent_answers import Answers, AnswersOfPolicy, Pair
from assets.models import KEY as BASE
from assets.shared.column_lineage import GRADED_PARTS, column_lineage, made_from
from assets.shared.failures import user_errors
from assets.shared.gpu_slot import TAG, gpu_slot
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.luffy import IO_MANAGER, Luffy, Names
from assets.shared.metadata import columns, counts, percents, preview, rounded
from assets.shared.references import Reference, ScoresReference, SuiteReference
from assets.shared.storage import Storage
from assets.training import POLICY
from core import kinds
from core.code_digest import SHORT_DIGEST, identity
from core.errors import InputError
from core.files import digest_table, write_table
from core.model.lineage_file import read_manifest
from core.model.prompts import PromptRecord
from core.progress import progress_line
from core.shared_settings import InterpreterSettings
from evaluation.benchmarks.suite import Benchmark
from evaluation.generation.requests import Counts
from evaluation.sample_tables import read_suite_file
from evaluation.settings import EvaluationSettings
from grading.graded_table import Verifiers, grade_table, verifier_digests
from training.config.overrides import SFT

if TYPE_CHECKING:
    import pyarrow as pa

    from evaluation.commands import Generate
    from evaluation.statistics.benchmark_scores import Summary

ENOUGH = 40  # answers: if none is right, fewer than one in 13 is, at 95% confidence
SAMPLES_KEPT = "the samples that were generated are kept; materialize again to continue"
ROLES = {"base": BASE, "policy": POLICY}
# The options on which the samples of a model depend.
SAMPLING = {"samples", "temperature", "top_p", "max_tokens", "seed", "template", "chat_template_kwargs"}


def key(benchmark: Benchmark, role: str) -> dg.AssetKey:
    """Return the key of the asset that holds the scores of ``role`` on ``benchmark``."""
    return dg.AssetKey([benchmark.group, role, benchmark.name])


def score_assets(suite: Sequence[Benchmark]) -> list[dg.AssetsDefinition]:
    """Build the scores of both roles on every benchmark of the suite: one op per role, which loads its model once."""
    return [_score_asset(role, model, suite) for role, model in ROLES.items()]


def _score_asset(role: str, model_key: dg.AssetKey, benchmarks: Sequence[Benchmark]) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=f"evals__{role}",
        outs=dict(_out(benchmark, role) for benchmark in benchmarks),
        ins={"model": dg.AssetIn(model_key), "suite": dg.AssetIn(SUITE)},
        can_subset=True,
    )
    def evals(
        context: dg.AssetExecutionContext,
        luffy: dg.ResourceParam[Luffy],
        model: Reference,
        suite: SuiteReference,
        luffy_interpreter: TrainingInterpreter,
    ) -> Iterator[dg.MaterializeResult[ScoresReference]]:
        with user_errors(context):
            yield from _scores(context, luffy, model, suite, luffy_interpreter)

    return evals


def _scores(
    context: dg.AssetExecutionContext,
    luffy: Luffy,
    model: Reference,
    suite: SuiteReference,
    interpreter: TrainingInterpreter,
) -> Iterator[dg.MaterializeResult[ScoresReference]]:
    storage = luffy.storage
    settings = luffy.settings.evaluation
    selected = {asset.path[-1]: asset for asset in sorted(context.selected_asset_keys)}
    if unknown := selected.keys() - suite.digests.keys():
        raise InputError(f"benchmarks/suite lacks {', '.join(sorted(unknown))}; materialize benchmarks/suite again")
    questions = read_suite_file(Path(suite.path))

    def draw(drawn: Reference, seed: int, counts: Counts | None, options: EvaluationSettings = settings) -> Answers:
        options = options.model_copy(update={"seed": seed})
        samples = generate(context, list(selected), drawn, suite, options, storage, interpreter, counts)
        return Answers(drawn, samples, grade(context, samples, questions, options, storage))

    benchmarks = [benchmark for benchmark in luffy.suite if benchmark.name in selected]
    if "policy" in {asset.path[-2] for asset in selected.values()}:
        check_policy(model)
        if settings.until_decided and len(benchmarks) < len(luffy.suite):
            raise InputError("samples: until_decided takes all benchmarks of the policy together; select all of them")
        pair = AnswersOfPolicy(luffy, model, suite, benchmarks, draw, context.log.info).drawn()
    else:
        pair = draw(model, settings.seed, None, settings.of_base()), None
        files = [pair[0].graded[benchmark.name] for benchmark in benchmarks if benchmark.group == "evals"]
        if advice := recipe_advice(luffy.settings.training.recipe, files):
            context.log.warning(advice)
    accuracies = []
    for name, asset in selected.items():
        result = _result(luffy.names, asset, pair, suite, name)
        accuracies.append(f"{name} {result.value.accuracy:.1%}")
        yield result
    context.log.info(", ".join(accuracies))


def recipe_advice(recipe: str, graded: Sequence[Path]) -> str | None:
    """Return what to do if the base solves nothing in the ``graded`` files, and ``recipe`` starts with rewards."""
    import pyarrow.parquet as pq

    from training.config.compose import compose

    scores = [score for file in graded for score in pq.read_table(file, columns=["score"])["score"].to_pylist()]
    composed = compose(recipe, "cpu", ())
    first = composed.first_stage or composed.run
    if len(scores) < ENOUGH or any(scores) or first.method.get("type") == SFT:
        return None
    return (
        f"0 of {len(scores)} answers of the base are right: it cannot do this yet, and recipe {recipe} learns from "
        "right answers. Imitate first: --set training.recipe=sft, or sft_rl"
    )


def _out(benchmark: Benchmark, role: str) -> tuple[str, dg.AssetOut]:
    spec = dg.AssetSpec(
        key(benchmark, role),
        group_name=benchmark.group,
        kinds={"vllm"},
        tags={"luffy/role": role, **TAG},
        code_version=kinds.GRADED.code_version,
        description=f"{benchmark.title}: the accuracy of the {role}, and every sample with its verdict.",
    )
    out = dg.AssetOut.from_spec(spec, dagster_type=ScoresReference, io_manager_key=IO_MANAGER, is_required=False)
    return f"{benchmark.group}_{role}_{benchmark.name}", out


def check_policy(policy: Reference) -> None:
    """Raise InputError unless the checkpoint is, byte for byte, the one that training/policy produced."""
    if (digest := read_manifest(Path(policy.path)).checkpoint_digest) != policy.digest:
        raise InputError(
            f"checkpoint {policy.path} has the digest {digest[:SHORT_DIGEST]}, but training/policy produced "
            f"{policy.short}; materialize training/policy again"
        )


def generate(
    context: dg.AssetExecutionContext,
    names: Sequence[str],
    model: Reference,
    suite: SuiteReference,
    options: EvaluationSettings,
    storage: Storage,
    interpreter: TrainingInterpreter,
    counts: Counts | None = None,
) -> dict[str, Path]:
    """Return the sample files of ``names``; load the model once and generate the missing ones.

    Args:
        counts: Number of samples of each problem by benchmark, if ``options`` leave it to the decision.
    """
    sampling = options.model_dump(include=SAMPLING)
    folders = {}
    for name in names:
        drawn = counts and counts[name]
        digest = kinds.GRADED.identity(model.digest, suite.digests[name], sampling, drawn)
        folders[name] = storage.result("generations", name, digest)
    files = {name: folder / "samples.parquet" for name, folder in folders.items()}
    missing = {name: folder for name, folder in folders.items() if not storage.has(folder, kinds.GRADED, context.log)}
    if not missing:
        return files
    with gpu_slot(context):
        missing = {name: folder for name, folder in missing.items() if not folder.exists()}
        if not missing:  # another run has drawn them while this one waited
            return files
        with storage.working("generations", "jobs", identity(*(folder.name for folder in missing.values()))) as out:
            request = _request(missing, model, suite, options, storage, out, counts, interpreter.placement(context))
            arguments = ["evaluation", "generate", "--request", str(request.write(out / "request.json"))]
            try:
                interpreter.run(
                    context, arguments, lambda message: context.log.info(progress_line(message)), lambda: SAMPLES_KEPT
                )
            finally:  # benchmarks that were complete when the step was interrupted are kept
                for name, folder in missing.items():
                    if (out / f"{name}.parquet").exists():
                        with storage.writing(folder, kinds.GRADED) as temporary:
                            request.write(temporary / "request.json")
                            (out / f"{name}.parquet").rename(temporary / "samples.parquet")
    return files


def _request(
    names: Iterable[str],
    model: Reference,
    suite: SuiteReference,
    options: EvaluationSettings,
    storage: Storage,
    out: Path,
    counts: Counts | None,
    placement: Mapping[str, Any],
) -> "Generate":
    """Return the request for samples of the benchmarks ``names`` in ``out``."""
    from evaluation.commands import Generate

    return Generate(
        model=model.path,
        suite=Path(suite.path),
        benchmarks=tuple(names),
        out=out,
        checkpoint=model.digest,
        cache=(out if storage.force else storage.path) / "samples",
        evaluation=EvaluationSettings.model_validate(options.model_dump(include=set(EvaluationSettings.model_fields))),
        interpreter=InterpreterSettings(**placement),
        counts=None if counts is None else {name: dict(counts[name]) for name in counts},
    )


def grade(
    context: dg.AssetExecutionContext,
    samples: Mapping[str, Path],
    suite: "pa.Table",
    options: EvaluationSettings,
    storage: Storage,
) -> dict[str, Path]:
    """Return the verdict files of ``samples``, after grading those that have none."""
    import pyarrow.parquet as pq

    settings = [options.thinking, options.truncated, options.grade_limit_s]
    folders = {}
    for name, path in samples.items():
        digest = kinds.GRADED.identity(path.parent.name, settings, verifier_digests(suite, name))
        folders[name] = storage.result("graded", name, digest)
    if missing := [name for name, folder in folders.items() if not storage.has(folder, kinds.GRADED, context.log)]:
        with Verifiers(options.grade_workers, options.grade_limit_s) as verifiers:
            for name in missing:
                rules = {"thinking": options.thinking, "truncated": options.truncated}
                table = grade_table(pq.read_table(samples[name]), suite, verifiers, **rules)
                with storage.writing(folders[name], kinds.GRADED) as folder:
                    write_table(table, folder / "graded.parquet")
                context.log.info(f"{name}: graded {table.num_rows} samples")
    return {name: folder / "graded.parquet" for name, folder in folders.items()}


def _result(
    names: Names, asset: dg.AssetKey, pair: Pair, suite: SuiteReference, name: str
) -> dg.MaterializeResult[ScoresReference]:
    import pyarrow.parquet as pq

    from core.schemas import is_sequential
    from evaluation.statistics.benchmark_scores import summarize

    answers, opponent = pair
    graded, model = answers.graded[name], answers.model
    table = pq.read_table(graded)
    summary = summarize(table)
    defence = str(opponent.graded[name]) if opponent else None
    reference = ScoresReference(
        path=str(graded),
        digest=identity(digest_table(table), model.digest),
        checkpoint=model.digest,
        problems=suite.digests[name],
        accuracy=summary.mean,
        sequential=is_sequential([table]),
        opponent=opponent.model.digest if opponent else None,
        opponent_path=opponent.model.path if opponent else None,
        opponent_scores=defence,
    )
    return reference.result(
        {
            **_summary_metadata(summary),
            "checkpoint": model.digest,
            "prompt template": PromptRecord.of(table).name or "not recorded",
            "dagster/row_count": table.num_rows,
            "dagster/column_schema": columns(table.schema),
            "dagster/column_lineage": column_lineage(names, made_from(SUITE, GRADED_PARTS)),
            "samples": preview(table, ["prompt", "response", "gold", "extracted", "verdict"]),
            "file": dg.MetadataValue.path(str(graded)),
            "generated": dg.MetadataValue.path(str(answers.samples[name])),
            **({"answers of its opponent": dg.MetadataValue.path(defence)} if defence else {}),
        },
        asset,
    )


def _summary_metadata(summary: "Summary") -> dict[str, Any]:
    return {
        **percents({"accuracy": summary.mean, "low": summary.low, "high": summary.high}),
        "95% interval": f"{summary.low:.1%} to {summary.high:.1%}",
        "problems": summary.problems,
        "samples per problem": summary.k,
        **percents({"majority": summary.majority, **{f"pass@{k}": share for k, share in summary.pass_at.items()}}),
        **percents({"truncated": summary.truncated, "without an answer": summary.unanswered}),
        "mean tokens": rounded(summary.mean_tokens),
        "verdicts": counts(summary.verdicts, ("verdict", "samples")),
    }
