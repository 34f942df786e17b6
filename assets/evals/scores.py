"""The assets evals/<role>/<benchmark> and ood/<role>/<benchmark>: scores of base and policy, one op per role.

The op loads the model once for all selected benchmarks, in the training interpreter. It reuses samples that were drawn
from the same model with the same prompts and sampling settings, and verdicts of the same grader.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals.answers import Sampler
from assets.evals.opponent_answers import AnswersOfPolicy, Pair
from assets.models import KEY as BASE
from assets.shared.column_lineage import GRADED_PARTS, column_lineage, made_from
from assets.shared.failures import user_errors
from assets.shared.gpu_slot import TAG
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.luffy import IO_MANAGER, Luffy, Names
from assets.shared.metadata import columns, counts, percents, preview, rounded
from assets.shared.references import Reference, ScoresReference, SuiteReference
from assets.training import POLICY
from core import kinds
from core.code_digest import SHORT_DIGEST, identity
from core.errors import InputError
from core.files import digest_table
from core.model.lineage_file import read_manifest
from core.model.prompts import PromptRecord
from evaluation.benchmarks.suite import Benchmark
from evaluation.promotion.records import Checkpoint, ScoreFile
from training.config.overrides import ON_POLICY, SFT

if TYPE_CHECKING:
    from evaluation.statistics.benchmark_scores import Summary

ENOUGH = 40  # answers: if none is right, fewer than one in 13 is, at 95% confidence
ROLES = {"base": BASE, "policy": POLICY}


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
    settings = luffy.settings.evaluation
    selected = {asset.path[-1]: asset for asset in sorted(context.selected_asset_keys)}
    if unknown := selected.keys() - suite.digests.keys():
        raise InputError(f"benchmarks/suite lacks {', '.join(sorted(unknown))}; materialize benchmarks/suite again")
    benchmarks = [benchmark for benchmark in luffy.suite if benchmark.name in selected]
    if "policy" in {asset.path[-2] for asset in selected.values()}:
        check_policy(model)
        if settings.until_decided and len(benchmarks) < len(luffy.suite):
            raise InputError("samples: until_decided takes all benchmarks of the policy together; select all of them")
        sampler = Sampler(context, luffy.storage, suite, settings, interpreter, luffy.settings.tools)
        pair = AnswersOfPolicy(luffy, sampler, model, benchmarks).drawn()
    else:
        sampler = Sampler(context, luffy.storage, suite, settings.of_base(), interpreter, luffy.settings.tools)
        pair = sampler.answers(model, list(selected)), None
        files = [pair[0].graded[benchmark.name] for benchmark in benchmarks if benchmark.group == "evals"]
        if advice := recipe_advice(luffy.settings.training.recipe, files, tools=luffy.settings.tools is not None):
            context.log.warning(advice)
    accuracies = []
    for name, asset in selected.items():
        result = _result(luffy.names, asset, pair, suite, name)
        accuracies.append(f"{name} {result.value.accuracy:.1%}")
        yield result
    context.log.info(", ".join(accuracies))


def recipe_advice(recipe: str, graded: Sequence[Path], *, tools: bool = False) -> str | None:
    """Return what to do if the base solves nothing in the ``graded`` files, and ``recipe`` starts with rewards.

    With ``tools``, targets in the groups of samples show how to call them, so that only rewards alone are too little.
    """
    import pyarrow.parquet as pq

    from training.config.compose import compose

    scores = [score for file in graded for score in pq.read_table(file, columns=["score"])["score"].to_pylist()]
    composed = compose(recipe, "cpu", ())
    first = composed.first_stage or composed.run
    kind = first.method.get("type")
    if len(scores) < ENOUGH or any(scores) or kind == SFT or (tools and kind != ON_POLICY):
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
    problems, sequential, opposing = suite.digests[name], is_sequential([table]), None
    if opponent:
        score = ScoreFile(file=str(opponent.graded[name]), problems=problems, sequential=sequential)
        opposing = Checkpoint(path=opponent.model.path, digest=opponent.model.digest, scores={name: score})
    reference = ScoresReference(
        path=str(graded),
        digest=identity(digest_table(table), model.digest),
        checkpoint=model.digest,
        problems=problems,
        accuracy=summary.mean,
        sequential=sequential,
        opponent=opposing,
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
            **({"answers of its opponent": dg.MetadataValue.path(opposing.scores[name].file)} if opposing else {}),
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
        **{name: rounded(mean) for name, mean in summary.episodes.items()},
        "verdicts": counts(summary.verdicts, ("verdict", "samples")),
    }
