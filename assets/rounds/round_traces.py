"""The asset rounds/N/traces: what the teacher has written up to a round.

A round that has nothing to ask, or no tokens left, gives no traces; Dagster then skips the rest of it and all rounds
after it.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.generated import generate_traces
from assets.rounds.round_problems import GROUP, Pool, read_pool, round_of
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.metadata import preview
from assets.shared.profile import Luffy, profile_asset
from assets.shared.references import ModelReference, PolicyReference, Reference, RoundReference, SuiteReference
from assets.shared.settings import RoundSettings
from assets.shared.storage import Storage
from core import kinds
from core.code_digest import identity
from core.errors import InputError
from core.files import atomic_write, read_json, write_json
from core.model.prompts import messages
from evaluation.generation.endpoint import Endpoint
from evaluation.settings import GenerateSettings

if TYPE_CHECKING:
    from evaluation.generation.teacher_traces import Problem

FACTS, FILE, ASKED = "round.json", "traces.parquet", "problems.jsonl"


@profile_asset(
    group_name=GROUP,
    kinds={"parquet"},
    code_version=kinds.GRADED.code_version,
    output_required=False,
    description="The traces that the teacher has written up to this round. In this round the teacher is asked, "
    "up to the budget, about problems that the policy of the previous round did not solve in its training. The round "
    "is skipped if there is nothing to ask or no budget left.",
)
def traces(
    context: dg.AssetExecutionContext,
    luffy: dg.ResourceParam[Luffy],
    base: ModelReference,
    suite: SuiteReference,
    storage: Storage,
    interpreter: TrainingInterpreter,
    **rounds: Reference,
) -> Iterator[dg.MaterializeResult[RoundReference]]:
    from targets.rounds import question, unsolved

    config, limits = luffy.settings.generate, luffy.settings.rounds
    assert config is not None and limits is not None
    number, before = round_of(luffy.names, context.asset_key), rounds.get("before")
    assert before is None or isinstance(before, RoundReference)
    pool = read_pool(luffy, base, suite, storage)
    policies = [rounds[f"policy_{past}"] for past in range(1, number)]
    rates = _pass_rates(policies) if policies else None
    digests = {question(row): row["id"] for row in pool.table.to_pylist()}
    left = [digests[one] for one in unsolved([*digests], rates, limits.unsolved_below, config.seed)]
    asked = _asked(before)
    wanted = [pool.problems[digest] for digest in left if digest not in asked]
    allowance = budget_of_round(limits, before.teacher_tokens_in_all if before else 0)
    context.log.info(f"round {number}: {len(left)} of {len(digests)} problems unsolved, {len(wanted)} not asked yet")
    if not wanted:
        context.log.info("the rounds end here: the teacher has been asked about everything that is unsolved")
        return
    if (needed := _longest(config, wanted[0])) > allowance:
        if before is None:
            raise InputError(
                f"rounds.budget_tokens: a budget of {allowance:,} tokens does not cover one answer, which may take "
                f"{needed:,}; raise it, or lower generate.max_tokens"
            )
        context.log.info(f"the rounds end here: {allowance:,} tokens are left, and an answer may take {needed:,}")
        return
    policy = policies[-1].digest if policies else base.digest
    facts = {"round": number, "unsolved": len(left), "problems": len(digests), "policy_before": policy}
    ask = config.model_copy(update={"budget_tokens": allowance})
    yield _result(_ask(context, ask, pool, wanted, before, facts, storage, interpreter))


def budget_of_round(options: RoundSettings, spent: int) -> int:
    """The tokens that a round may take after rounds that took ``spent``."""
    return min(options.budget_tokens, (options.budget_tokens_in_all or spent + options.budget_tokens) - spent)


def _pass_rates(policies: Sequence[Reference]) -> dict[str, float]:
    """The pass rate of each problem in the last training that sampled it."""
    from training.job.records.rollout_log import pass_rates

    rates: dict[str, float] = {}
    for policy in policies:
        assert isinstance(policy, PolicyReference)
        folder = Path(policy.metrics).parent / "rollouts"
        if not (sampled := pass_rates(folder)):
            raise InputError(
                f"rounds: {folder} has no samples, which say what the policy does not solve: operations/retention may "
                "have removed them; train the rounds anew with storage.force=true"
            )
        rates |= sampled
    return rates


def _asked(before: Reference | None) -> set[str]:
    """The digests of the problems that have traces."""
    import pyarrow.parquet as pq

    from targets.select.dedupe import problem_digest

    return set() if before is None else {*map(problem_digest, pq.read_table(before.path)["problem"].to_pylist())}


def _longest(config: GenerateSettings, problem: "Problem") -> int:
    """The tokens that the budget reserves for a question."""
    endpoint = Endpoint.parse(config.teacher)
    assert endpoint is not None
    return len(endpoint.render(messages(problem.text, config.system_prompt)).encode()) + config.max_tokens


def _ask(
    context: dg.AssetExecutionContext,
    config: GenerateSettings,
    pool: Pool,
    problems: "Sequence[Problem]",
    before: RoundReference | None,
    facts: dict[str, Any],
    storage: Storage,
    interpreter: TrainingInterpreter,
) -> RoundReference:
    """Ask the teacher, or find what it has answered; the traces of all rounds are one file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from core.files import digest_table, write_table

    settings = config.model_dump(mode="json", exclude={"problems", "concurrency", "grade_workers", "replicas"})
    texts = [problem.text for problem in problems]
    request = kinds.GRADED.identity(settings, texts, pool.source.spec.digest, before.digest if before else "", facts)
    folder = storage.result(GROUP, "traces", request)
    if not storage.has(folder, kinds.GRADED, context.log):
        with storage.working(GROUP, "questions", request) as work:
            with atomic_write(work / ASKED) as file, file.open("w", encoding="utf-8") as lines:
                for one in problems:
                    row = {**json.loads(one.fields or "{}"), "problem": one.text, "answer": one.answer}
                    lines.write(json.dumps(row) + "\n")
            columns = {"problem_column": "problem", "answer_column": "answer"}
            source = pool.source.model_copy(update={"fields": {name: name for name in pool.source.fields}})
            ask = config.model_copy(update=columns)
            reference, spent = generate_traces(
                context, ask, work / ASKED, source, request, storage, interpreter, budget_covers_cached=True
            )
            tables = [pq.read_table(path) for path in ([before.path] if before else []) + [reference.path]]
            with storage.writing(folder, kinds.GRADED) as temporary:
                write_table(pa.concat_tables(tables, promote_options="permissive"), temporary / FILE)
                all_tokens = spent["tokens"] + (before.teacher_tokens_in_all if before else 0)
                tokens = {"teacher_tokens": spent["tokens"], "teacher_tokens_in_all": all_tokens}
                write_json({**facts, "asked": reference.rows, **tokens}, temporary / FACTS)
    table = pq.read_table(folder / FILE)
    recorded = read_json(folder / FACTS)
    digest = identity(digest_table(table), recorded)
    return RoundReference(
        path=str(folder / FILE), digest=digest, rows=table.num_rows, teacher=config.teacher, **recorded
    )


def _result(reference: RoundReference) -> dg.MaterializeResult[RoundReference]:
    import pyarrow.parquet as pq

    table = pq.read_table(reference.path)
    return reference.result(
        {
            "dagster/row_count": reference.rows,
            **reference.model_dump(include={"round", "problems", "unsolved", "asked", "teacher"}),
            "tokens of this round": reference.teacher_tokens,
            "tokens of the rounds so far": reference.teacher_tokens_in_all,
            "policy before": reference.policy_before,
            "preview": preview(table.slice(reference.rows - reference.asked), ["problem", "response", "verdict"]),
            "file": dg.MetadataValue.path(reference.path),
        },
    )
