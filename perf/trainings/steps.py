"""Time a mixed-policy step against a plain GRPO step of verl: ``.venv-train/bin/python -m perf.trainings.steps``.

Both train the embedded base model on the embedded targets at the same batch, group size and limits, with a learning
rate of 0, so that the policy and the length of its answers do not change. "verl" is verl's own trainer, agent loop,
advantage and loss. "on_policy" is our trainer without off-policy samples, which measures the hooks alone. "luffy" has
one whole target per group. The program prints the median seconds of steps 3 and later, and the ratios to verl.

``--rollouts`` times "luffy" in each mode of its rollouts, one after the other, beside what `perf.trainings.rollouts`
simulates.
``--model MODEL`` (a folder, a .gguf file or a hub id) times "luffy" with that model as the hardware profile ``cpu``
lays it out, and before that padded, on one thread and in float32, with the CPU time of a step, which other work on the
machine hardly changes, and the peak of the memory of all processes.
``--source`` gives traces of your own to train on. ``--memory`` fits a line to the memory of all processes over the
steps of "luffy", with as many prompts as ``--rows`` says, and prints the generations that were requested per step.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from omegaconf import OmegaConf

from core import PROJECT
from perf.measurement import call, overriding, parser_of, train_policy
from perf.trainings.process_usage import slowdown, watch
from perf.trainings.rollouts import fit, generated, simulate, step_seconds
from training.embedded_model.resolve_model import EMBEDDED, SHIPPED, resolve_base
from training.job.configuration import compose_run

COMMON = {
    "data.train_batch_size": "16",
    "data.max_prompt_length": "64",
    "data.max_response_length": "144",
    "actor_rollout_ref.actor.optim.lr": "1e-30",
    "actor_rollout_ref.actor.checkpoint.save_contents": "[model]",
}
# Of a step with a language model: 8 samples.
WORDS = {
    "data.train_batch_size": "2",
    "data.max_prompt_length": "256",
    "data.max_response_length": "256",
    "actor_rollout_ref.rollout.n": "4",
    "actor_rollout_ref.actor.ppo_mini_batch_size": "2",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": "4096",
}
PLAIN = {
    "compute": "float32",
    "threads": "1",
    "rollout_precision": "float32",
    "actor_rollout_ref.model.use_remove_padding": "false",
    "actor_rollout_ref.model.use_fused_kernels": "false",
}
OURS = ("on_policy", "luffy")  # recipes
SHOWN = 8  # parts of the memory that grow or shrink the most
MODES = ("sync", "colocate_async", "separate_async")
PARTS = ("step", "gen", "old_log_prob", "adv", "update_actor")


def targets(folder: Path, source: str = EMBEDDED, model: Path = SHIPPED) -> Path:
    """Prepare the targets of ``source`` in the tokens of ``model``, with the orchestration interpreter."""
    limits = {"prompt": WORDS["data.max_prompt_length"], "target": WORDS["data.max_response_length"]}
    command = [PROJECT / ".venv/bin/python", "-m", "targets", "--source", source, "--out", folder]
    call(*command, "--tokenizer", model, *overriding(f"max_{part}_tokens={most}" for part, most in limits.items()))
    return folder / "train.parquet"


def train(
    recipe: str,
    file: Path,
    out: Path,
    steps: int,
    more: Mapping[str, str] = MappingProxyType({}),
    *,
    model: Path = SHIPPED,
    warm_up: int = 2,
) -> list[dict[str, float]]:
    """Return the metrics of the steps after the first ``warm_up``."""
    length = {"trainer.total_training_steps": str(steps), "trainer.save_freq": str(steps)}
    settings = {**COMMON, **more, **length}
    train_policy(out, recipe, file, model, 0, [f"{key}={value}" for key, value in settings.items()])
    return _metrics(out / "metrics.jsonl", warm_up)


def train_with_verl(run: Path, out: Path) -> list[dict[str, float]]:
    """The metrics of steps 3 and later of verl's own trainer and agent loop, with the configuration of ``run``."""
    config = OmegaConf.load(run / "config.yaml")
    config.trainer.v1.trainer_mode = "sync"
    config.trainer.default_local_dir, config.trainer.rollout_data_dir = str(out / "checkpoints"), str(out / "rollouts")
    config.actor_rollout_ref.rollout.agent.default_agent_loop = "single_turn_agent"
    out.mkdir()
    OmegaConf.save(config, out / "config.yaml")
    variables = compose_run("on_policy", "cpu", [], run=out).environment
    environment = {name: str(value) for name, value in variables.items()}
    environment |= {"PYTHONPATH": str(PROJECT), "TENSORBOARD_DIR": str(out / "tensorboard")}
    environment["VERL_FILE_LOGGER_PATH"] = str(out / "metrics.jsonl")
    call(sys.executable, "-m", "training.verl_hooks.main", out / "config.yaml", environment=environment)
    return _metrics(out / "metrics.jsonl", 2)


