"""Whether the weights, the tokenizer and the config.json of a folder are of one model; each fault has one message."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from core.errors import InputError
from core.files import read_object, write_json
from core.model.architecture import EMBEDDING, LM_HEAD
from core.model.model_folder import check_model
from core.model.prompts import messages
from core.model.token_counts import load_lengths
from core.model.weights import read_tensors

BASE = Path(__file__).resolve().parents[3] / "training/embedded_model/model"  # a qwen2 with a tied head, in float32
WEIGHTS = "model.safetensors"
Damage = Callable[[Path], object]
Arrays = dict[str, np.ndarray]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the embedded model."""
    return Path(shutil.copytree(BASE, tmp_path / "model"))


def arrays(folder: Path) -> Arrays:
    return {
        name: np.frombuffer(b"".join(tensor.pieces()), np.float32).reshape(tensor.shape)
        for name, tensor in read_tensors(folder).items()
    }


def save(tensors: Mapping[str, np.ndarray], file: Path) -> None:
    types = {"float32": "F32", "float16": "F16", "int8": "I8"}
    header, data = {}, b""
    for name, array in tensors.items():
        start, data = len(data), data + array.tobytes()
        header[name] = {
            "dtype": types[str(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [start, len(data)],
        }
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def weights(change: Callable[[Arrays], Mapping[str, np.ndarray]]) -> Damage:
    return lambda folder: save(change(arrays(folder)), folder / WEIGHTS)


def renamed(change: Callable[[str], str]) -> Damage:
    return weights(lambda tensors: {change(name): array for name, array in tensors.items()})


def without(pattern: str) -> Damage:
    return weights(lambda tensors: {name: array for name, array in tensors.items() if not re.search(pattern, name)})


def more(**arrays: np.ndarray) -> Damage:
    return weights(lambda tensors: {**tensors, **{name.replace("__", "."): array for name, array in arrays.items()}})


def filled(name: str, value: float) -> Damage:
    return weights(lambda tensors: {**tensors, name: np.full_like(tensors[name], value)})


def every(change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    return weights(lambda tensors: {name: change(array) for name, array in tensors.items()})


def config(**changes: object) -> Damage:
    return edit("config.json", **changes)


def edit(name: str, **changes: object) -> Damage:
    return lambda folder: write_json(read_object(folder / name) | changes, folder / name)


def head(scale: float) -> Damage:
    return weights(lambda tensors: {**tensors, LM_HEAD: scale * tensors[EMBEDDING]})


def padded(rows: int) -> Damage:
    def damage(folder: Path) -> None:
        weights(lambda tensors: {**tensors, EMBEDDING: np.resize(tensors[EMBEDDING], (rows, 128))})(folder)
        config(vocab_size=rows)(folder)

    return damage


def added(token: str, number: int, template: str = "") -> Damage:
    def damage(folder: Path) -> None:
        tokens = read_object(folder / "tokenizer.json")["added_tokens"]
        entry = tokens[0] | {"content": token, "id": number}
        edit("tokenizer.json", added_tokens=[*tokens, entry])(folder)
        file = folder / "chat_template.jinja"
        file.write_text(file.read_text() + template)

    return damage


def sharded(folder: Path) -> None:
    """Two files and their index, as `save_pretrained` writes a large model."""
    tensors, parts = arrays(folder), {}
    (folder / WEIGHTS).unlink()
    for number, names in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2])):
        name = f"model-{number + 1:05}-of-00002.safetensors"
        save({key: tensors[key] for key in names}, folder / name)
        parts |= dict.fromkeys(names, name)
    write_json({"weight_map": parts}, folder / f"{WEIGHTS}.index.json")


def then(*damages: Damage) -> Damage:
    return lambda folder: [damage(folder) for damage in damages]


def index(change: Callable[[dict[str, str]], object]) -> Damage:
    def damage(folder: Path) -> None:
        sharded(folder)
        file = folder / f"{WEIGHTS}.index.json"
        parts = read_object(file)["weight_map"]
        change(parts)
        write_json({"weight_map": parts}, file)

    return damage


def renamed_to_bin(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


CUTS_THOUGHTS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)

