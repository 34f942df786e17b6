"""Turn a GGUF file into a Hugging Face folder that verl and vLLM load: ``python -m training.export.convert``.

The weights are de-quantised to float32. `core.model.base_model` calls it in the training interpreter.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from core.cli import run_command
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


def command(
    gguf: Annotated[Path, typer.Option(metavar="FILE.gguf", help="The file to convert.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new or empty folder.")],
) -> None:
    """Turn a GGUF file into a Hugging Face folder that verl and vLLM load."""
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: exists already: give the name of a new or empty folder")
    if not gguf.is_file():
        raise InputError(f"{gguf}: no such file; expected a .gguf file")
    disable_progress_bar()
    convert(gguf, out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 2 for a mistake in the input."""
    return run_command(command, arguments, "python -m training.export.convert")


if __name__ == "__main__":
    sys.exit(main())