def _metrics(file: Path, warm_up: int) -> list[dict[str, float]]:
    return [json.loads(line)["data"] for line in file.read_text().splitlines()][warm_up:]


def medians(records: list[dict[str, float]]) -> dict[str, float]:
    """Median seconds of the parts of a step, the mean response length, and the generations requested."""
    # verl's own step contains the checkpoint of the last one.
    figures = {part: statistics.median(record[f"timing_s/{part}"] for record in records[:-1]) for part in PARTS}
    requests = statistics.median(record.get("batch/generation_requests", float("nan")) for record in records)
    return figures | {"tokens": statistics.median(r["response_length/mean"] for r in records), "requests": requests}


def by_mode(file: Path, folder: Path, steps: int) -> None:
    """Print what a step and 1,000 generated tokens of "luffy" cost with each mode of its rollouts.

    Beside it is what `perf.trainings.rollouts` makes of the phases of the synchronous run.
    """
    sys.stdout.write(
        "rollouts          s per step   simulated   s per 1,000 tokens   age   trainer idle   rollouts idle\n"
    )
    with watch(folder / "sync", sizes=False) as used:
        measured = {"sync": train("luffy", file, folder / "sync", steps, {"rollouts": "sync"})}
    measured |= {mode: train("luffy", file, folder / mode, steps, {"rollouts": mode}) for mode in MODES[1:]}
    tokenizer, numbers = (
        PROJECT / "training/embedded_model/model/tokenizer.json",
        range(steps - len(measured["sync"]), steps),
    )
    batches = [generated(folder / "sync" / "rollouts" / f"{number + 1}.jsonl", tokenizer) for number in numbers]
    phases = replace(fit(measured["sync"], batches), contention=slowdown(used, measured["sync"]))
    sys.stdout.write(f"beside each other, actor and vLLM take {phases.contention:.2f} times as long\n")
    for mode, records in measured.items():
        simulated = simulate(mode, 1, phases, batches).seconds
        seconds = [step_seconds(record) for record in records]
        tokens = sum(record["batch/generated_tokens"] for record in records)
        age, trainer, rollouts = (
            statistics.fmean(record[name] for record in records)
            for name in ("staleness/mean", "idle/trainer", "idle/rollouts")
        )
        costs = f"{statistics.fmean(seconds):>13.2f}{simulated:>12.2f}{1000 * sum(seconds) / tokens:>21.2f}"
        sys.stdout.write(f"{mode:<15}{costs}{age:>6.2f}{trainer:>15.2f}{rollouts:>16.2f}\n")


