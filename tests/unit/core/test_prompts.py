"""Prompts: templates hold the problem, and every package renders a conversation to the same text."""

import hashlib
from pathlib import Path

import pytest

from core.errors import InputError
from core.model.chat_template import ChatTemplate
from core.model.prompts import messages, prompt_frame, render_prompt, templates
from core.model.token_counts import load_lengths

QUESTION = messages("What is {problem}? 2+2", "Be brief.")
BASE = Path(__file__).resolve().parents[3] / "training/embedded_model/model"
CHAT_ML = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1+1=?<|im_end|>\n<|im_start|>assistant\n"


def test_own_is_the_system_message_of_the_published_files():
    # sha256 of the system message of data/valid.all.parquet in github.com/ElliottYan/LUFFY at 01f4ae066249.
    published = "a8747f1674d341836ab8fae3c29263fee4dd555f07259cdbc6dadf4104ea8926"
    assert hashlib.sha256(templates()["own"].system.encode()).hexdigest() == published


def test_templates_with_a_text_hold_the_problem_and_need_no_tokenizer():
    for name, thinking in {"qwen": False, "simplerl": False, "prime": True, "none": False}.items():
        template = templates()[name]
        prompt = render_prompt(QUESTION, None, template)
        assert prompt.count("What is {problem}? 2+2") == 1, name
        assert "Be brief." not in prompt  # the template's own instruction, not the suite's
        assert template.thinking is thinking
    assert render_prompt(QUESTION, None, templates()["none"]) == "What is {problem}? 2+2"
    assert "\\boxed{}" in templates()["qwen"].text
    assert prompt_frame(QUESTION, None, templates()["prime"]).startswith("A conversation between User")


def test_the_embedded_model_reads_the_same_prompt_in_every_package():
    chat = ChatTemplate(BASE)
    assert render_prompt(messages("1+1=?", "Be brief."), chat) == CHAT_ML
    assert load_lengths(BASE).prompt_text(messages("1+1=?", "Be brief.")) == CHAT_ML
    assert render_prompt(messages("1+1=?"), chat, templates()["own"]).startswith("<|im_start|>system\nYour task is to")


def test_without_a_chat_template_the_folder_is_named_or_the_contents_are_joined(tmp_path):
    plain = ChatTemplate(tmp_path)
    with pytest.raises(InputError, match=rf"{tmp_path}.*has no chat template.*\(qwen, simplerl, prime, none\)"):
        render_prompt(QUESTION, plain, templates()["own"])
    assert render_prompt(QUESTION, plain, bare=True) == "Be brief.\nWhat is {problem}? 2+2"
