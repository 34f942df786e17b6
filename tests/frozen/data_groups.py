"""The groups that need no torch: ``python data_groups.py GROUP FILE``."""

import hashlib
import json
import random
import subprocess
import sys
import zipfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from core import PROJECT
from core.model.model_folder import model_digest
from evaluation.benchmarks.suite import load_suite
from evaluation.promotion.champions import Registry
from evaluation.promotion.promotion_rules import compare_with_champion
from evaluation.promotion.records import Checkpoint, Contenders, PromotionLimits, ScoreFile
from evaluation.statistics.benchmark_scores import summarize
from evaluation.statistics.paired import average_difference, paired_difference
from grading.contamination import Contamination
from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Item

INPUTS = Path(__file__).resolve().parents[1] / "golden/frozen/inputs"
TOKENIZER = PROJECT / "training/embedded_model/model"
TABLES = ("prepared", "profile", "rejected", "train", "heldout", "left_out")
ENGINES = {"one": ("local", 1), "four": ("local", 4), "ray": ("ray", 2)}  # the second is the number of workers
PREPARE = """import json, os, sys
from targets.__main__ import main
if sys.argv[1] == "ray":  # one cluster for all inputs
    import ray
    variables = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": variables})
for arguments in json.loads(sys.argv[2]):
    assert main(arguments) == 0, arguments"""
SCORES = ("problems", "k", "mean", "low", "high", "standard_error", "pass_at", "majority", "truncated", "mean_tokens")
TESTS = ("problems", "mean", "low", "high", "standard_error", "p_value", "test", "beyond_chance", "detectable")
NUMBERS = ("outcome", "level", "left", "log_evidence", "answers", "more_answers", "difference", "ood")
Tables = dict[str, pa.Table]  # of graded answers, by benchmark


def preparation() -> dict[str, Any]:
    """The rows of seven inputs, with one worker, with four and on Ray, by the command of ``luffy targets``."""
    cases = json.loads((INPUTS / "preparation.json").read_text(encoding="utf-8"))
    with TemporaryDirectory(prefix="frozen-") as name, ThreadPoolExecutor() as pool:
        folder = Path(name)
        list(pool.map(partial(prepare, folder, cases), ENGINES))
        outputs = {f"{case}/{engine}": folder / f"{case}-{engine}" for case in cases for engine in ENGINES}
        return {name: {table: contents(out, table) for table in TABLES} for name, out in outputs.items()}


def prepare(folder: Path, cases: dict[str, Any], name: str) -> None:
    """Prepare all inputs in a process that works where they are, so that rows name them the same everywhere."""
    (engine, workers), commands = ENGINES[name], []
    for case, settings in cases.items():
        profile = folder / f"{case}-{name}.yaml"
        values = {"targets": settings | {"engine": engine, "workers": workers}}
        profile.write_text(json.dumps(values | {"split": {"heldout_share": 0.2, "max_rows": 900}}), encoding="utf-8")
        options = {"profile": profile, "tokenizer": TOKENIZER, "benchmarks": "suite.yaml"}
        options["out"] = profile.with_suffix("")
        commands.append([part for key, value in options.items() for part in (f"--{key}", str(value))])
    python = PROJECT / (".venv-train" if engine == "ray" else ".venv") / "bin/python"
    command = [python, "-c", PREPARE, engine, json.dumps(commands)]
    if (done := subprocess.run(command, cwd=INPUTS, capture_output=True, text=True)).returncode:
        sys.exit(f"{name}: {done.stderr}")


def contents(out: Path, name: str) -> dict[str, Any]:
    """Of a table, which may be several files: its rows, a digest of each column in their order, and reasons."""
    files = [file for file in sorted(out.glob("*.parquet")) if file.stem.split("-")[0] == name]
    columns = pa.concat_tables(map(pq.read_table, files)).to_pydict() if files else {}
    digests = {key: hashlib.sha256(json.dumps(column).encode()).hexdigest()[:16] for key, column in columns.items()}
    reasons = Counter(chain.from_iterable(columns.get("reasons", ())))
    return {"rows": len(columns.get("id", columns.get("prompt", ()))), "reasons": dict(reasons), "columns": digests}


