"""Teach a model by itself: ``.venv-train/bin/python -m perf.trainings.self_distillation``.

The embedded model follows no instruction: with a solution in its prompt it is another policy, not a better one. Here it
first learns to use one, from prompts that all show the solution. Then ``opsd`` trains it on prompts that show none,
once per seed and teacher: the model as it was (``base``), and the policy of each step (``self``). Each model answers
problems that are not trained on, with and without their solution in the prompt; the result is in
docs/results/teacher.md. What is complete in ``--out`` is reused.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from core import PROJECT
from core.arithmetic import Problem, problems
from core.model.prompts import Example, encode_example, messages
from grading.grader import Grader
from perf.measurement import parser_of, train_policy
from perf.trainings.ledger_selection import OVERRIDES, prepare
from training.config.teacher_settings import BASE, SELF, show_target
from training.embedded_model.__main__ import answer
from training.embedded_model.pretrain import Schedule, batches, fit, progress_bar, save
from training.embedded_model.resolve_model import SHIPPED

ASKED, TARGETS, TOKENS = 200, 4096, 144
BATCH, LR = 32, 2e-3


def shown(problem: Problem) -> str:
    """The question with its solution, in the words of ``opsd``."""
    return show_target(messages(problem.problem), problem.trace, whole=True)[-1]["content"]


def teach(out: Path, steps: int) -> Path:
    """Write the embedded model that has learned to use a solution in its prompt, unless it is there; its folder."""
    if not out.exists():
        torch.manual_seed(0)
        model, tokenizer = AutoModelForCausalLM.from_pretrained(SHIPPED), AutoTokenizer.from_pretrained(SHIPPED)
        known, rng = problems("train", TARGETS), random.Random(0)

        def examples() -> Iterator[Example]:
            while True:
                problem = rng.choice(known)
                yield encode_example(messages(shown(problem)), problem.trace, tokenizer)

        with progress_bar("use a solution", steps) as on_step:
            fit(model, batches(examples(), BATCH, rng), Schedule(steps, LR, warmup=20), on_step)
        save(model, tokenizer, out)
    return out


def train(run: Path, model: Path, targets: Path, teacher: str, seed: int, steps: int) -> Path:
    """Train ``model`` with ``opsd`` unless it is done; the folder of the policy."""
    lengths = (f"trainer.{key}={steps}" for key in ("total_training_steps", "save_freq"))
    settings = (*OVERRIDES, *lengths, "actor_rollout_ref.actor.ppo_mini_batch_size=8", f"teacher.model={teacher}")
    train_policy(run, "opsd", targets, model, seed, settings)
    return run / "policy"


def score(folder: Path) -> str:
    """Percent right without and with a solution in the prompt, as cells of a table."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    asked, cells = problems("test", ASKED), []
    golds = [one.answer for one in asked]
    with Grader(workers=1) as grader:
        for questions in ([one.problem for one in asked], [shown(one) for one in asked]):
            responses = answer(model.eval(), tokenizer, questions, TOKENS)
            grades = grader.grade_many(zip(responses, golds, strict=True))
            cells.append(f"{sum(grade.score for grade in grades) / ASKED:.1%}")
    return " | ".join(cells)


def main() -> None:
    parser = parser_of("trainings.self_distillation", __doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(3)))
    parser.add_argument("--updates", type=int, default=400, help="with solutions in the prompts (default %(default)s)")
    parser.add_argument("--steps", type=int, default=60, help="of each training with opsd (default %(default)s)")
    parser.add_argument("--out", type=Path, default=PROJECT / "var/self_distillation")
    options = parser.parse_args()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    print("| model | right | right with the solution in the prompt |\n|---|--:|--:|", flush=True)
    print(f"| the embedded model | {score(SHIPPED)} |", flush=True)
    model = teach(out / "model", options.updates)
    print(f"| after it has learned to use a solution | {score(model)} |", flush=True)
    targets = prepare(out / "targets", TARGETS)
    for teacher in (BASE, SELF):
        for seed in options.seeds:
            policy = train(out / f"{teacher}-{seed}", model, targets, teacher, seed, options.steps)
            print(f"| `opsd`, teacher `{teacher}`, seed {seed} | {score(policy)} |", flush=True)


if __name__ == "__main__":
    main()
