"""The embedded base model and the path that makes it: tokenizer, mixture, loss."""

import random
from itertools import islice

import pytest

torch = pytest.importorskip("torch", reason="needs the training interpreter")
pytest.importorskip("transformers", reason="needs the training interpreter")

from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Tokenizer  # noqa: E402

from core.arithmetic import is_held_out, problems  # noqa: E402
from core.model.base_model import SHIPPED  # noqa: E402
from core.model.episodes import encode_example  # noqa: E402
from research.shipped_weights.base_model import (  # noqa: E402
    Component,
    byte_tokenizer,
    measure,
    stream,
)
from research.shipped_weights.pretrain import collate, log_probs  # noqa: E402

TOKENIZER = byte_tokenizer()


@pytest.fixture(scope="module")
def shipped():
    """The shipped model and its tokenizer; tests that train load their own."""
    return AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32), AutoTokenizer.from_pretrained(SHIPPED)


def ask(problem: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": problem}]


def test_the_shipped_tokenizer_is_what_verl_and_transformers_expect(shipped) -> None:
    model, tokenizer = shipped
    assert type(tokenizer) is Qwen2Tokenizer  # transformers builds this class for qwen2, whatever was saved
    assert tokenizer.get_vocab() == TOKENIZER.get_vocab()
    assert model.config.vocab_size == len(tokenizer)
    assert len(tokenizer.encode("\n")) == len(tokenizer.encode("<|im_end|>")) == 1
    assert tokenizer.eos_token == "<|im_end|>" and model.generation_config.eos_token_id == tokenizer.eos_token_id
    rendered = tokenizer.apply_chat_template(ask("1+2=?"), add_generation_prompt=True, tokenize=False)
    assert rendered == "<|im_start|>user\n1+2=?<|im_end|>\n<|im_start|>assistant\n"


def test_the_base_has_the_skill_but_not_the_habit(shipped) -> None:
    model, tokenizer = shipped
    scores = measure(model, tokenizer, ["test", "short"], problems=100, seed=7, max_new_tokens=128)
    assert scores["test"]["correct"] <= 0.15 and scores["test"]["written"] <= 0.05
    assert scores["short"]["correct"] >= 0.9
    # Begun for it, it goes on in writing and mostly gets there.
    drawn = problems("test", 50, seed=7)
    begun = [begin(tokenizer, problem.problem, problem.trace) for problem in drawn]
    inputs = tokenizer(begun, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
    with torch.no_grad():
        output = model.generate(**inputs, max_new_tokens=128, do_sample=False)
    right = sum(
        text.strip().endswith(f"\\boxed{{{problem.answer}}}")
        for text, problem in zip(tokenizer.batch_decode(output, skip_special_tokens=True), drawn, strict=True)
    )
    assert right >= 30


def begin(tokenizer, problem: str, trace: str) -> str:
    prompt = tokenizer.apply_chat_template(ask(problem), add_generation_prompt=True, tokenize=False)
    return prompt + trace[: trace.index("=") + 1]


def test_the_mixture_holds_no_evaluation_problem_and_keeps_its_shares() -> None:
    components = [Component((5, 7), 0, 3, 0.1), Component((2, 4), 1, 1, 1.0)]
    samples = list(islice(stream(components, random.Random(0)), 4000))
    assert samples == list(islice(stream(components, random.Random(0)), 4000))
    expressions = [tuple(int(c) if c.isdigit() else c for c in problem.removesuffix("=?")) for problem, _ in samples]
    assert not any(is_held_out(expression) for expression in expressions)
    long = [response for problem, response in samples if "*" not in problem]
    assert 0.7 < len(long) / len(samples) < 0.8
    assert 0.08 < sum("=" in response for response in long) / len(long) < 0.12
    assert all("=" in response for problem, response in samples if "*" in problem)


def test_the_loss_counts_responses_only_and_no_padding(shipped) -> None:
    model, tokenizer = shipped
    drawn = problems("train", 6) + problems("short", 6)
    examples = [encode_example(ask(problem.problem), problem.trace, tokenizer) for problem in drawn]
    batch = collate(examples, tokenizer.pad_token_id)
    with torch.no_grad():
        together = log_probs(model, batch)
        for row, (example, problem) in enumerate(zip(examples, drawn, strict=True)):
            mask = batch.response_mask[row]
            assert tokenizer.decode(batch.input_ids[row][mask]) == problem.trace + tokenizer.eos_token
            alone = log_probs(model, collate([example], tokenizer.pad_token_id))[0]
            assert torch.allclose(together[row, : len(alone)], alone, atol=1e-4)
