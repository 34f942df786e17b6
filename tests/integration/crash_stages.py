"""The stages that `test_crash_points` breaks off: ``python tests/integration/crash_stages.py STAGE FOLDER``.

Each `prepare_…` makes what its stage finds, each `run_…` is the stage itself, by the code that the project runs. What a
person would not ask for again (a promotion of the champion) is not asked for again.
"""

import os
import shutil
import sys
import time
from datetime import datetime, tzinfo
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]

from manifests import manifest, targets  # noqa: E402

from core.cli import exit_status  # noqa: E402
from core.files import write_json  # noqa: E402
from core.model.lineage_file import read_manifest, write_manifest  # noqa: E402
from evaluation.promotion import champions  # noqa: E402
from evaluation.promotion.champions import Registry  # noqa: E402
from evaluation.promotion.promotion_rules import reason_without_comparison  # noqa: E402
from evaluation.promotion.records import (  # noqa: E402
    Checkpoint,
    Decision,
    PolicyRecord,
    PromotionLimits,
)

OLD = time.time() - 90 * 86_400
champions.now = lambda: "2026-01-01T00:00:00+00:00"  # a decision names its time


class Clock(datetime):
    """A clock that stands."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "Clock":
        return cls(2026, 1, 1, tzinfo=tz)


def policy_of(folder: Path, number: int) -> Checkpoint:
    path = folder / "training" / "policy" / f"run{number}" / "policy"
    return Checkpoint(path=str(path), digest=read_manifest(path).checkpoint_digest, scores={})


def prepare_promotion(folder: Path) -> None:
    for number in (0, 1):
        policy = folder / "training" / "policy" / f"run{number}" / "policy"
        read = folder / "targets" / "train" / f"t{number}"
        for each in (policy, read):
            each.mkdir(parents=True)
        (policy / "model.safetensors").write_text(f"weights {number}")
        (read / "train.parquet").write_text("targets")
        path = Path(os.path.relpath(read / "train.parquet", policy))
        write_manifest(policy, manifest(targets=targets(path=path)))
    decide(folder, 0)


def decide(folder: Path, number: int) -> None:
    registry, policy = Registry(folder), policy_of(folder, number)
    champion = registry.champion()
    if champion and champion.checkpoint == policy.digest:
        return

    def compare(current: PolicyRecord | None) -> Decision:
        reason = reason_without_comparison(policy.digest, current) if current else None
        return Decision(promoted=not reason, reasons=[])

    registry.record_decision(policy, compare, base="b", scorecard="", limits=PromotionLimits(), dagster_run="r")


def run_promotion(folder: Path) -> None:
    decide(folder, 1)


def prepare_retention(folder: Path) -> None:
    prepare_promotion(folder)
    for name in ("generations/sums/a", "graded/sums/b"):
        (folder / name).mkdir(parents=True)
        (folder / name / "data.bin").write_text("data")
    write_json({"path": str(folder / "graded/sums/b/data.bin")}, folder / "references" / "x.json")
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (OLD, OLD))


def run_retention(folder: Path) -> None:
    from assets.registry.removal_plan import plan_removals, remove
    from assets.shared.settings import RetentionSettings

    rules = RetentionSettings()
    plan = plan_removals(folder, rules, named=[], now=time.time())
    for _ in remove(folder, plan.removals, rules, named=list):
        pass


def prepare_rollback(folder: Path) -> None:
    prepare_promotion(folder)
    decide(folder, 1)


def run_rollback(folder: Path) -> None:
    registry = Registry(folder)
    champion = registry.champion()
    assert champion is not None
    if champion.checkpoint == policy_of(folder, 1).digest:
        registry.rollback(reason="it repeats itself")


def save(folder: Path, step: int) -> None:
    """Save a checkpoint as verl leaves it, and complete it."""
    import torch
    from safetensors.torch import load_file

    from core.model.base_model import SHIPPED
    from core.model.model_folder import model_files
    from training.job.checkpoints import folder_of, mark_complete

    actor = folder_of(folder / "checkpoints", step) / "actor"
    (actor / "huggingface").mkdir(parents=True)
    for file in model_files(SHIPPED):
        if file.suffix != ".safetensors":
            shutil.copyfile(file, actor / "huggingface" / file.name)
    (actor / "fsdp_config.json").write_text('{"world_size": 1}')
    weights = {name: tensor + step for name, tensor in load_file(SHIPPED / "model.safetensors").items()}
    torch.save(weights, actor / "model_world_size_1_rank_0.pt")
    mark_complete(folder / "checkpoints", step, keep=1, dispatched=step)


def prepare_checkpoint(folder: Path) -> None:
    save(folder, 1)


def run_checkpoint(folder: Path) -> None:
    from training.job.checkpoints import prepare_resume, remove_old

    done = prepare_resume(folder / "checkpoints", print)
    remove_old(folder / "checkpoints", keep=1)
    if done < 2:
        save(folder, 2)


def prepare_export(folder: Path) -> None:
    save(folder, 4)
    (folder / "policy").mkdir()
    (folder / "policy" / "README.md").write_text("an earlier policy")


def run_export(folder: Path) -> None:
    from training.export import merge
    from training.job import checkpoints

    # The weights are joined here and not in a process of its own, so that the calls counted are those of one process.
    checkpoints.export_model = lambda saved, step, out, dtype: merge.merge(
        checkpoints.folder_of(saved, step) / "actor", out, dtype
    )
    checkpoints.export_policy(folder / "checkpoints", folder / "policy", manifest(steps=4), "float32")


def run_base(folder: Path) -> None:
    from core.model.base_model import resolve_base

    resolve_base("embedded", folder / "models")


def run_preparation(folder: Path) -> None:
    import targets.__main__
    from core.model.base_model import SHIPPED

    # One worker: the order of the calls is the same in each run.
    sets = ("targets.embedded_rows=40", "targets.workers=1", "split.heldout_share=0.2")
    arguments = ["--source", "embedded", "--tokenizer", str(SHIPPED), "--out", str(folder / "targets")]
    assert targets.__main__.main([*arguments, *(part for text in sets for part in ("--set", text))]) == 0


def run_suite(folder: Path) -> None:
    evaluate("suite", "--suite", "embedded", "--limit", 4, "--out", folder / "suite.parquet")


def prepare_grading(folder: Path) -> None:
    import pyarrow as pa

    from core.files import write_table
    from core.schemas import SAMPLE
    from evaluation.sample_tables import read_suite_file

    run_suite(folder)
    by_benchmark: dict[str, list[dict[str, object]]] = {}
    for row in read_suite_file(folder / "suite.parquet").to_pylist():
        values = {"id": row["id"], "sample": 0, "prompt": "?", "prompt_digest": "p" * 64, "seed": 1, "tokens": 5}
        answer = f"</think>\\boxed{{{row['gold']}}}"
        sample = {**values, "benchmark": row["benchmark"], "response": answer, "finish_reason": "stop"}
        by_benchmark.setdefault(row["benchmark"], []).append({name: sample[name] for name in SAMPLE.names})
    for role in ("base", "policy"):
        for name, rows in by_benchmark.items():
            table = pa.Table.from_pylist(rows, schema=SAMPLE)
            write_table(table, folder / "samples" / role / f"{name}.parquet", {"checkpoint": role * 8})


def run_grading(folder: Path) -> None:
    for role in ("base", "policy"):
        files = ["--suite", folder / "suite.parquet", "--samples", folder / "samples" / role]
        evaluate("grade", *files, "--set", "evaluation.grade_workers=1", "--out", folder / "graded" / role)


def prepare_report(folder: Path) -> None:
    prepare_grading(folder)
    run_grading(folder)


def run_report(folder: Path) -> None:
    from evaluation.report import scorecard

    scorecard.datetime = Clock  # the page names the minute
    roles = [part for role in ("base", "policy") for part in (f"--{role}", folder / "graded" / role)]
    out = ["--out", folder / "scorecard.html", "--markdown", folder / "scorecard.md"]
    evaluate("report", "--suite", folder / "suite.parquet", *roles, *out)


def evaluate(*arguments: object) -> None:
    from core.cli import run_app
    from evaluation.__main__ import app

    run_app(app, list(map(str, arguments)), "python -m evaluation")


if __name__ == "__main__":
    stage, where = sys.argv[1], Path(sys.argv[2])
    if len(sys.argv) == 3:
        sys.exit(exit_status(lambda: globals()[f"run_{stage}"](where)))
    globals().get(f"prepare_{stage}", lambda folder: None)(where)
