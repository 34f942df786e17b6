"""Ask a teacher in rounds, or for all traces up front: ``.venv/bin/python -m perf.trainings.rounds``.

The teacher is the exact one of the embedded task, whose tokens are counted. Each seed has three trainings of as many
steps: in rounds, in which the teacher is asked about what the last policy did not solve, with a budget; with traces of
all problems; and with as many tokens as the rounds took, but spent up front on problems drawn by chance. The policies
are scored on problems of the same distribution, none of which is trained on. What is complete in ``--out`` is reused,
so that an interrupted measurement continues where it stopped. docs/results/rounds.md has the result.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pyarrow.parquet as pq

from core import PROJECT
from core.arithmetic import problems
from core.files import write_json, write_table
from core.schemas import BENCHMARK
from perf.measurement import TRAINING, call, interval, overriding, parser_of
from perf.trainings.ledger_selection import train, write_problems
from targets.prepared_files import read_prepared
from targets.rounds import question, unsolved, write_training_set
from targets.select.split import read_split
from targets.source_settings import Source
from training.embedded_model.exact_teacher import serve
from training.embedded_model.resolve_model import SHIPPED
from training.job.records.rollout_log import pass_rates

ROUNDS, ALL, CHANCE = "rounds", "all", "chance"  # the trainings of a seed
SHARE, BELOW = 0.5, 0.25  # as the settings rounds.target_share and rounds.unsolved_below


def pool(count: int) -> pa.Table:
    """The problems of a seed, as `targets.problems.read_problems` gives them."""
    rows = [
        {
            "benchmark": "pool",
            "id": one.id,
            "problem": one.problem,
            "prompt": [{"role": "user", "content": one.problem}],
            "gold": one.answer,
            "verifier": "math",
            "fields": "{}",
        }
        for one in problems("train", count)
    ]
    return pa.Table.from_pylist(rows, schema=BENCHMARK)


def ask(folder: Path, asked: Sequence[str], golds: Mapping[str, str], budget: int | None) -> int:
    """Write the traces of ``asked`` up to a budget into ``folder``, unless they are there; the tokens they took."""
    facts = folder / "asked.json"
    if not facts.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rows = [{"problem": problem, "answer": golds[problem]} for problem in asked]
        write_table(pa.Table.from_pylist(rows), folder / "problems.parquet")
        with serve() as teacher:
            command = [TRAINING, "-m", "evaluation", "traces", "--teacher", teacher, "--max-tokens", "144"]
            command += ["--problems", folder / "problems.parquet", "--out", folder / "traces.parquet"]
            command += ["--cache", folder / "cache", "--concurrency", "4", "--budget-covers-cached"]
            call(*command, *(["--budget-tokens", str(budget)] if budget else []))
        table = pq.read_table(folder / "traces.parquet")
        spent = sum(table["tokens"].to_pylist()) + prompt_tokens(table["problem"].to_pylist())
        write_json({"tokens": spent, "problems": table["problem"].to_pylist()}, facts)
    return json.loads(facts.read_text())["tokens"]


def prompt_tokens(asked: Sequence[str]) -> int:
    """The tokens of the prompts, as the teacher counts them."""
    from core.model.token_counts import load_lengths

    conversations = [([{"role": "user", "content": problem}], "") for problem in asked]
    return sum(prompt for prompt, _ in load_lengths(SHIPPED).count_examples(conversations))


def prepare(folder: Path, traces: Sequence[Path], everything: pa.Table) -> Path:
    """Prepare the training set of some traces and all problems in ``folder``, unless it is there; its file."""
    out = folder / "training.parquet"
    if not out.exists():
        write_table(pa.concat_tables([pq.read_table(file) for file in traces]), folder / "all_traces.parquet")
        command = [sys.executable, "-m", "targets", "--source", "generated"]
        command += ["--generated", folder / "all_traces.parquet"]
        settings = ["max_prompt_tokens=64", "max_target_tokens=144", "workers=1"]
        command += ["--tokenizer", SHIPPED, "--out", folder / "targets"]
        call(*command, *overriding(settings))
        (source,) = read_prepared(folder / "targets").config.sources
        write_training_set(read_split(folder / "targets"), everything, Source.model_validate(source), SHARE, out)
    return out


def in_rounds(out: Path, seed: int, options: argparse.Namespace, everything: pa.Table) -> tuple[float, int]:
    """(score, tokens of the teacher) after the rounds of a seed."""
    golds = {question(row): row["gold"] for row in everything.to_pylist()}
    rates, model, tokens, score = None, SHIPPED, 0, 0.0
    taken: set[str] = set()
    traces: list[Path] = []
    for number in range(1, options.rounds + 1):
        folder = out / f"round-{number}"
        asked = [one for one in unsolved([*golds], rates, BELOW, seed) if one not in taken]
        if asked:
            tokens += ask(folder, asked, golds, options.budget)
            taken |= {*json.loads((folder / "asked.json").read_text())["problems"]}
            traces.append(folder / "traces.parquet")
        run = folder / "run"
        steps = options.steps // options.rounds
        targets = prepare(folder, traces, everything)
        score = train(run, targets, seed + number - 1, steps, out / "test.parquet", model)
        rates, model = (rates or {}) | pass_rates(run / "rollouts"), run / "policy"
    return score, tokens


def up_front(
    out: Path, seed: int, budget: int | None, options: argparse.Namespace, everything: pa.Table
) -> tuple[float, int]:
    """(score, tokens of the teacher) of one training on traces that ``budget`` buys; None: on those of all problems."""
    golds = {question(row): row["gold"] for row in everything.to_pylist()}
    tokens = ask(out, unsolved([*golds], None, BELOW, seed), golds, budget)
    targets = prepare(out, [out / "traces.parquet"], everything)
    return train(out / "run", targets, seed, options.steps, out.parent / "test.parquet"), tokens


def table(results: Mapping[str, Sequence[tuple[float, int]]]) -> str:
    """The trainings as a Markdown table."""
    lines = ["| traces | score, percent | teacher tokens | points per 1,000 teacher tokens |", "|---|--:|--:|--:|"]
    for name, runs in results.items():
        worth = [100 * score / (tokens / 1000) for score, tokens in runs]
        cells = [interval([100 * score for score, _ in runs]), f"{fmean(tokens for _, tokens in runs):,.0f}"]
        lines.append(f"| {name} | {' | '.join(cells)} | {interval(worth)} |")
    for other in (ALL, CHANCE):
        left = [100 * (a - b) for (a, _), (b, _) in zip(results[ROUNDS], results[other], strict=True)]
        lines.append(f"\n{ROUNDS} minus {other}, points: {interval(left)}")
    return "\n".join(lines)


def main() -> None:
    parser = parser_of("trainings.rounds", __doc__)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default %(default)s)")
    parser.add_argument("--problems", type=int, default=128, help="of the pool (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default %(default)s)")
    parser.add_argument("--steps", type=int, default=24, help="of each training, all rounds together")
    parser.add_argument("--budget", type=int, default=1400, help="tokens of the teacher in a round")
    parser.add_argument("--out", type=Path, default=PROJECT / "var/rounds")
    options = parser.parse_args()
    out: Path = options.out.resolve()
    everything = pool(options.problems)
    results: dict[str, list[tuple[float, int]]] = {ROUNDS: [], ALL: [], CHANCE: []}
    for seed in range(options.seeds):
        folder = out / str(seed)
        folder.mkdir(parents=True, exist_ok=True)
        write_problems(folder / "test.parquet")
        results[ROUNDS].append(in_rounds(folder, seed, options, everything))
        results[ALL].append(up_front(folder / ALL, seed, None, options, everything))
        results[CHANCE].append(up_front(folder / CHANCE, seed, results[ROUNDS][-1][1], options, everything))
        said = ", ".join(f"{name} {runs[-1][0]:.1%} for {runs[-1][1]:,} tokens" for name, runs in results.items())
        print(f"seed {seed}: {said}", flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
