"""Chat templates rendered without transformers, and what is checked of them and of their tokenizer."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import InputError
from core.model.chat_template import ADDED_CHARACTERS, ChatTemplate, check_chat_template
from core.model.model_folder import check_model
from core.model.prompts import CHAT, render_prompt
from core.model.special_tokens import check_end_token, special_tokens
from core.model.token_counts import load_lengths

BASE = Path(__file__).resolve().parents[3] / "training/embedded_model/model"
CHAT_ML = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
QUESTION = [{"role": "user", "content": "1+1=?"}]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the embedded model."""
    return Path(shutil.copytree(BASE, tmp_path / "model"))


def write(folder: Path, template: str) -> Path:
    (folder / "chat_template.jinja").write_text(template)
    return folder


def settings(folder: Path, **changes: object) -> Path:
    file = folder / "tokenizer_config.json"
    kept = {name: value for name, value in (json.loads(file.read_text()) | changes).items() if value != "GONE"}
    file.write_text(json.dumps(kept))
    return folder


def test_what_the_model_writes_is_rendered_where_a_template_marks_it(tmp_path: Path) -> None:
    answered = [*QUESTION, {"role": "assistant", "content": "2"}, *QUESTION]
    marked = (
        "{% for m in messages %}{% if m.role == 'assistant' %}{%- generation %}{{ m.content }}!{%- endgeneration %}"
    )
    folder = write(tmp_path, marked + "{% else %}<{{ m.content }}>{% endif %}{% endfor %}")
    check_chat_template(folder)
    assert render_prompt(answered, ChatTemplate(folder)) == "<1+1=?>2!<1+1=?>"


def test_a_template_that_prints_the_date_prints_the_same_one_every_day(tmp_path: Path) -> None:
    folder = write(tmp_path, "{{ strftime_now('%A, %d %B %Y, %H:%M') }}: {{ messages[-1].content }}")
    assert render_prompt(QUESTION, ChatTemplate(folder)) == "Friday, 26 July 2024, 00:00: 1+1=?"
    yearly = write(Path(shutil.copytree(BASE, tmp_path / "m")), "{{ strftime_now('%Y') }}")
    lengths = load_lengths(yearly, replace(CHAT, kwargs={"strftime_now": "1999-12-31"}))
    assert lengths.prompt_text(QUESTION) == "1999"


@pytest.mark.parametrize(
    ("kwargs", "phrase"),
    [
        (
            {"enable_thinkin": False},
            r"chat_template_kwargs\.enable_thinkin: .* does not read it; expected some of enable_thinking",
        ),
        ({"messages": []}, r"chat_template_kwargs\.messages: .* does not read it"),
        ({"strftime_now": "yesterday"}, r"chat_template_kwargs\.strftime_now: got 'yesterday', expected the date"),
    ],
)
def test_an_argument_that_a_template_does_not_read_is_refused(
    tmp_path: Path, kwargs: dict[str, object], phrase: str
) -> None:
    folder = write(
        tmp_path, CHAT_ML + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    )
    check_chat_template(folder, {"enable_thinking": False})
    with pytest.raises(InputError, match=phrase):
        check_chat_template(folder, kwargs)
    with pytest.raises(InputError, match="has no chat template that reads it"):
        check_chat_template(tmp_path / "none", {"enable_thinking": False})


@pytest.mark.parametrize(
    "template", ["{% for i in range(10**5) %}{% for j in range(10**5) %}a{% endfor %}{% endfor %}"]
)
def test_a_text_that_grows_without_end_is_stopped(tmp_path: Path, template: str) -> None:
    with pytest.raises(InputError, match=f"writes more than {ADDED_CHARACTERS:,} characters"):
        check_chat_template(write(tmp_path, template))


@pytest.mark.parametrize(
    ("changes", "phrase"),
    [
        ({"eos_token": None}, "no eos_token, the token with which a response ends"),
        ({"eos_token": "GONE", "tokenizer_class": "PreTrainedTokenizerFast"}, "no eos_token"),
        ({"eos_token": "<|nowhere|>"}, "eos_token '<|nowhere|>' is not in the vocabulary"),
    ],
)
def test_a_tokenizer_without_an_end_token_is_refused_everywhere(
    model: Path, changes: dict[str, object], phrase: str
) -> None:
    settings(model, **changes)
    for check in (check_end_token, load_lengths, check_model):
        with pytest.raises(InputError, match=phrase.replace("|", r"\|")):
            check(model)


def test_an_end_token_may_stand_in_the_older_file_or_come_with_the_class(model: Path) -> None:
    settings(model, eos_token="GONE", tokenizer_class="PreTrainedTokenizerFast")
    (model / "special_tokens_map.json").write_text(json.dumps({"eos_token": {"content": "<|im_end|>"}}))
    check_end_token(model)
    assert special_tokens(model)["eos_token"] == "<|im_end|>"
    (model / "special_tokens_map.json").unlink()
    check_end_token(settings(model, tokenizer_class="Qwen2Tokenizer"))
