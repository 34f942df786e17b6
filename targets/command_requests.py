"""What ``python -m targets`` is asked to do: a JSON file, or the options of the command line."""

from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from core.machine.request_paths import InputFolder, OutputFolder
from core.request_model import Request, option
from targets.settings import TargetSettings

TRACES, BENCHMARKS, TRAINING_SET = "Traces and settings", "Benchmarks", "Training set"
CHECKS, WORK = "Quality checks", "How it runs"


def _described(setting: str) -> str:
    field = TargetSettings.model_fields[setting]
    default = ", ".join(map(str, field.default)) if isinstance(field.default, list) else field.default
    return f"{str(field.description).removesuffix('.')} (default: {default})."


class PrepareRequest(Request):
    """A preparation of targets."""

    out: OutputFolder = option(..., "Output folder.", metavar="DIR")
    tokenizer: Path = option(..., "The policy's tokenizer.json, or its model folder.", metavar="PATH")
    source: tuple[str | dict[str, Any], ...] | None = option(
        None, f"{_described('source')} Repeatable.", TRACES, metavar="SOURCE"
    )
    generated: Path | None = option(
        None, "Traces that `luffy evaluate traces` wrote: the source 'generated'.", TRACES, metavar="FILE"
    )
    config: Path | None = option(
        None, "YAML file of settings, which targets/settings.py describes.", TRACES, metavar="FILE.yaml"
    )
    overrides: tuple[str, ...] = option((), "Override a setting. Repeatable.", TRACES, metavar="KEY=VALUE", cli="--set")
    benchmarks: str | None = option(
        None,
        "Suite (embedded, paper, a YAML file) or parquet file whose problems must not become targets.",
        BENCHMARKS,
        metavar="SUITE",
    )
    benchmark_roots: tuple[InputFolder, ...] = option(
        (), "Folder of the suite's files. Repeatable.", BENCHMARKS, metavar="DIR", cli="--benchmark-root"
    )
    heldout_share: float = option(0.0, "Share of the problems to hold out.", TRAINING_SET, ge=0, le=0.999)
    max_rows: int | None = option(None, "Write at most this many rows into train.parquet.", TRAINING_SET, ge=1)
    prepare_only: bool = option(False, "Neither split nor check the targets.", TRAINING_SET)
    check: bool = option(False, "Run the quality checks. The exit status is 1 if one of them blocks.", CHECKS)
    suite: Path | None = option(
        None, "YAML file of quality checks, which replaces targets/check/suite.yaml.", CHECKS, metavar="FILE.yaml"
    )
    previous: Path | None = option(
        None, "Folder of an earlier preparation to compare with. Drift is relative to it.", CHECKS, metavar="DIR"
    )
    docs: OutputFolder | None = option(None, "Folder for the page of the quality checks.", CHECKS, metavar="DIR")
    engine: str | None = option(None, _described("engine"), WORK, metavar="ENGINE")
    workers: int | None = option(None, _described("workers"), WORK, ge=1)
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
        if unused := [
            name for name in ("heldout_share", "max_rows", "previous") if self.prepare_only and getattr(self, name)
        ]:
            raise ValueError(f"prepare_only writes no training set, which {unused[0]} is about: give one of them")
        if self.benchmark_roots and (self.benchmarks is None or self.benchmarks.endswith(".parquet")):
            raise ValueError("benchmark_roots has the files of a suite: give one with benchmarks, or leave it out")
        if unused := [name for name in ("suite", "docs") if getattr(self, name) and not self.check]:
            raise ValueError(f"{unused[0]} belongs to the quality checks: add check, or leave it out")
        return self
