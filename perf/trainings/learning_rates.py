"""Choose the learning rates of a profile that compares recipes: ``.venv/bin/python -m perf.trainings.learning_rates``.

Every recipe has the same budget: two thirds of the updates per rate, with a seed that no comparison uses. The policies
are scored on problems from the distribution of the first in-domain benchmark, drawn with another seed; no problem of
the comparison is among them, and none of either is a target. The result is a table. Trainings and scores that are
complete in ``--out`` are reused, so an interrupted search continues where it stopped.
"""

import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from core import PROJECT
from core.files import write_table
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.statistics.benchmark_scores import summarize
from perf.measurement import TRAINING, call, parser_of, train_policy
from pipelines.cli.run import configure
from pipelines.definitions.profile_settings import Settings, load_settings
from training.config.keys import read_by
from training.embedded_model.resolve_model import resolve_base

RATE = "actor_rollout_ref.actor.optim.lr"
RATES = ("1e-4", "2e-4")
SEED = 100
VALIDATION_SEED = 1
PROBLEMS = 200


def shortened(override: str) -> str:
    """Reduce an override to two thirds of its steps."""
    return re.sub(r"(training_steps|save_freq)=(\d+)", lambda n: f"{n[1]}={int(n[2]) * 2 // 3}", override)


def overrides_of(settings: Settings, recipe: str, rate: str) -> list[str]:
    """Return the overrides of a search run: the comparison's for ``recipe``, with fewer steps and this rate."""
    overrides = (*settings.training.overrides, *settings.experiments.overrides.get(recipe, ()))
    sets = {text.partition("=")[0]: shortened(text) for text in overrides}
    sets[RATE] = f"{RATE}={rate}"  # a first stage has it, too
    return read_by(recipe, list(sets.values()))[0]


def draw_problems(settings: Settings, out: Path) -> str:
    """Write the validation problems as ``suite.parquet``, and these and the comparison's as ``unseen.parquet``.

    Returns:
        The name of the benchmark that they are drawn like.
    """
    roots, suite = [PROJECT / root for root in settings.benchmarks.roots], settings.benchmark_suite()
    benchmark = next(benchmark for benchmark in suite if benchmark.group == "evals")
    prompt = settings.benchmarks.system_prompt
    compared = read_suite(suite, roots, seed=settings.benchmarks.seed, system_prompt=prompt)
    drawn = read_suite([benchmark], roots, limit=PROBLEMS, seed=VALIDATION_SEED, system_prompt=prompt)
    asked = set(compared["problem"].to_pylist())
    drawn = drawn.filter(pa.array([problem not in asked for problem in drawn["problem"].to_pylist()]))
    out.mkdir(parents=True, exist_ok=True)
    write_table(drawn, out / "suite.parquet")
    write_table(pa.concat_tables([drawn, compared]), out / "unseen.parquet")
    return benchmark.name


def prepare(settings: Settings, model: Path, out: Path) -> None:
    """Prepare the targets of the profile without the problems of ``unseen.parquet``, unless they exist."""
    if (out / "targets/train.parquet").exists():
        return
    config = out / "targets.yaml"
    config.write_text(yaml.safe_dump(settings.targets.model_dump(mode="json")), encoding="utf-8")
    command = [sys.executable, "-m", "targets", "--config", config, "--out", out / "targets", "--tokenizer", model]
    command += ["--benchmarks", out / "unseen.parquet", "--heldout-share", str(settings.split.heldout_share)]
    call(*command)


def score(settings: Settings, model: Path, benchmark: str, recipe: str, rate: str, out: Path) -> float:
    """Return the share of the validation problems that the policy of ``recipe`` at ``rate`` answers correctly."""
    run, suite, sampling = out / f"{recipe}-{rate}", out / "suite.parquet", settings.evaluation
    given = ("--hardware", settings.training.hardware, "--heldout", out / "targets/heldout.parquet")
    train_policy(run, recipe, out / "targets/train.parquet", model, SEED, overrides_of(settings, recipe, rate), *given)
    if not (run / "graded").exists():
        command = [TRAINING, "-m", "evaluation", "generate", "--model", run / "policy", "--suite", suite]
        command += ["--temperature", str(sampling.temperature), "--top-p", str(sampling.top_p)]
        command += ["--max-tokens", str(sampling.max_tokens), "--cache", out / "samples", "--out", run / "samples"]
        call(*command)
        command = [TRAINING, "-m", "evaluation", "grade", "--suite", suite]
        call(*command, "--samples", run / "samples", "--out", run / "graded")
    return summarize(pq.read_table(run / "graded" / f"{benchmark}.parquet")).mean


def main() -> None:
    parser = parser_of("trainings.learning_rates", __doc__)
    parser.add_argument("--profile", default="comparison", help="name or file of a profile (default %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="overrides")
    parser.add_argument("--recipes", nargs="+", help="default: those that the profile names")
    parser.add_argument("--rates", nargs="+", default=list(RATES))
    parser.add_argument("--out", type=Path, help="default: var/learning_rates/PROFILE")
    options = parser.parse_args()
    configure(options.profile, options.overrides)
    settings = load_settings()
    out: Path = (options.out or PROJECT / "var/learning_rates" / Path(options.profile).stem).resolve()
    benchmark = draw_problems(settings, out)
    model = resolve_base(settings.model.source, out / "models", revision=settings.model.revision).path
    prepare(settings, model, out)
    print("recipe                " + "".join(f"{rate:>10}" for rate in options.rates), flush=True)
    for recipe in options.recipes or settings.experiments.recipes:
        scores = [score(settings, model, benchmark, recipe, rate, out) for rate in options.rates]
        best = max(zip(scores, options.rates, strict=True), key=lambda pair: (pair[0], -float(pair[1])))[1]
        print(f"{recipe:22}" + "".join(f"{share:10.1%}" for share in scores) + f"   best {best}", flush=True)


if __name__ == "__main__":
    main()
