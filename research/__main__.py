"""``python -m research``, which ``luffy research`` starts; the docstring of each command is its help."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from core import PROJECT
from core.cli import examples, exit_status, new_app, run_app, say
from core.errors import InputError
from core.files import atomic_write, write_table
from core.machine.request_paths import check_output, writable_file, writable_folder

app = new_app("Compare recipes, check recorded runs, and measure speed. Every command has --help.")
PARTS = ("operations", "targets", "training")
SECOND_GRADERS = {
    "whole-text": "math-verify on everything after the first </think>, the rule of LUFFY's published evaluation",
    "prime": "the sympy grader of PRIME and PRM800K on the extracted answer, from verl (training interpreter)",
}
Recipes = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RECIPE]...", help="Recipes and variants, or recipe files. Default: the file's."),
]
Seeds = Annotated[int | None, typer.Option(metavar="N", min=1, help="Seeds per recipe. Default: the file's.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting. Repeatable.")
]
Runs = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder of recorded runs, instead of the file's.")]
CopyTo = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Also copy tables and figures here, without the HTML page.")
]
RunFile = Annotated[Path, typer.Argument(metavar="RUN.zip", help="A recorded run.")]


@app.command(epilog=examples("luffy research run comparison luffy on_policy --seeds 3", "luffy research run mine.yaml"))
def run(
    comparison: Annotated[
        str, typer.Argument(metavar="COMPARISON", help="A file of research/comparisons, or the path of a YAML file.")
    ],
    recipes: Recipes = None,
    seeds: Seeds = None,
    sets: Sets = None,
    runs: Runs = None,
    copy_to: CopyTo = None,
) -> int:
    """Train and score recipes, and compare all recorded runs on one page. Recorded runs are not made again."""
    from pipelines.api import load
    from research.comparison_file import read_comparison
    from research.comparison_page import DRIFT, PAGE, write_page
    from research.trials import INTERRUPTED, Trials, make_trials

    if copy_to:
        writable_folder(copy_to)
    name, file = read_comparison(comparison)
    file = file.with_files(recipes or [])
    work = (Path("var/research") / name).absolute()
    runs = (runs or (PROJECT / file.runs if file.runs else work / "runs")).absolute()
    given = [Path(recipe).stem if recipe.endswith((".yaml", ".yml")) else recipe for recipe in recipes or []]
    trials = list(file.trials(given, load(file.profile, sets or []).training.overrides, seeds))
    status = make_trials(Trials(file.profile, sets or [], work, runs), trials)
    if status == INTERRUPTED:
        return status
    page = write_page(file, runs, work / "page", seeds)
    if copy_to:
        source = page.parent / DRIFT if (page.parent / DRIFT).is_dir() else page.parent
        for made in sorted(made for made in source.iterdir() if made.name != PAGE):
            with atomic_write(copy_to / made.name) as temporary:
                shutil.copyfile(made, temporary)
    say(f"\ncomparison: {page}")
    return status


@app.command(epilog=examples("luffy research compare luffy hpt --seeds 8", "luffy research compare mine.yaml luffy"))
def compare(
    recipes: Recipes = None, seeds: Seeds = None, sets: Sets = None, runs: Runs = None, copy_to: CopyTo = None
) -> int:
    """Repeat the paper's comparison of recipes on the built-in task, with several seeds each. It takes hours."""
    return run("comparison", recipes, seeds, sets, runs, copy_to)


@app.command(epilog=examples("luffy research settle luffy mixed_policy sft_rl"))
def settle(
    recipes: Annotated[list[str], typer.Argument(metavar="RECIPE...", help="Recipes of recorded runs.")],
    against: Annotated[str, typer.Option(metavar="RECIPE", help="The recipe they are compared with.")] = "on_policy",
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of recorded runs.")] = (
        PROJECT / "research" / "runs" / "comparison"
    ),
) -> None:
    """Say at the planned looks which recipe learns sooner: batches until 30% are right, by a log-rank test."""
    from research.time_to_learn import sections

    for section in sections(recipes, against, runs):
        say(section)


@app.command(epilog=examples("luffy research drift stale_4_none stale_4_tis --copy-to drift"))
def drift(
    variants: Recipes = None, seeds: Seeds = None, sets: Sets = None, runs: Runs = None, copy_to: CopyTo = None
) -> int:
    """Compare the rollout corrections on stale samples of the built-in task. It takes hours."""
    return run("drift", variants, seeds, sets, runs, copy_to)


@app.command(epilog=examples("luffy research words --data problems --model SmolLM2-135M-Instruct.Q4_1.gguf"))
def words(
    recipes: Recipes = None,
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of word_problems_train.jsonl and svamp_test.jsonl.")
    ] = Path(),
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Model folder, GGUF file or hub id. Default: the model of the profile."),
    ] = None,
    sets: Sets = None,
    runs: Runs = None,
    copy_to: CopyTo = None,
) -> int:
    """Train a language model on word problems in English on the CPU, and compare recipes. It takes hours."""
    traces = data.absolute() / "word_problems_train.jsonl"
    for file in (traces, data / "svamp_test.jsonl"):
        if not file.is_file():
            raise InputError(f"--data {data}: no {file.name} there; docs/results/words.md says where to get it")
    more = [f"targets.source={json.dumps([str(traces)])}", f"benchmarks.roots={json.dumps([str(data.absolute())])}"]
    more += [f"model.source={json.dumps(model)}"] if model else []
    return run("words", recipes, None, [*more, *(sets or [])], runs, copy_to)


