"""``python -m targets``: prepare targets without Dagster."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli import COUNT, Parser, exit_status, number
from core.code_digest import PROJECT
from core.errors import InputError
from core.parquet import read_table
from core.progress import Progress, Terminal
from targets import trace_browser
from targets.check.expectations import SUITE, load_checks, validate
from targets.check.version_diff import compare_versions
from targets.config import PrepareConfig, build_config, read_config
from targets.hub import pull, push
from targets.prepare import prepare
from targets.prepared import PROFILE_FILE, Prepared, hint_texts, log_probs_text, require_targets
from targets.select.split import Split, reconcile, select_train

if TYPE_CHECKING:
    import pyarrow as pa

COMMANDS = {"browse": trace_browser.main, "push": push.main, "pull": pull.main}
MOST_VALUES = 10  # of each metadata, on the terminal
LONGEST_OBSERVED = 60  # characters of what a check that passed has seen
LARGEST_BENCHMARKS = 32 << 20  # bytes of their problems, which each process keeps with an index of four times the size


def parser() -> argparse.ArgumentParser:
    result = Parser(
        prog="python -m targets",
        description="Turn raw traces into training targets: filter, verify and deduplicate them, and say of every "
        "other trace why it is rejected. Writes prepared, profile, rejected, train, heldout and left_out .parquet.",
        epilog=f"Other commands, each with --help: {', '.join(COMMANDS)}.",
    )
    add = result.add_argument
    add("--source", action="append", help=f"{_described('source')}; may be repeated")
    add("--out", type=Path, required=True, help="folder to write into")
    add("--tokenizer", type=Path, required=True, help="the policy's tokenizer.json or model folder")
    add("--config", type=Path, help="YAML file of settings, which targets/config.py describes")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="one setting; may be repeated")
    add("--benchmarks", help="suite (embedded, paper, a YAML file) or parquet whose problems must not become targets")
    add("--benchmark-root", type=Path, action="append", default=[], help="folder of the suite's files; may be repeated")
    add(
        "--heldout-share",
        type=number(float, 0, 0.999),
        default=0.0,
        help="share of problems held out (default %(default)s)",
    )
    add("--max-rows", type=COUNT, help="largest number of rows in train.parquet")
    add("--engine", help=_described("engine"))
    add("--workers", type=COUNT, help=_described("workers"))
    add("--cache", type=Path, help="folder for the decisions on each file (default OUT/.decisions; you may delete it)")
    add("--generated", type=Path, metavar="FILE", help="traces of python -m evaluation traces: the source 'generated'")
    add("--prepare-only", action="store_true", help="do not split or check the targets")
    add("--check", action="store_true", help="run the quality checks; the exit status is 1 if one blocks")
    add("--suite", type=Path, default=SUITE, help="YAML file of the quality checks")
    add("--previous", type=Path, help="an earlier OUT to compare with; drift is relative to it")
    add("--docs", type=Path, help="folder for the pages of the quality checks (Data Docs)")
    return result


def _described(setting: str) -> str:
    field = PrepareConfig.model_fields[setting]
    default = ", ".join(map(str, field.default)) if isinstance(field.default, list) else field.default
    return f"{str(field.description).removesuffix('.')} (default {default})"


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in COMMANDS:
        return COMMANDS[given[0]](given[1:])
    options = parser().parse_args(given)
    config = read_config(options.config, options.set)
    chosen = {name: value for name in ("source", "engine", "workers") if (value := getattr(options, name)) is not None}
    config = build_config({**config.model_dump(), **chosen}, where="command line")
    previous = options.previous / PROFILE_FILE if options.previous else None
    if previous and not previous.is_file():
        raise InputError(
            f"--previous {options.previous}: no {PROFILE_FILE} in it; expected the folder of a preparation"
        )
    if options.check:
        load_checks(options.suite)
    began = time.monotonic()
    prepared = prepare(
        config,
        options.out,
        benchmarks=_benchmarks(options.benchmarks, options.benchmark_root),
        tokenizer_json=options.tokenizer,
        progress=Progress(Terminal(sys.stderr, every_s=0).status),
        cache=options.cache or options.out / ".decisions",
        generated=options.generated,
    )
    if options.prepare_only or not prepared.counts["kept"]:
        _print(prepared, None, time.monotonic() - began)
        require_targets(prepared)
        return 0
    split = select_train(
        prepared, options.out, heldout_share=options.heldout_share, max_rows=options.max_rows, seed=config.seed
    )
    _print(prepared, split, time.monotonic() - began)
    if previous:
        for name, before, after in compare_versions(previous, prepared.profile):
            print(f"{name:46}{before:>14}{after:>14}")
    if problems := reconcile(prepared, split).problems:
        raise RuntimeError("conservation violated: " + "; ".join(problems))
    return _check(prepared, options.suite, previous, options.docs) if options.check else 0


def _benchmarks(name: str | None, roots: Sequence[Path]) -> "pa.Table | None":
    """The problems of a parquet file, or of a suite that the evaluation reads in its own process."""
    import pyarrow as pa

    from core.schemas import BENCHMARK

    if name is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(name)
        if path.suffix != ".parquet":
            path = Path(folder) / "suite.parquet"
            command = [sys.executable, "-m", "evaluation", "suite", "--suite", name, "--out", str(path)]
            command += [part for root in roots for part in ("--roots", str(root))]
            environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                message = done.stderr.strip().splitlines()[-1].removeprefix("error: ")
                raise InputError(f"benchmarks {name}: {message}")
        schema = pa.schema([BENCHMARK.field(column) for column in ("benchmark", "id", "problem")])
        return read_table(path, schema, "give a parquet with benchmark, id and problem", largest=LARGEST_BENCHMARKS)


def _print(prepared: Prepared, split: Split | None, seconds: float) -> None:
    read = prepared.counts["read"]
    print(f"{'read':18}{read:>9,}")
    for step in prepared.filter_counts:
        print(f"{step['filter']:18}{-step['removed']:>9,}{step['left']:>9,}  {step['title']}")
    speed = "nothing has changed, so nothing was done" if prepared.reused else f"{read / seconds:,.0f} rows/s"
    print(f"{'kept':18}{prepared.counts['kept']:>9,}  {speed}")
    for name, values in prepared.breakdown.items():
        for value, n in list(values.items())[:MOST_VALUES]:
            print(f"{f'{name} {value}':44.44}{n['read']:>9,}{n['kept']:>9,} kept")
    for hint in hint_texts(prepared):
        print(hint)
    for what, count in prepared.disagreements.items():
        print(f"{what}: {count:,}")
    if prepared.log_probs:
        print(f"target_log_probs: {log_probs_text(prepared)}")
    if split is not None:
        print(f"train {split.rows:,} rows {split.train}, held out {split.heldout_rows:,}")
    print(f"rejected: {prepared.rejected}")


def _check(prepared: Prepared, suite: Path, previous: Path | None, docs: Path | None) -> int:
    results = validate(prepared.profile, suite=suite, previous=previous, docs=docs)
    for result in results:
        state = "ok" if result.passed else "FAILED" if result.severity == "error" else "warning"
        what = str(result.error or result.observed)
        if not result.passed:
            limits = ", ".join(f"{name} {value}" for name, value in result.expected.items() if name != "column")
            what += f"; expected: {result.description.removesuffix('.')}" + (f" ({limits})" if limits else "")
        elif len(what) > LONGEST_OBSERVED:
            what = "as expected"
        print(f"{state:8}{result.name:32}{what}")
    return int(any(not result.passed and result.severity == "error" for result in results))


if __name__ == "__main__":
    sys.exit(exit_status(main))
