"""Train the embedded base model: ``python -m research.shipped_weights.base_model --out DIR``.

It takes about half an hour on one core.

Writes ``DIR/model`` (a Hugging Face folder) and ``DIR/training_record.json``: recipe, digests, versions, time and
scores.
"""

import platform
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
import transformers
import typer
from tokenizers import pre_tokenizers
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from core.arithmetic import is_held_out, random_expression, teacher_trace, work_out, write
from core.arithmetic import problems as draw_problems
from core.cli import run_command
from core.errors import InputError
from core.files import digest_file, read_yaml, write_json
from core.model.episodes import encode_example
from core.model.model_folder import model_digest
from core.model.prompts import messages, render_prompt
from pipelines.api import Item, open_verifier, parse_spec
from research.shipped_weights.pretrain import Schedule, batches, fit, progress_bar, save

RECIPE = Path(__file__).parent / "recipe.yaml"
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Component(NamedTuple):
    """A share ``weight`` of the samples: expressions of ``terms`` numbers (inclusive range) with ``products`` products.

    A share ``written`` of them writes the steps; the others answer at once, after an empty think block.
    """

    terms: tuple[int, int]
    products: int
    weight: float
    written: float


def stream(components: list[Component], rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield endless (problem, response) pairs without held-out expressions."""
    weights = [component.weight for component in components]
    while True:
        component = rng.choices(components, weights)[0]
        expression = random_expression(
            rng, max(rng.randint(*component.terms), component.products + 1), component.products
        )
        if is_held_out(expression):
            continue
        steps = work_out(expression)
        written = rng.random() < component.written
        yield f"{write(expression)}=?", teacher_trace(steps if written else [], str(steps[-1].result))


def byte_tokenizer() -> Qwen2Tokenizer:
    """256 bytes and the three special tokens of ChatML; a newline is one token, as verl needs.

    It is a ``Qwen2Tokenizer`` without merges, because transformers 5 builds that class for ``model_type: qwen2`` no
    matter what the saved tokenizer says.
    """
    symbols = [PAD, START, END, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Qwen2Tokenizer(
        vocab={symbol: index for index, symbol in enumerate(symbols)},
        merges=[],
        unk_token=None,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[PAD, START, END],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def new_model(tokenizer: Qwen2Tokenizer, sizes: dict[str, int]) -> Qwen2ForCausalLM:
    """Return a Qwen2 of ``sizes`` with random weights for the tokens of ``tokenizer``."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **sizes,
    )
    return Qwen2ForCausalLM(config)


def teach(model: PreTrainedModel, tokenizer: Qwen2Tokenizer, recipe: dict[str, Any]) -> None:
    """Train ``model`` in the phases of ``recipe``. Each has the same seed, so that it can be repeated alone."""
    for phase in recipe["phases"]:
        rng = random.Random(recipe["seed"])
        mixture = [Component(**component) for component in phase["mixture"]]
        examples = (
            encode_example(messages(problem), response, tokenizer) for problem, response in stream(mixture, rng)
        )
        schedule = Schedule(**phase["schedule"])
        with progress_bar(phase["name"], schedule.steps) as on_step:
            fit(model, batches(examples, recipe["batch_size"], rng), schedule, on_step)


@torch.no_grad()
def answer(model: PreTrainedModel, tokenizer: Qwen2Tokenizer, questions: list[str], max_new_tokens: int) -> list[str]:
    """Return the most probable response to each question."""
    prompts = [render_prompt(messages(question), tokenizer) for question in questions]
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
    output = model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False)
    return tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def measure(
    model: PreTrainedModel, tokenizer: Qwen2Tokenizer, splits: list[str], problems: int, seed: int, max_new_tokens: int
) -> dict[str, dict[str, float]]:
    """Return the shares of ``problems`` problems per split that are answered correctly and worked out in writing."""
    scores = {}
    with open_verifier(parse_spec("math", "measure"), workers=1) as verifier:
        for split in splits:
            drawn = draw_problems(split, problems, seed)
            responses = answer(model, tokenizer, [problem.problem for problem in drawn], max_new_tokens)
            items = [Item(response, problem.answer) for response, problem in zip(responses, drawn, strict=True)]
            grades = verifier.verify_many(items)
            scores[split] = {
                "correct": sum(grade.score for grade in grades) / problems,
                "written": sum("=" in response for response in responses) / problems,
            }
    return scores


def make(out: Path, file: Path) -> None:
    """Train the model of the recipe in ``file``, save it in ``out / "model"`` and write ``training_record.json``."""
    started, recipe = time.monotonic(), read_yaml(file, "recipe")
    torch.manual_seed(recipe["seed"])
    tokenizer = byte_tokenizer()
    model = new_model(tokenizer, recipe["model"])
    teach(model, tokenizer, recipe)
    scores = measure(model, tokenizer, **recipe["measure"])
    save(model, tokenizer, out / "model")
    record = {
        "recipe": recipe,
        "recipe_sha256": digest_file(file),
        "model_digest": model_digest(out / "model"),
        "parameters": model.num_parameters(),
        "scores": scores,
        "seconds": round(time.monotonic() - started),
        "threads": torch.get_num_threads(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }
    write_json(record, out / "training_record.json")


def command(out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to create.")]) -> None:
    """Train the embedded base model, which takes about half an hour on one core."""
    if out.exists():
        raise InputError(f"{out}: exists already: give the name of a new folder")
    out.mkdir(parents=True)
    make(out, RECIPE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 2 for a mistake in the input."""
    return run_command(command, arguments, "python -m research.shipped_weights.base_model")


if __name__ == "__main__":
    sys.exit(main())