@app.command(
    epilog=examples(
        "luffy research remake research/runs/comparison/sft-0.zip",
        "luffy research remake theirs/mine-0.zip --recipe theirs/mine.yaml",
    )
)
def remake(
    run: RunFile,
    recipe: Annotated[
        str | None,
        typer.Option(metavar="FILE.yaml", help="The recipe of the run. Default: the recipe of the same name here."),
    ] = None,
    profile: Annotated[
        str, typer.Option(metavar="NAME", help="Profile with the targets, base model and benchmarks of the run.")
    ] = "comparison",
    sets: Sets = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the new run and its recording.")] = Path(
        "var/remade"
    ),
) -> int:
    """Repeat a recorded run: train, sample and grade with its settings and seed, and report differences."""
    from research.remake import remake as make_again

    return make_again(run, recipe, profile, sets or [], out)


@app.command(
    epilog=examples(
        "luffy research recheck research/runs/comparison/hpt-0.zip",
        "luffy research recheck theirs/mine-0.zip --suite suite.parquet --remade var/remade/mine-0.zip",
    )
)
def recheck(
    run: RunFile,
    suite: Annotated[
        Path | None,
        typer.Option(metavar="FILE.parquet", help="The problems. Default: suite.parquet in the folder of the run."),
    ] = None,
    remade: Annotated[Path | None, typer.Option(metavar="RUN.zip", help="Your own recording of the same run.")] = None,
) -> None:
    """Check a recorded run: grade its responses again, and compare it with your own recording of the same run.

    The exit status is 1 if something differs.
    """
    from research.recheck import compare_runs, recheck_verdicts
    from research.recorded_run import read_run
    from research.trials import SUITE

    recorded = read_run(run)
    checks = [recheck_verdicts(recorded, suite or run.parent / SUITE)]
    if remade is not None:
        checks += compare_runs(recorded, read_run(remade))
    for check in checks:
        say(check)
    if any(check.differences for check in checks):
        raise typer.Exit(1)


@app.command(epilog=examples("luffy research disagreements graded --out differing.parquet"))
def disagreements(
    results: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `luffy evaluate grade` wrote.")],
    second: Annotated[
        str,
        typer.Option(
            metavar="|".join(SECOND_GRADERS),
            help=f"The second grader. {'; '.join(map(': '.join, SECOND_GRADERS.items()))}.",
        ),
    ] = "whole-text",
    limit_s: Annotated[float, typer.Option(help="Seconds allowed for one sample.")] = 5.0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.parquet", help="Also write all disagreements, with prompt and response."),
    ] = None,
) -> None:
    """List the verdicts with which a second grader disagrees."""
    if second not in SECOND_GRADERS:
        raise InputError(f"--second: got {second!r}, expected one of {', '.join(SECOND_GRADERS)}")
    if not 0 < limit_s < float("inf"):
        raise InputError(f"--limit-s: got {limit_s}, expected a number above 0")
    if out:
        check_output(writable_file(out), results)
    from pipelines.api import read_folder
    from research.second_grader import disagreements as find_disagreements
    from research.second_grader import disagreements_text

    table = find_disagreements(read_folder(results, "graded"), second, limit_s=limit_s)
    say(disagreements_text(table))
    if out:
        write_table(table, out)
        say(out)


@app.command(epilog=examples("luffy research promotion --years 2000"))
def promotion(
    years: Annotated[int, typer.Option(min=1, help="Years to simulate.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
) -> None:
    """Simulate years of weekly promotion decisions: false promotions, gains that are missed, losses out of domain."""
    from research.promotion_years import simulate

    say("| | the suite's own answers | until decided |\n|---|--:|--:|")
    for line in simulate(years, seed):
        say(line)


@app.command(epilog=examples("luffy research baseline --page docs/results/baseline.md"))
def baseline(
    page: Annotated[Path, typer.Option(metavar="FILE.md", help="Page with the tables to write.")] = Path(
        "var/research/baseline/page.md"
    ),
    steps: Annotated[int, typer.Option(min=1, help="Updates of each training.")] = 50,
) -> None:
    """Check the supervised and the policy loss against plain torch, verl and TRL, however an update is cut."""
    from research.bench.measure import TRAINING, attend

    attend(TRAINING, "-m", "research.baseline.audit", Path("var/research/baseline").absolute(), page.absolute(), steps)


@app.command(epilog=examples("luffy research bench --only training --steps 8"))
def bench(
    only: Annotated[list[str] | None, typer.Option(metavar="|".join(PARTS), help="Measure this. Repeatable.")] = None,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FILE.parquet", help="Traces to prepare in both ways: problem, response, answer."),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Generated traces to prepare.")] = 100_000,
    steps: Annotated[int, typer.Option(min=4, help="Steps of each training.")] = 20,
    model: Annotated[str | None, typer.Option(help="Model to train. Default: the embedded one.")] = None,
) -> None:
    """Measure the speed and memory of this machine with the product: Dagster, the preparation, a training step."""
    from research.bench import operations, targets, training

    if unknown := sorted({*(only or ())} - {*PARTS}):
        raise InputError(f"--only {unknown[0]}: expected one of {', '.join(PARTS)}")
    if traces is not None and not traces.is_file():
        raise InputError(f"--traces {traces}: no such file; expected a parquet file")
    for part in only or PARTS:
        say(f"== {part}")
        if part == "operations":
            operations.operations()
        elif part == "training":
            training.steps(steps, model)
        else:
            targets.memory(rows)
            if traces is not None:
                targets.speed(traces)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    given = sys.argv[1:] if arguments is None else [str(argument) for argument in arguments]
    return exit_status(lambda: run_app(app, given or ["--help"], "python -m research"))


if __name__ == "__main__":
    sys.exit(main())
