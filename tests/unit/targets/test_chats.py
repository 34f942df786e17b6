"""Chats: one question and its answer, in any spelling; several turns are rejected, never paired wrongly."""

import json
from typing import Any

import pytest

from tests.unit.targets.test_sources import read

THOUGHT = "<think>\nseven and one\n</think>\n\n\\boxed{8}"


def said(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


USER, ANSWER = said("user", "What is 7+1?"), said("assistant", THOUGHT)
PARTS = [{"type": "text", "text": "What is "}, {"type": "input_text", "text": "7+1?"}]
THOUGHT_PARTS = [{"type": "thinking", "thinking": "seven and one"}, {"type": "text", "text": "\\boxed{8}"}]
HIDDEN = {"type": "reasoning.encrypted", "data": "Zm9v"}
DETAILS = [{"type": "reasoning.text", "text": "seven and one", "format": None}]


@pytest.mark.parametrize(
    "messages",
    [
        [USER, ANSWER],
        [{"from": "human", "value": "What is 7+1?"}, {"from": "gpt", "value": THOUGHT}],
        [said("user", PARTS), said("assistant", [{"type": "output_text", "text": THOUGHT}])],
        [USER, said("assistant", THOUGHT_PARTS)],
        [USER, said("assistant", "\\boxed{8}", reasoning_content="seven and one", tool_calls=[])],
        [USER, said("assistant", "\\boxed{8}", reasoning=DETAILS)],
        [USER, said("assistant", "\\boxed{8}", reasoning_details=[*DETAILS, HIDDEN])],
        [USER, said("assistant", THOUGHT, reasoning_content="seven and one")],
        json.dumps([USER, ANSWER]),
        "\n [ " + json.dumps(USER) + "," + json.dumps(ANSWER) + "]",
    ],
)
def test_one_turn_in_any_spelling_is_one_trace(jsonl: Any, messages: Any) -> None:
    (trace,) = read(jsonl({"messages": messages, "answer": "8"}))
    assert (trace.reasons, trace.problem, trace.response) == ([], "What is 7+1?", THOUGHT), trace.detail


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_are_the_system_message(jsonl: Any, role: str) -> None:
    (trace,) = read(jsonl({"messages": [said(role, "Be brief."), USER, ANSWER], "answer": "8"}))
    assert (trace.system, trace.problem) == ("Be brief.", "What is 7+1?")


@pytest.mark.parametrize(
    ("messages", "detail"),
    [
        ([USER, ANSWER, said("user", "Are you sure?")], "user, assistant, user"),
        ([USER, ANSWER, said("user", "Thanks."), said("assistant", "\\boxed{0}")], "user, assistant, user, assistant"),
        ([said("user", "Let a be 7."), USER, ANSWER], "user, user, assistant"),
        ([USER, said("system", "Be brief."), ANSWER], "user, system, assistant"),
        (
            [USER, said("assistant", None, tool_calls=[{"name": "add"}]), said("tool", "8"), ANSWER],
            "it calls add: name",
        ),
        ([USER, said("assistant", None, tool_calls=["add"]), said("tool", "8"), ANSWER], "it calls a tool: name"),
        ([USER, said("assistant", [{"type": "tool_use", "name": "add"}])], "it calls add: name"),
        ([{"from": "human", "value": "a"}, {"from": "observation", "value": "b"}], "user, observation"),
        ([USER, ANSWER] * 9, "…"),
        (json.dumps([USER, ANSWER, USER]), "user, assistant, user"),
    ],
)
def test_several_turns_and_tools_are_rejected_by_name(jsonl: Any, messages: Any, detail: str) -> None:
    (trace,) = read(jsonl({"messages": messages, "answer": "8"}))
    assert trace.reasons == ["several_turns"] and detail in (trace.detail or ""), trace.detail


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([USER], "no_response"),
        ([ANSWER], "no_problem"),
        ([USER, said("assistant", "")], "no_response"),
        ([USER, "text"], "wrong_type"),
        ([USER, {"speaker": "model"}], "wrong_type"),
        ([said("user", [{"type": "image_url", "image_url": "x"}]), ANSWER], "wrong_type"),
        ("[{'role': 'user', 'content': 'What is 7+1?'}]", "wrong_type"),
        (json.dumps([USER, ANSWER])[:-3], "wrong_type"),
    ],
)
def test_what_is_missing_in_a_chat_is_named(jsonl: Any, messages: Any, reason: str) -> None:
    (trace,) = read(jsonl({"messages": messages, "answer": "8"}))
    assert trace.reasons == [reason], trace.detail


def luffy(**changes: Any) -> dict[str, Any]:
    return {"prompt": [USER], "target": [ANSWER], "reward_model": {"ground_truth": "8", "style": "rule"}, **changes}


def test_a_prompt_that_is_a_text_gives_no_system_message(jsonl: Any) -> None:
    texts = luffy(prompt="What is 7+1?", target=THOUGHT)
    as_json = luffy(prompt=json.dumps([said("system", "Think."), USER]), target=json.dumps([ANSWER]))
    as_json["reward_model"] = json.dumps(as_json["reward_model"])
    traces = read(jsonl(texts, as_json, luffy(prompt=PARTS, target=ANSWER), luffy(prompt=[*luffy()["prompt"]])))
    for trace in traces:
        assert (trace.reasons, trace.problem, trace.gold, trace.response) == ([], "What is 7+1?", "8", THOUGHT)
    assert [trace.system for trace in traces] == [None, "Think.", None, None]


def test_thoughts_in_a_column_beside_the_response_are_read_where_they_are(jsonl: Any) -> None:
    row = {"problem": "What is 7+1?", "answer": "8"}
    beside = {**row, "response": "\\boxed{8}", "reasoning_content": "seven and one"}
    both = {**row, "response": THOUGHT, "reasoning_content": "seven and one"}
    neither = {**row, "response": THOUGHT, "reasoning_content": None}
    several = {**row, "response": ["\\boxed{8}", THOUGHT], "reasoning_content": ["seven and one", None]}
    traces = read(jsonl(beside, both, neither, several))
    assert [trace.response for trace in traces] == [THOUGHT] * 5
    empty = read(jsonl({**row, "response": "\\boxed{8}", "cot": ""}), mapping=mapping_with("cot"))
    assert empty[0].reasons == ["no_reasoning"]


def mapping_with(column: str) -> dict[str, str]:
    return {"problem": "problem", "answer": "answer", "response": "response", "reasoning": column}