NOT_THOSE = "its weights do not belong to the qwen2 in its config.json: "
GPTQ = {"quant_method": "gptq", "bits": 4}
UP = "model.layers.1.mlp.up_proj.weight"
FAULTS: dict[str, tuple[Damage, str]] = {
    "PEFT": (renamed("base_model.model.{}".format), "all 38 tensors have 'base_model.model' in them"),
    "a tensor lost": (without("1.mlp.up_proj"), f"{NOT_THOSE}1 missing ({UP}): copy config.json and weights from"),
    "no head": (config(tie_word_embeddings=False), f"1 missing ({LM_HEAD})"),
    "a layer more": (config(num_hidden_layers=2), "12 too many (model.layers.2.input_layernorm.weight, "),
    "another shape": (
        weights(lambda tensors: {**tensors, UP: tensors[UP].T.copy()}),
        f"{UP} is [128, 256] and should be [256, 128]",
    ),
    "another head": (head(2), f"{LM_HEAD} is another matrix than {EMBEDDING}: training"),
    "no numbers": (filled(UP, np.nan), f"{UP} has values that are not finite"),
    "zeros": (filled(UP, 0), f"{UP} is zero throughout"),
    "integers": (every(lambda array: array.astype(np.int8)), "is I8 and should be one of F64, F32, F16, BF16"),
    "quantized": (config(quantization_config=GPTQ), "quantized weights (gptq), which cannot be trained"),
    "quantized by AutoGPTQ": (
        lambda folder: write_json(GPTQ, folder / "quantize_config.json"),
        "quantized weights (GPTQ or AWQ), which cannot be trained",
    ),
    "an adapter": (lambda folder: write_json({}, folder / "adapter_config.json"), "an adapter next to the weights"),
    "weights twice": (
        lambda folder: shutil.copyfile(folder / WEIGHTS, folder / "consolidated.safetensors"),
        "consolidated.safetensors: vLLM loads it as well as model.safetensors",
    ),
    "whole and sharded": (
        then(sharded, lambda folder: shutil.copyfile(BASE / WEIGHTS, folder / WEIGHTS)),
        "model.safetensors: transformers loads it, and vLLM the files of",
    ),
    "no index": (then(sharded, lambda folder: (folder / f"{WEIGHTS}.index.json").unlink()), "no weights; expected"),
    "index of another model": (index(lambda parts: parts.pop(UP)), "1 tensors are in model-0000"),
    "rubbish in safetensors": (lambda folder: (folder / WEIGHTS).write_bytes(bytes(range(256)) * 9), "no readable"),
    "weights in .bin": (renamed_to_bin, "no weights; expected model.safetensors, or model.safetensors.index.json"),
    "tokens beyond the embedding": (
        then(weights(lambda tensors: {**tensors, EMBEDDING: tensors[EMBEDDING][:200]}), config(vocab_size=200)),
        "its tokenizer has tokens beyond the 200 rows of the embedding (vocab_size): 59, ",
    ),
    "a token of the template": (added("<|turn|>", 259, "<|turn|>"), "such as '<|turn|>' with the id 259"),
    "a token for padding": (edit("tokenizer_config.json", pad_token="[PAD]"), "such as '[PAD]' with the id 259"),
}  # fmt: skip
SOUND: dict[str, Damage] = {
    "float16": every(lambda array: array.astype(np.float16)),
    "padded vocabulary": padded(320),
    "a head that is the embedding": head(1),
    "sharded": sharded,
    "older buffers": more(model__layers__0__self_attn__rotary_emb__inv_freq=np.ones(16, np.float32)),
    "a token that nothing uses": added("<image_soft_token>", 259),
    "a template that cuts thoughts": lambda folder: (folder / "chat_template.jinja").write_text(CUTS_THOUGHTS),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_model_that_is_not_one_is_refused_by_name(name: str, model: Path) -> None:
    damage, message = FAULTS[name]
    damage(model)
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        check_model(model)
    assert str(model) in str(refused.value) and len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", SOUND)
def test_a_model_that_is_one_is_taken(name: str, model: Path) -> None:
    SOUND[name](model)
    check_model(model)
    check_model(model, "sample")


def test_a_quantized_model_may_be_sampled(model: Path) -> None:
    config(quantization_config=GPTQ)(model)
    renamed(lambda name: name.replace("proj.weight", "proj.qweight"))(model)
    check_model(model, "sample")


def test_thoughts_that_a_template_cuts_are_trained_on(model: Path) -> None:
    SOUND["a template that cuts thoughts"](model)
    lengths = load_lengths(model)
    target = [{"role": "assistant", "content": "<think>\n1+1\n</think>\n\n2"}]
    tokens = lengths.encode_target(messages("1+1=?"), target)
    assert lengths.tokenizer.decode(tokens[:-1]).startswith("<think>\n1+1\n</think>")
