"""400 sequences of promotion decisions on the answers of recorded runs, each in a registry of its own."""

import json
import random
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
from recorded import tables, unpack

from core.model.model_folder import model_digest
from evaluation.benchmarks.suite import load_suite
from evaluation.promotion.champions import Registry
from evaluation.promotion.promotion_rules import compare_with_champion
from evaluation.promotion.records import Checkpoint, Contenders, PromotionLimits, ScoreFile
from grading.contamination import Contamination

SEQUENCES, LENGTH = 400, 3
PROFILE = "comparison"
NUMBERS = ("outcome", "level", "left", "log_evidence", "answers", "more_answers", "difference", "ood")


def checkpoint(run: Path) -> Checkpoint:
    """A model of a recorded run, with a text in the place of its weights."""
    (run / "model.safetensors").write_text(run.name, encoding="utf-8")
    digest = model_digest(run)
    lineage = json.loads((run / "lineage.json").read_text(encoding="utf-8")) | {"checkpoint_digest": digest}
    (run / "lineage.json").write_text(json.dumps(lineage), encoding="utf-8")
    scores = {file.stem: ScoreFile(file=str(file), problems=file.stem) for file in run.glob("scores/*.parquet")}
    return Checkpoint(path=str(run), digest=digest, scores=scores)


def sequence(seed: int, candidates: list[Checkpoint]) -> list[dict[str, Any]]:
    """Decide on candidates drawn with a seed; the one before them is their base."""
    base, *policies = random.Random(seed).choices(candidates, k=LENGTH + 1)
    limits = PromotionLimits(error_rate=(0.05, 0.9)[seed % 2], max_ood_drop=(0.05, 0.2)[seed // 2 % 2])
    by_digest, decisions = {of.digest: of for of in candidates}, []
    with TemporaryDirectory(prefix="frozen-") as folder:
        registry, suite = Registry(Path(folder)), load_suite(PROFILE)
        for policy in policies:
            opponent = by_digest[champion.checkpoint] if (champion := registry.champion()) else None
            contenders = Contenders(policy=policy, base=base, opponent=opponent)
            fixed = {"registry": registry, "suite": suite, "limits": limits}
            decide = partial(compare_with_champion, contenders, search=lambda: Contamination(0, 0, ()), **fixed)
            record, *_ = registry.record_decision(
                policy, decide, base=base.digest, scorecard="", limits=limits, dagster_run=""
            )
            numbers = {name: getattr(record.decision, name) for name in NUMBERS}
            decisions.append({"policy": Path(policy.path).name, "reasons": len(record.decision.reasons), **numbers})
    return decisions


def values() -> dict[str, Any]:
    with TemporaryDirectory(prefix="frozen-") as folder:
        fixed = [checkpoint(run) for run in unpack(Path(folder, "fixed"), PROFILE).values()]
        drawn = unpack(Path(folder, "drawn"), PROFILE).values()  # the same answers, as if drawn until decided
        for run in drawn:
            for name, table in tables(run).items():
                sampling = {b"sampling": json.dumps({"samples": "until_decided"}).encode()}
                table = table.replace_schema_metadata(table.schema.metadata | sampling)
                pq.write_table(table, run / f"scores/{name}.parquet")
        sets = fixed, [checkpoint(run) for run in drawn]
        return {f"{seed:03}": sequence(seed, sets[seed % 3 == 0]) for seed in range(SEQUENCES)}
