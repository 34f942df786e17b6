"""Turn a GGUF file into a Hugging Face folder that verl and vLLM load, with weights that are de-quantised to float32.

`core.model.base_model` calls it in the training interpreter: ``python -m training.export.convert FILE.gguf FOLDER``.
"""

import sys
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from core.cli import exit_status
from core.errors import InputError, first_line
from core.machine.limits import memory_limit

# What the reader of a damaged file raises.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
# Address space of a conversion: a part, and this many times the file, whose two to four bits become float32, twice.
MEMORY_BYTES = 2 << 30
GROWTH = 20
TURN_END = "<|im_end|>"  # ChatML: ends a turn, so generation must stop there


def convert(gguf: Path, out: Path) -> None:
    """Write the model and the tokenizer of ``gguf`` to folder ``out``.

    Raises:
        InputError: transformers cannot read the file, or it has no chat template.
    """
    disable_progress_bar()
    try:
        with memory_limit(MEMORY_BYTES + GROWTH * gguf.stat().st_size):
            tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
            model = AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name, dtype="float32")
    except UNREADABLE as error:
        raise InputError(
            f"{gguf}: transformers cannot convert it ({first_line(error)}): give a Hugging Face folder"
        ) from error
    if not tokenizer.chat_template:
        raise InputError(f"{gguf}: no chat template in it, which renders every prompt: give a Hugging Face folder")
    end_turns(model, tokenizer)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def end_turns(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give tokenizer and model the same token for the end of a turn, and one for padding.

    The conversion loses both: SmolLM2 gets ``<|im_start|>`` as its end-of-sequence token, and no pad token.
    """
    if TURN_END in (tokenizer.chat_template or ""):
        tokenizer.eos_token = TURN_END
    tokenizer.pad_token = tokenizer.eos_token
    for config in (model.config, model.generation_config):
        config.eos_token_id = tokenizer.eos_token_id
        config.pad_token_id = tokenizer.pad_token_id


if __name__ == "__main__":
    sys.exit(exit_status(lambda: convert(*map(Path, sys.argv[1:]))))
