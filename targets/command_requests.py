"""What ``python -m targets`` is asked to do: a JSON file, or the options of the command line."""

from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from core.machine.request_paths import InputFolder, OutputFolder
from core.request_model import Request, option

TRACES, BENCHMARKS, CHECKS, WORK = "Traces and settings", "Benchmarks", "Quality checks", "How it runs"


class PrepareRequest(Request):
    """A preparation of targets."""

    out: OutputFolder = option(..., "Output folder.", metavar="DIR")
    tokenizer: Path = option(..., "The policy's tokenizer.json, or its model folder.", metavar="PATH")
    source: tuple[str | dict[str, Any], ...] | None = option(
        None, "Where the traces are: targets.source. Repeatable.", TRACES, metavar="SOURCE"
    )
    generated: Path | None = option(
        None, "Traces that `luffy evaluate traces` wrote: the source 'generated'.", TRACES, metavar="FILE"
    )
    profile: str | None = option(
        None, "Profile of settings. Default: $LUFFY_PROFILE, or luffy.yaml here.", TRACES, metavar="NAME"
    )
    overrides: tuple[str, ...] = option(
        (), "Override a setting. Repeatable.", TRACES, metavar="SECTION.KEY=VALUE", cli="--set"
    )
    settings: Path | None = option(None, "Settings of a run, in the place of all others.", hidden=True)
    benchmarks: str | None = option(
        None,
        "Suite (embedded, paper, a YAML file) or parquet file whose problems must not become targets.",
        BENCHMARKS,
        metavar="SUITE",
    )
    benchmark_roots: tuple[InputFolder, ...] = option(
        (), "Folder of the suite's files. Repeatable.", BENCHMARKS, metavar="DIR", cli="--benchmark-root"
    )
    prepare_only: bool = option(False, "Neither split nor check the targets.", WORK)
    check: bool = option(False, "Run the quality checks. The exit status is 1 if one of them blocks.", CHECKS)
    previous: Path | None = option(
        None, "Folder of an earlier preparation to compare with. Drift is relative to it.", CHECKS, metavar="DIR"
    )
    docs: OutputFolder | None = option(None, "Folder for the page of the quality checks.", CHECKS, metavar="DIR")
    cache: OutputFolder | None = option(
        None,
        "Folder for the decisions about each file, which you may delete. Default: OUT/.decisions.",
        WORK,
        metavar="DIR",
    )
    force: bool = option(False, "Prepare again, whatever the output folder and the decisions have.", WORK)

    @model_validator(mode="after")
    def _has_checks(self) -> Self:
        if self.check and self.prepare_only:
            raise ValueError("prepare_only leaves out the checks that check asks for: give one of them")
        if self.prepare_only and self.previous:
            raise ValueError("prepare_only writes no training set, which previous is about: give one of them")
        if self.benchmark_roots and (self.benchmarks is None or self.benchmarks.endswith(".parquet")):
            raise ValueError("benchmark_roots has the files of a suite: give one with benchmarks, or leave it out")
        if self.docs and not self.check:
            raise ValueError("docs belongs to the quality checks: add check, or leave it out")
        return self
