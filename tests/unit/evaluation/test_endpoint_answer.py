"""Answers of OpenAI-compatible endpoints in the forms that servers give them, and what their errors say."""

import json

import pytest

from evaluation.generation.endpoint_answer import UnreadableAnswer, read_answer, reason_of, with_thoughts

BLOCK = "<think>\nwe add\n</think>\n\n\\boxed{4}"
BOX = r"\boxed{4}"


def raw(message: dict, finish: object = "stop", usage: object = None) -> str:
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})


def text(message: dict) -> str:
    return read_answer(raw(message))[0].response


@pytest.mark.parametrize(
    "message",
    [
        {"content": BLOCK},
        {"content": BOX, "reasoning_content": "we add"},
        {"content": BOX, "reasoning": "we add"},
        {"content": BOX, "thinking": "we add"},
        {"content": BOX, "reasoning": {"text": "we add"}},
        {"content": BOX, "thinking": {"content": "we add", "tokens": 2}},
        {"content": BOX, "reasoning_content": ["we ", {"type": "text", "text": "add"}]},
        {"content": BOX, "reasoning_details": [{"type": "reasoning.text", "text": "we add", "signature": "s"}]},
        {"content": BOX, "reasoning_details": [{"type": "reasoning.summary", "summary": "we add"}]},
        {"content": BOX, "reasoning": "", "reasoning_content": "we add"},
        {"content": BOX, "reasoning": "we add", "reasoning_details": [{"type": "reasoning.text", "text": "we add"}]},
        {"content": [{"type": "text", "text": BOX}], "reasoning": "we add"},
        {"content": [{"type": "thinking", "thinking": [{"text": "we add"}]}, {"type": "text", "text": BOX}]},
        {"content": [{"type": "reasoning", "text": "we add"}, {"type": "output_text", "text": BOX}]},
        {"content": [{"type": "redacted_thinking", "data": "x"}, "<think>\nwe add\n</think>\n\n", BOX]},
        {"content": f"<think>\n\n</think>\n\n{BOX}", "reasoning": "we add"},
        {"content": BLOCK, "reasoning_content": "we add"},
        {"content": {"text": BLOCK}},
    ],
)  # fmt: skip
def test_thoughts_of_every_form_are_one_think_block(message):
    assert text(message) == BLOCK


@pytest.mark.parametrize(
    ("message", "response"),
    [
        ({"content": BOX}, BOX),
        ({"content": None}, ""),
        ({}, ""),
        ({"content": None, "refusal": "I cannot help."}, "I cannot help."),
        ({"content": "", "reasoning": "we add"}, "<think>\nwe add"),  # the limit came before the answer
        ({"content": f"we add</think>{BOX}", "reasoning": "we add"}, f"we add</think>{BOX}"),  # the template opened it
        ({"content": BOX, "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, BOX),
        ({"content": "4 \ud83d"}, "4 \ufffd"),  # half of a character
    ],
)
def test_what_there_is_is_the_answer(message, response):
    assert text(message) == response


def test_an_own_block_is_kept_and_a_second_one_is_not_made():
    assert with_thoughts("<think>a</think>b", "other") == "<think>a</think>b"
    assert with_thoughts("<think></think>b", "other") == "<think>\nother\n</think>\n\nb"
    assert with_thoughts("b", " ") == "b"


@pytest.mark.parametrize(
    "message",
    [
        {"content": [{"type": "image_url", "image_url": {"url": "data:"}}]},
        {"content": [{"type": "tool_use", "name": "python", "input": {}}]},
        {"content": 4},
        {"content": BOX, "reasoning": {"tokens": 12}},
    ],
)
def test_a_form_that_is_not_known_is_no_text(message):
    with pytest.raises(UnreadableAnswer, match="in a form that is not known"):
        read_answer(raw(message))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"error": {"message": "the provider is down", "code": 502}}', ": the provider is down"),
        ('{"choices": [{"error": {"message": "cut off", "code": 502}}]}', ": cut off"),
        ('{"choices": [], "error": "no capacity"}', ": no capacity"),
        ('{"choices": []}', "is it an OpenAI-compatible one?"),
        ("<html>\n<h1>log in</h1></html>", ": <html> <h1>log in</h1></html>"),
        ("[" * 100_000, "without a choice: [[["),
        ('{"choices": [' + '{"error": ' * 400 + "1" + "}" * 400 + "]}", "without a choice"),
        ("4", "is it an OpenAI-compatible one?"),
    ],
)
def test_an_answer_without_a_choice_says_what_the_endpoint_said(body, reason):
    with pytest.raises(UnreadableAnswer) as caught:
        read_answer(body)
    assert reason in str(caught.value) and len(str(caught.value)) < 400 and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"error": {"message": "no credit"}}', "no credit"),
        ('{"error": "no credit"}', "no credit"),
        ('{"message": "no credit", "error": "Bad Request"}', "no credit"),
        ('{"detail": "no credit"}', "no credit"),
        ('{"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs"}]}', "body.seed: Extra inputs"),
        ('{"detail": [{"loc": ["a"], "msg": "x"}, {"loc": ["b", 0], "msg": "y"}]}', "a: x; b.0: y"),
        ('{"errors": [{"title": "no credit"}]}', "no credit"),
        ("no\tcredit\x1b[0m", "no credit [0m"),
        ("{}", ""),
        ('{"error": null}', ""),
    ],
)
def test_the_reason_of_an_error_is_found_where_servers_put_it(body, reason):
    assert reason_of(body) == reason


def test_a_reason_that_is_nested_without_end_is_cut():
    for depth in (300, 900, 5000):
        assert len(reason_of('{"detail": ' * depth + '"x"' + "}" * depth)) <= 300


def test_tokens_and_the_end_are_read_as_they_come():
    usage = {"prompt_tokens": 5, "completion_tokens": 7.0}
    completion, spent = read_answer(raw({"content": BOX}, "MAX_TOKENS", usage))
    assert (completion.finish_reason, completion.tokens, tuple(spent)) == ("length", 7, (5, 7))
    for odd in (None, [], {"prompt_tokens": None, "completion_tokens": "7"}, {"completion_tokens": 1e30}):
        completion, spent = read_answer(raw({"content": BOX}, None, odd))
        assert (completion.finish_reason, tuple(spent)) == ("unknown", (0, 0))
