"""The embedded base model and the path that makes it: tokenizer, mixture, fine-tuning, GGUF conversion."""

import json
import random
import struct
import subprocess
import sys
import unicodedata
from itertools import islice
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the training interpreter")
pytest.importorskip("transformers", reason="needs the training interpreter")

import yaml  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Tokenizer  # noqa: E402

from core.arithmetic import is_held_out, problems  # noqa: E402
from core.files import digest_file  # noqa: E402
from core.model.base_model import SHIPPED  # noqa: E402
from core.model.model_folder import check_model, model_digest  # noqa: E402
from core.model.prompts import encode_example  # noqa: E402
from research.shipped_weights.base_model import (  # noqa: E402
    RECIPE,
    Component,
    answer,
    byte_tokenizer,
    make,
    measure,
    stream,
)
from research.shipped_weights.pretrain import Schedule, batches, collate, fit, log_probs  # noqa: E402
from training.export.convert import convert  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = byte_tokenizer()


@pytest.fixture(scope="module")
def shipped():
    """The shipped model and its tokenizer; tests that train load their own."""
    return AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32), AutoTokenizer.from_pretrained(SHIPPED)


def ask(problem: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": problem}]


@given(st.text())
def test_every_text_survives_the_tokenizer(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)  # Qwen2's tokenizer composes characters first
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == composed
    assert len(TOKENIZER.encode(text)) <= len(composed.encode())


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


def test_batches_use_every_example_once() -> None:
    examples = [encode_example(ask(problem.problem), problem.trace, TOKENIZER) for problem in problems("train", 50)]
    rng = random.Random(0)
    batched = [example for batch in batches(examples, 8, rng) for example in batch]
    assert sorted(batched) == sorted(examples)


@pytest.mark.slow
def test_fine_tuning_teaches_the_habit(shipped) -> None:
    _, tokenizer = shipped
    model = AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32)
    rng = random.Random(0)
    examples = [encode_example(ask(problem.problem), problem.trace, tokenizer) for problem in problems("train", 200)]
    losses = []
    stream = batches(examples * 4, 16, rng)
    fit(model, stream, Schedule(40, 1e-4), lambda step, loss: losses.append(loss))
    assert len(losses) == 40 and sum(losses[-5:]) < sum(losses[:5]) / 2
    responses = answer(model, tokenizer, [problem.problem for problem in problems("test", 20)], 128)
    assert sum("=" in response for response in responses) >= 18


def test_a_recipe_makes_the_same_model_twice(tmp_path: Path) -> None:
    recipe = yaml.safe_load(RECIPE.read_text())
    recipe["batch_size"], recipe["measure"]["problems"] = 4, 2
    for phase in recipe["phases"]:
        phase["schedule"]["steps"] = 2
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe))
    for name in "ab":
        make(tmp_path / name, file)
    torch.set_num_threads(threads)
    assert model_digest(tmp_path / "a" / "model") == model_digest(tmp_path / "b" / "model")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"model", "training_record.json"}
    record = json.loads((tmp_path / "a" / "training_record.json").read_text())
    assert (record["recipe"], record["recipe_sha256"]) == (recipe, digest_file(file))


def test_a_gguf_file_becomes_the_model_it_was_written_from(shipped, tmp_path: Path) -> None:
    model, tokenizer = shipped
    write_gguf(model, tokenizer, tmp_path / "tiny.gguf")
    convert(tmp_path / "tiny.gguf", tmp_path / "model")
    check_model(tmp_path / "model")
    converted = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    again = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert again.eos_token == again.pad_token == "<|im_end|>"  # the file says <|im_start|>, as SmolLM2's does
    assert converted.generation_config.eos_token_id == converted.config.eos_token_id == again.eos_token_id
    text = again.apply_chat_template(ask("3+4-5=?"), add_generation_prompt=True, tokenize=False)
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
    assert again.encode(text, add_special_tokens=False) == ids[0].tolist()
    with torch.no_grad():
        assert torch.allclose(converted(ids).logits[..., : len(tokenizer)], model(ids).logits, atol=1e-4)


HEAD = b"GGUF" + struct.pack("<I", 3)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(HEAD + bytes(4), marks=pytest.mark.slow),
        HEAD + struct.pack("<QQQ", 0, 1, 2**50) + b"x",  # one entry, whose key has 2**50 characters
        pytest.param(  # an array of 2**50 numbers, which are read until the memory is full
            HEAD + struct.pack("<QQQ", 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 4, 2**50), marks=pytest.mark.slow
        ),
        pytest.param(  # nested
            HEAD + struct.pack("<QQQ", 0, 1, 1) + b"a" + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 3000,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["cut", "key", "array", "nested"],
)
def test_a_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "damaged.gguf"
    file.write_bytes(content)
    command = [sys.executable, "-m", "training.export.convert", "--gguf", file, "--out", tmp_path / "model"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and not (tmp_path / "model").exists()
    assert done.stderr.strip().splitlines()[-1].startswith(f"error: {file}: transformers cannot")


def write_gguf(model, tokenizer, path: Path) -> None:
    """``model`` as llama.cpp would store it, with the wrong end-of-sequence token that SmolLM2's file has."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(str(path), "qwen2")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    # transformers cannot read a list of fewer than two merges: add two, of control bytes that no text has.
    left, right = "\u0100", "\u0101"
    extra = [left + right, right + left]
    tokens = [*sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get), *extra]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in tokenizer.all_special_tokens else 1 for token in tokens])
    writer.add_token_merges([f"{left} {right}", f"{right} {left}"])
    writer.add_bos_token_id(tokens.index("<|im_start|>"))
    writer.add_eos_token_id(tokens.index("<|im_start|>"))
    writer.add_chat_template(tokenizer.chat_template)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "model.embed_tokens.weight":
            tensor = torch.cat([tensor, torch.zeros(len(extra), config.hidden_size)])
        if name != "lm_head.weight":  # tied to the embedding
            stem, suffix = name.rsplit(".", 1)
            writer.add_tensor(f"{names.get_name(stem)}.{suffix}", tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
