"""What supervised training learns from: the prompt of every other room, and a response that ends."""

from pathlib import Path

from transformers import AutoTokenizer

from core.prompts import ChatTemplate, encode_example, messages, render_prompt

BASE = Path(__file__).resolve().parents[3] / "training/base/model"
CONVERSATION = messages("1+1=?", "Be brief.")


def test_the_prompt_is_that_of_every_room_and_the_response_gets_its_end_token():
    tokenizer = AutoTokenizer.from_pretrained(BASE, local_files_only=True)
    prompt = render_prompt(CONVERSATION, tokenizer)
    assert prompt == render_prompt(CONVERSATION, ChatTemplate(BASE))
    example = encode_example(CONVERSATION, "\\boxed{2}", tokenizer)
    assert tokenizer.decode(example.prompt) == prompt
    assert tokenizer.decode(example.response) == "\\boxed{2}<|im_end|>"
