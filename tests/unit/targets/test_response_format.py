"""Every response format becomes one form; what was cut or glued is rejected."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from targets.read.response_format import Parts, parse_response
from targets.trace import Rejection

ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"
FORM = re.compile(r"<think>\n\S.*\n</think>\n\n\S.*", re.DOTALL)


@pytest.mark.parametrize(
    ("response", "response_format"),
    [
        ("<think>\nwe add\n</think>\n\nso \\boxed{4}", "think"),
        ("<think>we add</think>so \\boxed{4}", "think"),
        ("\nwe add\n</think>\n\nso \\boxed{4}", "think"),  # the opening tag sat in the prompt
        ("<think>we add</think> <answer>so \\boxed{4}</answer>", "think"),
        ("<think>we add</think>so \\boxed{4}<|im_end|>\n", "think"),
        (
            "<|begin_of_thought|>\nwe add\n<|end_of_thought|>\n<|begin_of_solution|>so \\boxed{4}\n<|end_of_solution|>",
            "thought_solution",
        ),
        ("we add\n<|end_of_thought|>\n<|begin_of_solution|>so \\boxed{4}<|end_of_solution|>", "thought_solution"),
        ("<Think>\nwe add\n</Think>\n\nso \\boxed{4}", "tags"),
        ("<thinking>we add</thinking>so \\boxed{4}", "tags"),
        ("<REASONING>we add</REASONING>\n<Answer>so \\boxed{4}</Answer>", "tags"),
        ("we add[/THINK]so \\boxed{4}", "tags"),
        ("\u25c1think\u25b7we add\u25c1/think\u25b7so \\boxed{4}", "tags"),
        (f"{ANALYSIS}we add<|end|>{FINAL}so \\boxed{{4}}<|return|>", "harmony"),
        ("analysiswe addassistantfinalso \\boxed{4}", "harmony"),
        ("<|im_start|>think\nwe add\n<|im_start|>answer\nso \\boxed{4}", "im_start"),
        ("<|im_start|>think\nwe add\n\nso \\boxed{4}", "im_start+split"),
        ("<|im_start|>think\nwe add \\boxed{5}\nWait\nso \\boxed{4}", "im_start+split"),
    ],
)
def test_response_formats_become_one_form(response: str, response_format: str) -> None:
    parts = parse_response(response)
    assert isinstance(parts, Parts), parts
    assert parts.response_format == response_format
    assert parts.answer == "so \\boxed{4}"
    assert "Wait" not in parts.target()
    assert FORM.fullmatch(parts.target())
    assert parse_response(parts.target()) == Parts(parts.reasoning, parts.answer, "think")


def test_a_displayed_box_keeps_the_line_that_announces_it() -> None:
    parts = parse_response("<|im_start|>think\nwe add\n\nThus the sum is:\n\n\\[\n\\boxed{4}\n\\]")
    assert isinstance(parts, Parts)
    assert parts.answer == "Thus the sum is:\n\n\\[\n\\boxed{4}\n\\]"
    assert parts.reasoning == "we add"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("we add, so \\boxed{4}", "no_think"),
        ("<think>we add and add", "unclosed"),
        ("<think>we add</think> <answer>so \\boxed{4}", "unclosed"),
        ("<|begin_of_thought|>we add and add", "unclosed"),
        ("<|begin_of_thought|>we add<|end_of_thought|><|begin_of_solution|>so \\boxed{4}", "unclosed"),
        ("<think>a</think>b<think>c</think>\\boxed{4}", "repeated_markers"),
        ("preamble <think>a</think>\\boxed{4}", "repeated_markers"),
        ("<|im_start|>think\na\n<|im_start|>user\nb\n<|im_start|>think\n\\boxed{4}", "repeated_markers"),
        ("<thinking>a</reasoning>\\boxed{4}", "repeated_markers"),
        (f"{ANALYSIS}we add and add", "unclosed"),
        (f"{ANALYSIS}a<|end|>{FINAL}", "no_answer"),
        (f"{ANALYSIS}a{FINAL}\\boxed{{4}}", "repeated_markers"),
        (f"{ANALYSIS}a<|end|>{ANALYSIS}b<|end|>{FINAL}\\boxed{{4}}", "repeated_markers"),
        (f"{ANALYSIS}a<|end|>{FINAL}\\boxed{{4}}<|end|>and more", "repeated_markers"),
        (f"{FINAL}\\boxed{{4}}", "repeated_markers"),
        (
            f"{ANALYSIS}a<|end|><|start|>assistant<|channel|>commentary to=python<|message|>x<|call|>",
            "repeated_markers",
        ),
        ("<think>a</think>\n", "no_answer"),
        ("<think>\n\n</think>\n\n\\boxed{4}", "empty_reasoning"),
        ("<think>a <tool_call> b</think>\\boxed{4}", "chat_tokens"),
        ("<think>a</think>\\boxed{4}<|im_end|>\nmore", "chat_tokens"),
        ("<|im_start|>think\nwe add and add", "no_box"),
        ("<|im_start|>think\nwe add\n\nso \\boxed{4}" + " and then" * 60, "unclosed"),
    ],
)
def test_what_is_cut_or_glued_is_rejected(response: str, reason: str) -> None:
    rejection = parse_response(response)
    assert isinstance(rejection, Rejection), rejection
    assert rejection.reason == reason


@pytest.mark.parametrize("gap", ["\n\n", "\n"])
def test_plain_text_is_split_only_when_asked_to(gap: str) -> None:
    text = f"First we add.{gap}The sum is \\boxed{{4}}."
    assert isinstance(parse_response(text), Rejection)
    parts = parse_response(text, split_plain=True)
    assert parts == Parts("First we add.", "The sum is \\boxed{4}.", "plain+split")


PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<|im_start|>",
        "think",
        "answer",
        "\n",
        "\n\n",
        "\\boxed{4}",
        "\\[",
        "Wait",
        "text ",
        "<answer>",
        "[THINK]",
        "</reasoning>",
        "<|end|>",
        ANALYSIS,
        FINAL,
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join), st.booleans())
def test_any_text_gives_the_form_or_a_rejection(text: str, split_plain: bool) -> None:
    parts = parse_response(text, split_plain=split_plain)
    if isinstance(parts, Parts):
        assert FORM.fullmatch(parts.target())
        assert parts.target().count("<think>") == parts.target().count("</think>") == 1