def verdicts() -> dict[str, Any]:
    """Verdict and reason of the pairs that the tests list, of generated pairs, and of pairs of recorded answers."""
    rows = [json.loads(line) for line in (INPUTS / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()]
    frozen = {}
    for spec, group in groupby(rows, key=lambda row: row[0]):
        # 30 s per comparison, so that a busy machine changes no verdict.
        with open_verifier(parse_spec(spec, "frozen"), workers=2, limit_s=30.0) as verifier:
            items = [Item(response, gold, fields) for _, gold, response, fields in group]
            grades = verifier.verify_many(items, thinking=False)
        for item, grade in zip(items, grades, strict=True):
            name = f"{json.dumps(spec)} {item.gold} ~~ {item.response} {json.dumps(item.fields)}"
            frozen[name.removesuffix(" {}")] = {"verdict": str(grade.verdict), "reason": grade.reason}
    return frozen


def unpack(folder: Path, profile: str = "*") -> dict[str, Path]:
    """The folder with lineage.json and scores/BENCHMARK.parquet of the first three seeds ``profile/recipe-seed``."""
    archives = sorted((PROJECT / "research/runs").glob(f"{profile}/*-[012].zip"))
    runs = {name: folder / name for name in (f"{file.parent.name}/{file.stem}" for file in archives)}
    for file, run in zip(archives, runs.values(), strict=True):
        zipfile.ZipFile(file).extractall(run)
    return runs


def tables(run: Path) -> Tables:
    return {file.stem: pq.read_table(file) for file in sorted(run.glob("scores/*.parquet"))}


def scores() -> dict[str, Any]:
    """avg@k, pass@k, maj@k and intervals of each recorded run and of each recipe over its seeds, and paired tests."""
    frozen: dict[str, Any] = {}
    with TemporaryDirectory(prefix="frozen-") as folder:
        runs = {run: tables(path) for run, path in unpack(Path(folder)).items()}
    for recorded in (runs, over_seeds(runs)):
        for run, results in recorded.items():
            summaries = {name: summarize(table) for name, table in results.items()}
            frozen[run] = {name: {field: getattr(of, field) for field in SCORES} for name, of in summaries.items()}
        for (first, before), (second, after) in pairwise(recorded.items()):
            if before.keys() == after.keys():
                tests = [paired_difference(before[name], after[name]) for name in before]
                fields = {of.benchmark: {field: getattr(of, field) for field in TESTS} for of in tests}
                frozen[f"{first} -> {second}"] = {"average": average_difference(tests), **fields}
    return frozen


def over_seeds(recorded: dict[str, Tables]) -> dict[str, Tables]:
    """The runs of each recipe as one, in which every run is a sample of each problem."""
    recipes: dict[str, dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
    for run, results in recorded.items():
        for name, table in results.items():
            parts = recipes[run.rpartition("-")[0] + " over three seeds"][name]
            number = pa.array([len(parts)] * len(table), table.schema.field("sample").type)
            parts.append(table.set_column(table.schema.get_field_index("sample"), "sample", number))
    return {run: {name: pa.concat_tables(parts) for name, parts in of.items()} for run, of in recipes.items()}


def decisions() -> dict[str, Any]:
    """400 sequences of three promotion decisions on the answers of recorded runs, each in a registry of its own."""
    with TemporaryDirectory(prefix="frozen-") as folder:
        fixed = unpack(Path(folder, "fixed"), "comparison").values()
        drawn = unpack(Path(folder, "drawn"), "comparison").values()  # the same answers, as if drawn until decided
        for run in drawn:
            for name, table in tables(run).items():
                sampling = {b"sampling": json.dumps({"samples": "until_decided"}).encode()}
                table = table.replace_schema_metadata(table.schema.metadata | sampling)
                pq.write_table(table, run / f"scores/{name}.parquet")
        sets = [[checkpoint(run) for run in runs] for runs in (fixed, drawn)]
        return {f"{seed:03}": decide(seed, sets[seed % 3 == 0]) for seed in range(400)}


def checkpoint(run: Path) -> Checkpoint:
    """A model of a recorded run, with a text in the place of its weights."""
    (run / "model.safetensors").write_text(run.name, encoding="utf-8")
    digest = model_digest(run)
    lineage = json.loads((run / "lineage.json").read_text(encoding="utf-8")) | {"checkpoint_digest": digest}
    (run / "lineage.json").write_text(json.dumps(lineage), encoding="utf-8")
    files = {file.stem: ScoreFile(file=str(file), problems=file.stem) for file in run.glob("scores/*.parquet")}
    return Checkpoint(path=str(run), digest=digest, scores=files)


def decide(seed: int, candidates: list[Checkpoint]) -> list[dict[str, Any]]:
    """Decide on candidates drawn with a seed; the one before them is their base."""
    base, *policies = random.Random(seed).choices(candidates, k=4)
    limits = PromotionLimits(error_rate=(0.05, 0.9)[seed % 2], max_ood_drop=(0.05, 0.2)[seed // 2 % 2])
    by_digest, made = {of.digest: of for of in candidates}, []
    with TemporaryDirectory(prefix="frozen-") as folder:
        registry, suite = Registry(Path(folder)), load_suite("comparison")
        for policy in policies:
            opponent = by_digest[champion.checkpoint] if (champion := registry.champion()) else None
            contenders = Contenders(policy=policy, base=base, opponent=opponent)
            fixed = {"registry": registry, "suite": suite, "limits": limits}
            compare = partial(compare_with_champion, contenders, search=lambda: Contamination(0, 0, ()), **fixed)
            entry = {"base": base.digest, "scorecard": "", "limits": limits, "dagster_run": ""}
            record, *_ = registry.record_decision(policy, compare, **entry)
            numbers = {name: getattr(record.decision, name) for name in NUMBERS}
            made.append({"policy": Path(policy.path).name, "reasons": len(record.decision.reasons), **numbers})
    return made


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(globals()[sys.argv[1]]()), encoding="utf-8")
