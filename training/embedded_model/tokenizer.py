"""A tokenizer of bytes: there is nothing to download, and text in any language has tokens."""

from tokenizers import pre_tokenizers
from transformers import Qwen2Tokenizer

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer() -> Qwen2Tokenizer:
    """256 bytes and the three special tokens of ChatML; a newline is one token, as verl needs.

    It is a ``Qwen2Tokenizer`` without merges, because transformers 5 builds that class for ``model_type: qwen2`` no
    matter what the saved tokenizer says.
    """
    symbols = [PAD, START, END, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Qwen2Tokenizer(
        vocab={symbol: index for index, symbol in enumerate(symbols)},
        merges=[],
        unk_token=None,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[PAD, START, END],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