def memory(file: Path, folder: Path, steps: int, rows: int) -> None:
    """Print the slope of the memory of all processes over the last three quarters of the steps of a "luffy" run."""
    started, run = time.monotonic(), folder / "memory"
    with watch(run) as samples:
        figures = medians(train("luffy", file, run, steps, {"data.train_batch_size": str(rows)}))
    kept = [(step, sizes) for step, _, sizes in samples if steps // 4 <= step < steps]
    at = [step for step, _ in kept]

    def slope(values: list[float]) -> tuple[float, float]:
        """MiB per step, and MiB at the first of these steps."""
        grows, start = np.polyfit(at, values, 1)
        return float(grows), float(start + grows * at[0])

    grows, first = slope([sum(sizes.values()) for _, sizes in kept])
    sys.stdout.write(
        f"{steps} steps in {time.monotonic() - started:.0f} s, {figures['requests']:.0f} generations per step; all "
        f"processes at step {at[0]}: {first:.0f} MiB, slope {grows:+.3f} MiB per step\n"
    )
    parts = {
        name: slope([sizes.get(name, 0.0) for _, sizes in kept]) for name in set().union(*(sizes for _, sizes in kept))
    }
    for name, (grows, first) in sorted(parts.items(), key=lambda part: -abs(part[1][0]))[:SHOWN]:
        sys.stdout.write(f"  {name:42} {first:7.0f} MiB {grows:+8.3f} MiB per step\n")


def by_layout(model: str, source: str, folder: Path, steps: int) -> None:
    """Print what a step of "luffy" costs with ``model``, padded in float32 on one thread and as the profile has it."""
    base = resolve_base(model, folder / "models", train_python=sys.executable).path
    file = targets(folder / "targets", source, base)
    results = {}
    for name, settings in (("plain", WORDS | PLAIN), ("cpu", WORDS)):
        with watch(folder / name) as samples:
            records = train("luffy", file, folder / name, steps, settings, model=base, warm_up=1)
        generated = statistics.median(r["batch/generated_tokens"] / r["timing_s/gen"] for r in records)
        peak = max(sum(sample.sizes.values()) for sample in samples) / 1024
        first, last = (min(sum(s.cpu_seconds.values()) for s in samples if s.step >= step) for step in (1, steps - 1))
        results[name] = medians(records) | {"CPU s": (last - first) / (steps - 2), "tokens/s": generated}
        results[name]["peak GiB"] = peak
    columns = [*PARTS, "CPU s", "tokens", "tokens/s", "peak GiB"]
    sys.stdout.write("layout     " + "".join(f"{column:>14}" for column in columns) + "\n")
    for name, figures in results.items():
        sys.stdout.write(f"{name:<11}" + "".join(f"{figures[column]:14.2f}" for column in columns) + "\n")
    plain, cpu = results.values()
    ratios = {part: plain[part] / cpu[part] for part in (*PARTS, "CPU s")} | {
        "tokens/s": cpu["tokens/s"] / plain["tokens/s"]
    }
    sys.stdout.write(
        "faster     " + "".join(f"{ratios[c]:13.1f}x" if c in ratios else " " * 14 for c in columns) + "\n"
    )


def main() -> None:
    parser = parser_of("trainings.steps", "Time mixed-policy and GRPO steps.")
    parser.add_argument("--steps", type=int, default=20, help="steps per run (default %(default)s)")
    parser.add_argument("--model", help="time luffy with this model: a folder, a .gguf file or a hub id")
    parser.add_argument("--source", default=EMBEDDED, help="traces to train it on (default %(default)s)")
    parser.add_argument("--rows", type=int, default=16, help="prompts per step of --memory (default %(default)s)")
    parser.add_argument("--rollouts", action="store_true", help="time luffy with each mode of its rollouts")
    parser.add_argument("--memory", action="store_true", help="fit the growth of memory (take --steps 200)")
    arguments = parser.parse_args()
    steps = arguments.steps
    with tempfile.TemporaryDirectory() as folder:
        if arguments.model:
            by_layout(arguments.model, arguments.source, Path(folder), max(3, steps))
            return
        file = targets(Path(folder) / "targets")
        if arguments.memory:
            memory(file, Path(folder), steps, arguments.rows)
            return
        if arguments.rollouts:
            by_mode(file, Path(folder), steps)
            return
        results = {recipe: medians(train(recipe, file, Path(folder) / recipe, steps)) for recipe in OURS}
        results["verl"] = medians(train_with_verl(Path(folder) / "on_policy", Path(folder) / "verl"))
    columns = [*PARTS, "tokens"]
    sys.stdout.write("run        " + "".join(f"{column:>14}" for column in columns) + "   step against verl\n")
    for name, figures in results.items():
        numbers = "".join(f"{figures[column]:14.3f}" for column in columns)
        sys.stdout.write(f"{name:<11}{numbers}   {figures['step'] / results['verl']['step']:.2f}x\n")


if __name__ == "__main__":
    main()
