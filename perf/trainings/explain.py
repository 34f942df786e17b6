"""Plant faults in short trainings and let `luffy explain` name them.

The command is ``.venv-train/bin/python -m perf.trainings.explain``.

Each fault is a real training of a few steps of the embedded model (about a minute on two cores). The result is the
table of docs/explain.md. A training that is complete in ``--out`` is reused, and ``--record FOLDER`` also writes the
small records that the quick tests read.
"""

import json
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import OmegaConf

from core import PROJECT
from core.arithmetic import problems
from core.errors import STOPPED
from core.files import read_json, read_yaml, write_json
from core.ledger_verdicts import LEARNED_FILE
from core.metric_table import live_values, measures_machine
from core.schemas import TARGET
from grading.verifiers.spec import parse_spec
from perf.measurement import overriding, parser_of
from training.config.keys import read_by
from training.embedded_model.resolve_model import SHIPPED
from training.explain.before import examine
from training.explain.causes import explain
from training.explain.record import read_record
from training.job.configuration import compose_run
from training.job.lineage import portable
from training.preflight.trial_training import target_rows, write_untied_model

COMMON = {
    "data.train_batch_size": "8",
    "data.max_prompt_length": "64",
    "data.max_response_length": "144",
    "actor_rollout_ref.rollout.n": "4",
    "actor_rollout_ref.actor.optim.lr": "1e-4",
    "trainer.total_training_steps": "4",
    "trainer.save_freq": "4",
}
ROWS = 32  # of targets: those of four steps
REWARD = "reward.custom_reward_function"
RECORDED = 16  # samples of a step that a record has
READ = {  # parts of the configuration that the tests of a record read
    "data": ("max_response_length", "order", "shuffle"),
    "mixed": ("distillation", "gate", "relift", "rollout_correction", "sft_multitask", "srft"),
    "reward": ("custom_reward_function",),
    "actor_rollout_ref": ("rollout.max_model_len", "rollout.temperature", "model.override_config", "actor.optim.lr"),
}
FUNCTIONS = {
    "right.py": "def score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n",
    "wrong.py": "def score(data_source, solution_str, ground_truth, extra_info=None):\n    return 0.0\n",
    "fails.py": "import zlib\n\n\ndef score(data_source, solution_str, ground_truth, extra_info=None):\n"
    "    if zlib.crc32(solution_str.encode()) % 16 == 0:\n"
    "        raise ValueError('cannot read ' + solution_str[-6:])\n"
    "    return float(('{' + ground_truth + '}') in solution_str)\n",
}


@dataclass(frozen=True)
class Fault:
    """A planted fault: the cause that should be named first ("" for none), and how its training differs."""

    name: str
    cause: str
    what: str
    settings: Mapping[str, str] = field(default_factory=dict)
    recipe: str = "luffy"
    model: Callable[[Path], None] = lambda _: None
    targets: Callable[[], list[dict[str, Any]]] = lambda: target_rows(problems("train", ROWS))


def change(folder: Path, file: str, **values: Any) -> None:
    """Change values of a JSON file of a model."""
    write_json({**read_json(folder / file), **values}, folder / file)


def open_thoughts(model: Path) -> None:
    """A template that opens the thoughts, as those of reasoning models do."""
    template = model / "chat_template.jinja"
    text = template.read_text(encoding="utf-8").replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
    assert "<think>" in text
    template.write_text(text, encoding="utf-8")


def other_end_token(model: Path) -> None:
    """The end token of another version of the model, which this one never writes."""
    change(model, "config.json", eos_token_id=0)
    change(model, "generation_config.json", eos_token_id=0)
    change(model, "tokenizer_config.json", eos_token="<|endoftext|>")


def no_backslash(model: Path) -> None:
    """A base model that never learned to write a box."""
    import numpy as np
    from safetensors.numpy import load_file, save_file
    from tokenizers import Tokenizer

    shutil.rmtree(model)
    write_untied_model(model)
    weights = load_file(model / "model.safetensors")
    token = Tokenizer.from_file(str(model / "tokenizer.json")).encode("\\", add_special_tokens=False).ids
    head = weights["lm_head.weight"].copy()
    head[token] = np.zeros_like(head[token])
    save_file({**weights, "lm_head.weight": head}, model / "model.safetensors", metadata={"format": "pt"})


