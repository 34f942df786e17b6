"""Scores and references as the upstream assets leave them, written instead of computed."""

import json
import random
import shutil
from copy import copy
from pathlib import Path

import manifests
import pyarrow as pa
import pyarrow.parquet as pq
from storages import read_reference

from assets.shared.storage import Storage
from core.files import write_text
from core.model.lineage_file import InputRecord, write_manifest
from core.schemas import BENCHMARK, GRADED
from tests.defs.project import Project
from training.export.model_card import model_card

BENCHMARKS = {"arithmetic": "evals", "arithmetic_long": "ood", "arithmetic_mul": "ood", "arithmetic_short": "ood"}
PROBLEM = {
    "benchmark": "arithmetic",
    "id": "0000",
    "problem": "What is 12 + 30 + 5?",
    "prompt": [],
    "gold": "47",
    "verifier": "math",
}
CLEAN = "What is 2 + 2?"
OUTPUTS = ("report/scorecard", "registry/champion")
GOOD = {"arithmetic": 0.5, "arithmetic_long": 0.3, "arithmetic_mul": 0.05, "arithmetic_short": 0.94}


def graded(
    name: str, accuracy: float, checkpoint: str, truncated: float = 0.0, problems: int = 200, seed: str = ""
) -> pa.Table:
    chance = random.Random(f"{name}{checkpoint}{seed}")
    rows = []
    for number in range(problems):
        right, cut = chance.random() < accuracy, chance.random() < truncated
        rows.append(
            {
                "benchmark": name,
                "id": f"{number:04}",
                "sample": 0,
                "prompt": f"{number}+1=?",
                "response": "<think>\n1\n</think>\n\n\\boxed{1}",
                "tokens": 9,
                "finish_reason": "length" if cut else "stop",
                "seed": number,
                "gold": "1",
                "extracted": "1",
                "verdict": "correct" if right else "truncated" if cut else "wrong",
                "score": float(right),
            }
        )
    sampling = {"samples": None, "temperature": 0.6, "top_p": 0.95, "max_tokens": 192, "seed": 0}
    metadata = {"checkpoint": checkpoint, "sampling": json.dumps(sampling)}
    return pa.Table.from_pylist(rows, schema=GRADED.with_metadata(metadata))


class Written:
    """References and files as the upstream assets leave them."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.storage = Storage(root=str(project.storage))
        self.base = "b" * 64
        self.accuracies: dict[str, dict[str, float]] = {}  # of policies
        self.upstream: dict = {}  # that the lineage of policies made from now on names
        (project.storage / "base").mkdir(parents=True)
        self.model(self.base)
        suite = project.storage / "problems.parquet"
        pq.write_table(BENCHMARK.empty_table(), suite)
        self.refer("benchmarks/suite", suite, "s" * 64, digests={"arithmetic": "d"})
        prepared = {"rows": 280, "read": 300, "filter_counts": [["read", 300], ["kept", 280]], "seed": 0}
        prepared |= {"source": ["embedded"], "source_digest": "r" * 64, "profile": "profile.parquet"}
        self.refer("targets/prepared", project.storage / "base", "t" * 64, **prepared)
        pq.write_table(pa.Table.from_pylist([PROBLEM], schema=BENCHMARK), suite)
        self.targets(CLEAN)

    def refer(self, key: str, path: Path, digest: str, **facts: object) -> None:
        text = json.dumps({"path": str(path), "digest": digest, **facts})
        write_text(text.replace(str(self.project.storage), "$STORAGE"), self.storage.reference_file(key))

    def copied(self, project: Project) -> "Written":
        """The same in the storage of another project."""
        shutil.copytree(self.project.storage, project.storage)
        for record in project.storage.glob("registry/**/*.json"):
            record.write_text(record.read_text().replace(str(self.project.storage), str(project.storage)))
        other = copy(self)
        other.project, other.storage = project, Storage(root=str(project.storage))
        return other

    def reference(self, key: str) -> dict:
        return read_reference(self.storage.path, key)

    def model(self, digest: str) -> None:
        """The base model that is in use from now on."""
        facts = {"source": "embedded", "parameters": 1, "architecture": "x"}
        self.refer("models/base", self.project.storage / "base", digest, **facts)

    def targets(self, problem: str) -> None:
        """The file that policies made from now on were trained on, with one problem."""
        from core.schemas import TARGET

        row = {"prompt": [{"role": "system", "content": "Think."}, {"role": "user", "content": problem}]}
        self.trained_on = self.project.storage / f"train-{len(problem)}.parquet"
        pq.write_table(pa.Table.from_pylist([row], schema=TARGET), self.trained_on)

    def policy(self, name: str, **accuracies: float) -> str:
        """A checkpoint with its scores; the digest that its manifest names."""
        run = self.project.storage / "training" / "policy" / name
        (run / "policy").mkdir(parents=True)
        (run / "policy" / "model.safetensors").write_text(name)
        base = InputRecord(path=Path("../../../../base"), digest=self.base)  # from the folder of the policy
        targets = manifests.targets(path=self.trained_on)
        manifest = manifests.manifest(base_model=base, steps=3, targets=targets, upstream=self.upstream)
        write_manifest(run / "policy", manifest)
        (run / "policy" / "README.md").write_text(model_card(manifest))
        records = [{"step": step, "data": {"reward/on_policy": step / 3}} for step in (1, 2, 3)]
        (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        digest = json.loads((run / "policy" / "lineage.json").read_text())["checkpoint_digest"]
        self.refer("training/policy", run / "policy", digest, metrics=str(run / "metrics.jsonl"), base=self.base)
        self.accuracies[digest] = accuracies
        self.scores("policy", digest, **accuracies)
        return digest

    def scores(self, role: str, checkpoint: str, truncated: float = 0.0, **accuracies: float) -> None:
        """The scores of a model and, beside a policy, those with which the present champion defends its place."""
        for name in accuracies:
            file = self.project.storage / "scores" / f"{name}-{checkpoint[:8]}.parquet"
            file.parent.mkdir(exist_ok=True)
            pq.write_table(graded(name, accuracies[name], checkpoint, truncated), file)
            facts = {"checkpoint": checkpoint, "problems": f"problems of {name}", "accuracy": accuracies[name]}
            if role == "policy" and self.champion and self.champion["checkpoint"] != checkpoint:
                facts |= self.defence(name)
            self.refer(f"{BENCHMARKS[name]}/{role}/{name}", file, f"{name}{checkpoint}", **facts)

    def defence(self, name: str) -> dict[str, dict]:
        """The present champion, with answers to ``name`` that are not those with which it won."""
        champion = self.champion["checkpoint"]
        file = self.project.storage / "scores" / f"{name}-{champion[:8]}-defence.parquet"
        table = graded(name, self.accuracies[champion][name], champion, seed="defence")
        pq.write_table(table, file)
        score = {"file": str(file), "problems": f"problems of {name}"}
        return {"opponent": {"path": self.champion["policy"], "digest": champion, "scores": {name: score}}}

    @property
    def champion(self) -> dict | None:
        file = self.project.storage / "registry" / "champion.json"
        return json.loads(file.read_text()) if file.exists() else None


def with_base(project: Project) -> Written:
    """An installation with the scores of its base model."""
    made = Written(project)
    made.scores("base", made.base, arithmetic=0.06, arithmetic_long=0.02, arithmetic_mul=0.05, arithmetic_short=0.95)
    return made
