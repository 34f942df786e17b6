"""Bad inputs of generation that only the training interpreter can tell. To add one, add a row."""

import pytest
from rows import GONE, Row, name

GENERATE = "evaluation generate --suite suite.parquet --out out --model"
TRACES = "evaluation traces --teacher teacher@http://127.0.0.1:9/v1 --problems p.jsonl --out traces.parquet"
PROBLEM = '{"problem": "2+2", "answer": "4"}'

ROWS: list[Row] = [
    (f"{GENERATE} no/such-model", {}, "model 'no/such-model' is not a folder here"),
    (
        f"{GENERATE} model --set evaluation.tensor_parallel=2",
        {},
        "tensor_parallel: 2 GPUs per engine, and torch here is a CPU build",
    ),
    (f"{GENERATE} model", {"model/chat_template.jinja": GONE}, "the tokenizer has no chat template"),
    (f"{GENERATE} tiny@http://127.0.0.1:9/v1", {}, "tiny@http://127.0.0.1:9/v1: the endpoint cannot be reached"),
    (f"{GENERATE} tiny@https://me:secret@127.0.0.1/v1", {}, "give the key in the variable OPENAI_API_KEY"),
    (TRACES, {"p.jsonl": '{"question": "2+2", "answer": "4"}'}, "row 1: column problem: expected text, found None"),
    (TRACES, {"p.jsonl": '{"problem": "2+2", "answer": null}'}, "row 1: column answer: expected text, found None"),
    (TRACES, {"p.jsonl": ""}, "no problems"),
    (f"{TRACES} --set generate.budget_money=1", {"p.jsonl": PROBLEM}, "give the input price and the output price"),
    (f"{TRACES} --budget-tokens 0", {"p.jsonl": PROBLEM}, "--budget-tokens"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS, ids=name)
def test_one_line_says_what_to_do(row, refuse):
    refuse(row)


@pytest.mark.parametrize("row", ROWS[4:5], ids=name)
def test_the_process_that_a_user_starts_ends_in_the_same_way(row, refuse_process):
    refuse_process(row)
