"""Bad models that answer benchmarks. To add one, add a row."""

import pytest
from rows import DEEP, GONE, Row, name, safetensors

GENERATE = "evaluation generate --suite suite.parquet --out out --model"


ROWS: list[Row] = [
    (f"{GENERATE} model", {"model/config.json": "[]"}, "config.json: a JSON list"),
    (f"{GENERATE} model", {"model/config.json": "{}"}, "config.json: no model_type"),
    (f"{GENERATE} model", {"model/config.json": DEEP}, "config.json: nested too deep"),
    (f"{GENERATE} model", {"model/config.json": GONE}, "no config.json in it"),
    (
        f"{GENERATE} model",
        {"model/tokenizer_config.json": '{"eos_token": null}'},
        "tokenizer_config.json: no eos_token",
    ),
    (
        f"{GENERATE} model --set 'evaluation.chat_template_kwargs={{thinking: 1}}'",
        {},
        "chat_template_kwargs.thinking: the chat template",
    ),
    (f"{GENERATE} model", {"model/tokenizer_config.json": "{"}, "tokenizer_config.json: not JSON"),
    (f"{GENERATE} model", {"model/tokenizer.json": "{"}, "tokenizer.json: not "),
    (f"{GENERATE} model", {"model/tokenizer.json": GONE}, "no tokenizer; expected one of tokenizer.json"),
    (f"{GENERATE} model", {"model/model.safetensors": GONE}, "no weights; expected model.safetensors"),
    (f"{GENERATE} model", {"model/model.safetensors": safetensors(b"{")}, "no readable safetensors header"),
    (f"{GENERATE} model", {"model/model.safetensors": safetensors(b'{"a": {"data_offsets": ["0", "x"]}}')}, "no reada"),
    (
        f"{GENERATE} model",
        {"model/model.safetensors": safetensors(b'{"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}')},
        "says",
    ),
    (f"{GENERATE} model", {"model/model.safetensors.index.json": '{"weight_map": []}'}, "index.json: "),
    (f"{GENERATE} model", {"model/chat_template.jinja": "{{ raise_exception('no') }}"}, "chat template"),
    (f"{GENERATE} policy", {"policy/lineage.json": "{"}, "lineage.json"),
    (f"{GENERATE} model --benchmarks nothing", {}, "benchmark nothing: not in the suite, which has arithmetic"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS, ids=name)
def test_one_line_says_what_to_do(row, refuse):
    refuse(row)
