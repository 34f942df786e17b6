"""The stages that `test_crash_points` breaks off: ``python tests/integration/crash_stages.py STAGE FOLDER``.

Each `prepare_…` makes what its stage finds, each `run_…` is the stage itself, by the code that the project runs. What a
person would not ask for again (a promotion of the champion) is not asked for again.
"""

import os
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]

from manifests import manifest, targets  # noqa: E402

from core.cli import exit_status  # noqa: E402
from core.files import write_json  # noqa: E402
from core.manifest import read_manifest, write_manifest  # noqa: E402
from evaluation import champions  # noqa: E402
from evaluation.champions import Checkpoint, Decision, PolicyRecord, PromotionLimits, Registry  # noqa: E402
from evaluation.promotion import reason_without_comparison  # noqa: E402

OLD = time.time() - 90 * 86_400
champions.now = lambda: "2026-01-01T00:00:00+00:00"  # a decision names its time


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

    def consider(current: PolicyRecord | None) -> Decision:
        reason = reason_without_comparison(policy, current) if current else None
        return Decision(promoted=not reason, reasons=[])

    registry.decide(policy, consider, base="b", scorecard="", limits=PromotionLimits(), dagster_run="r")


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
    from evaluation.retention import RetentionRules, plan_removals, remove

    rules = RetentionRules()
    plan = plan_removals(folder, rules, named=[], now=time.time())
    for _ in remove(folder, plan.removals, rules, named=list):
        pass


if __name__ == "__main__":
    stage, where = sys.argv[1], Path(sys.argv[2])
    if len(sys.argv) == 3:
        sys.exit(exit_status(lambda: globals()[f"run_{stage}"](where)))
    globals().get(f"prepare_{stage}", lambda folder: None)(where)
