"""The text of a call says the call again, and what is no call says why."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model.calls import Call, Format, read_calls, rewrite_calls, write_calls

NAMES = "sum", "code"
SCHEMAS = [{"function": {"name": name, "parameters": {"properties": {"text": {"type": "string"}}}}} for name in NAMES]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.sampled_from(["</tool_call>", "</think>"])
VALUES = st.recursive(TEXTS | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=4)
CALLS = st.builds(lambda *of: Call(*of), st.sampled_from(NAMES), st.dictionaries(TEXTS, VALUES, max_size=3))
PLAIN = st.builds(lambda name, text: Call(name, {"text": text.replace("<", "")}), st.sampled_from(NAMES), TEXTS)


@settings(max_examples=60)
@given(st.data(), st.sampled_from(["hermes", "llama", "tags"]))
def test_a_written_call_is_read_again(data: st.DataObject, form: Format) -> None:
    calls = data.draw(st.lists(PLAIN if form == "tags" else CALLS, min_size=1, max_size=3))
    text = write_calls(calls, form)
    assert read_calls(text, form, SCHEMAS) == calls
    if form != "llama":  # of which a call is the whole turn
        assert read_calls(f"<think>\n{text} or not\n</think>\n\nI ask {text} now", form, SCHEMAS) == calls


@settings(max_examples=60)
@given(st.lists(PLAIN, min_size=1, max_size=3), *[st.sampled_from(["hermes", "llama", "tags"])] * 2)
def test_a_turn_says_the_same_in_another_format(calls: list[Call], old: Format, new: Format) -> None:
    thoughts, asks = "<think>\nno <sum>1</sum>\n</think>", "" if old == "llama" else "I ask"
    written = rewrite_calls(f"{thoughts}{asks}{write_calls(calls, old)}", old, new, SCHEMAS)
    assert written.startswith(f"{thoughts}{asks}")
    said = written.removeprefix(f"{thoughts}{asks}") if new == "llama" else written
    assert read_calls(said, new, SCHEMAS) == calls
    assert rewrite_calls("<sum>1", "tags", "hermes", SCHEMAS) == "<sum>1"


@pytest.mark.parametrize(
    ("text", "form", "problems"),
    [
        ("<tool_call>{1}</tool_call>", "hermes", ["the call is not JSON"]),
        ('<tool_call>{"name": "sum"', "hermes", ["no </tool_call> after <tool_call>"]),
        ("<tool_call>[]</tool_call><tool_call>3</tool_call>", "hermes", ['expected {"name": …'] * 2),
        ('{"name": "sum", "parameters": 3}', "llama", ['expected {"name": …']),
        ("{oh", "llama", ["the call is not JSON"]),
        ("<sum>1+1", "tags", ["no </sum> after <sum>"]),
        ("<other>1+1</other> sum", "tags", []),
    ],
)
def test_what_is_no_call_says_why(text: str, form: Format, problems: list[str]) -> None:
    calls = read_calls(text, form, SCHEMAS)
    assert len(calls) == len(problems)
    assert all(call.problem.startswith(problem) for call, problem in zip(calls, problems, strict=True))