def short_context(model: Path) -> None:
    """A model for 96 positions."""
    change(model, "config.json", max_position_embeddings=96)


def easy_to_hard() -> list[dict[str, Any]]:
    """Sums in the order of their length."""
    drawn = [*problems("short", ROWS // 2), *problems("train", ROWS // 2)]
    return target_rows(sorted(drawn, key=lambda one: len(one.problem)))


FAULTS = (
    Fault("healthy", "", "none"),
    Fault(
        "context",
        "context",
        "a model for 96 positions, and an override that promises 208",
        {
            "+actor_rollout_ref.model.override_config.max_position_embeddings": "208",
            "+environment.VLLM_ALLOW_LONG_MAX_MODEL_LEN": "'1'",
        },
        model=short_context,
    ),
    Fault(
        "thoughts_twice",
        "thoughts_twice",
        "a chat template that opens the thoughts, and targets that do so after a blank line",
        model=open_thoughts,
        targets=lambda: target_rows(problems("train", ROWS), lambda one: f"\n{one.trace}"),
    ),
    Fault("end_token", "end_token", "a tokenizer with another end token than the model writes", model=other_end_token),
    Fault(
        "cut",
        "cut",
        "a limit of 28 tokens, which the targets keep and the base model does not",
        {"data.max_response_length": "28"},
        targets=lambda: target_rows(problems("train", ROWS), lambda one: f"<think></think>\\boxed{{{one.answer}}}"),
    ),
    Fault("no_box", "no_box", "a base model that cannot write a backslash", recipe="on_policy", model=no_backslash),
    Fault("verifier_errors", "verifier_errors", "a verifier that raises on some responses"),
    Fault("always_right", "always_right", "a reward function that returns 1", {f"{REWARD}.path": "right.py"}),
    Fault("always_wrong", "always_wrong", "a reward function that returns 0", {f"{REWARD}.path": "wrong.py"}),
    Fault(
        "order",
        "order",
        "sums sorted by length, without shuffling",
        {"data.shuffle": "false"},
        recipe="on_policy",
        targets=easy_to_hard,
    ),
    Fault(
        "alike_cold",
        "alike",
        "a sampling temperature of 0.01",
        {"actor_rollout_ref.rollout.temperature": "0.01"},
        recipe="on_policy",
    ),
    Fault(
        "alike_hard",
        "alike",
        "problems with products, which the base model does not solve",
        recipe="on_policy",
        targets=lambda: target_rows(problems("train_products", ROWS)),
    ),
    Fault(
        "stale",
        "stale",
        "samples up to 8 updates old, without a correction",
        {"rollouts": "separate_async", "max_staleness": "8", "trainer.total_training_steps": "10"},
        targets=lambda: target_rows(problems("train_hard", 80)),
    ),
    Fault(
        "drift",
        "drift",
        "an override of the model that only the actor reads",
        {"+actor_rollout_ref.model.override_config.rms_norm_eps": "0.5"},
    ),
    Fault("learning_rate", "learning_rate", "lr=1e-2", {"actor_rollout_ref.actor.optim.lr": "1e-2"}),
    Fault(
        "targets_not_learned",
        "targets_not_learned",
        "lr=1e-9, on terse targets",
        {"actor_rollout_ref.actor.optim.lr": "1e-9"},
        targets=lambda: target_rows(problems("train_hard", ROWS // 2, terse=1.0)),
    ),
)


def plant(fault: Fault, out: Path) -> Path:
    """Train with ``fault``, unless its run is complete in ``out``; the folder of the run."""
    folder = out / fault.name
    run = folder / "run"
    if (folder / "done").exists():
        return run
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in FUNCTIONS.items():
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copytree(SHIPPED, folder / "model", ignore=shutil.ignore_patterns("__pycache__"))
    fault.model(folder / "model")
    table = pa.Table.from_pylist(fault.targets(), schema=TARGET)
    if fault.name == "verifier_errors":
        spec = parse_spec({"type": "python", "path": f"{folder / 'fails.py'}:score"}, "verifier")
        record = {"arithmetic": {"verifier": spec.to_json(), "digest": spec.digest}}
        table = table.replace_schema_metadata({b"verifiers": json.dumps(record).encode()})
    pq.write_table(table, folder / "targets.parquet")
    settings = {**COMMON, **fault.settings}
    if f"{REWARD}.path" in settings:
        settings |= {f"{REWARD}.path": str(folder / settings[f"{REWARD}.path"]), f"{REWARD}.name": "score"}
    settings["trainer.save_freq"] = settings["trainer.total_training_steps"]
    overrides, _ = read_by(fault.recipe, [f"{key}={value}" for key, value in settings.items()])
    command = [sys.executable, "-m", "training", "--recipe", fault.recipe, "--model", str(folder / "model")]
    command += ["--targets", str(folder / "targets.parquet"), "--out", str(run)]
    command += overriding(overrides)
    with (folder / "log").open("w") as log:
        status = subprocess.run(command, cwd=PROJECT, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    if 0 <= status <= 128 and STOPPED not in (folder / "log").read_text():  # what a signal ended is trained again
        (folder / "done").write_text(str(status))
    return run


def record(run: Path, file: Path) -> None:
    """Write what `luffy explain` reads of ``run``, with some samples of each step, to the zip ``file``."""
    config = portable(read_yaml(run / "config.yaml", "configuration"), run.resolve())
    kept = OmegaConf.create()
    for key in (f"{section}.{name}" for section, names in READ.items() for name in names):
        OmegaConf.update(kept, key, OmegaConf.select(OmegaConf.create(config), key))
    contents = {"config.yaml": OmegaConf.to_yaml(kept).replace(f"{run.parent}/", "")}
    steps = sorted((run / "attempts").glob("*.jsonl"))
    metrics = [json.loads(line) for path in steps for line in path.read_text().splitlines()]
    for one in metrics:
        values = live_values(one["data"])
        one["data"] = {name: value for name, value in values.items() if not measures_machine(name)}
    contents["metrics.jsonl"] = "".join(f"{json.dumps(one)}\n" for one in metrics)
    for path in (run / "rollouts").glob("*.jsonl"):
        contents[f"rollouts/{path.name}"] = "".join(path.read_text().splitlines(keepends=True)[:RECORDED])
    for path in (run / "attempts").glob("*.json"):
        contents[f"attempts/{path.name}"] = path.read_text().replace(str(run.parent), "")
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
        if (run / LEARNED_FILE).is_file():
            archive.writestr(zipfile.ZipInfo(LEARNED_FILE), (run / LEARNED_FILE).read_bytes(), zipfile.ZIP_DEFLATED)


def look_seconds(out: Path) -> float:
    """Return how long a run looks for faults before it starts, on targets of the embedded task."""
    out.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(target_rows(problems("train", ROWS)), schema=TARGET), out / "targets.parquet")
    config = compose_run("luffy", "cpu", [f"{key}={value}" for key, value in COMMON.items()], run=out)
    started = time.perf_counter()
    assert not examine(config, out / "targets.parquet", SHIPPED)
    return time.perf_counter() - started


def main() -> None:
    parser = parser_of("trainings.explain", __doc__)
    parser.add_argument("faults", nargs="*", help="names of faults; default: all")
    parser.add_argument("--out", type=Path, default=PROJECT / "var/explain")
    parser.add_argument("--look", action="store_true", help="only measure the look before a training")
    parser.add_argument("--record", type=Path, help="folder of the records")
    options = parser.parse_args()
    if options.look:
        print(f"{look_seconds(options.out.resolve() / 'look'):.2f} s")
        return
    chosen = [fault for fault in FAULTS if not options.faults or fault.name in options.faults]
    named = 0
    print("| planted | named first | also | evidence |\n|---|---|---|---|", flush=True)
    for fault in chosen:
        run = plant(fault, options.out.resolve())
        found = explain(read_record(run))
        first = found[0].cause.name if found else ""
        named += first == fault.cause
        also = ", ".join(f"`{one.cause.name}`" for one in found[1:])
        evidence = found[0].evidence.text if found else ""
        print(f"| {fault.what} | {f'`{first}`' if first else 'nothing'} | {also} | {evidence} |", flush=True)
        if options.record:
            record(run, options.record / f"{fault.name}.zip")
    print(f"\n{named} of {len(chosen)} as planted")


if __name__ == "__main__":
    main()
