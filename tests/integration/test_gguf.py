"""GGUF files become the model folders that they were written from."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the training interpreter")
pytest.importorskip("transformers", reason="needs the training interpreter")

from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from core.model.base_model import SHIPPED  # noqa: E402
from core.model.model_folder import check_model  # noqa: E402
from training.export.convert import convert  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shipped():
    return AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32), AutoTokenizer.from_pretrained(SHIPPED)


def ask(problem: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": problem}]


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
    ],
    ids=["cut", "key", "array"],
)
def test_a_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "damaged.gguf"
    file.write_bytes(content)
    command = [sys.executable, "-m", "training.export.convert", file, tmp_path / "model"]
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
