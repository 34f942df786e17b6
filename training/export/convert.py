"""Turn a GGUF file into a Hugging Face folder that verl and vLLM load: ``python -m training.export.convert``.

Runs in the training interpreter; ``training.base.resolve`` calls it. Weights are de-quantised to float32.
"""

import argparse
import sys
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from core.cli import exit_status
from core.errors import InputError

TURN_END = "<|im_end|>"  # ChatML: ends a turn, so generation must stop there


def convert(gguf: Path, out: Path) -> None:
    """Write the model and tokenizer of ``gguf`` to folder ``out``.

    Raises InputError if transformers cannot read the file, or if it brings no chat template.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name, dtype="float32")
    except (ValueError, KeyError, NotImplementedError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{gguf}: transformers cannot convert it ({reason}): give a Hugging Face folder") from error
    if not tokenizer.chat_template:
        raise InputError(f"{gguf}: no chat template in it, which renders every prompt: give a Hugging Face folder")
    end_turns(model, tokenizer)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def end_turns(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Let tokenizer and model agree on the end of a turn and on padding.

    The conversion loses both: SmolLM2 comes out with eos ``<|im_start|>`` and no pad token.
    """
    if TURN_END in (tokenizer.chat_template or ""):
        tokenizer.eos_token = TURN_END
    tokenizer.pad_token = tokenizer.eos_token
    for config in (model.config, model.generation_config):
        config.eos_token_id = tokenizer.eos_token_id
        config.pad_token_id = tokenizer.pad_token_id


def main(argv: list[str] | None = None) -> int:
    """Command line; 2 is a mistake in the input."""
    parser = argparse.ArgumentParser(prog="python -m training.export.convert", description=__doc__)
    parser.add_argument("--gguf", type=Path, required=True, help="the file to convert")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make; it must not exist")
    arguments = parser.parse_args(argv)

    def work() -> None:
        if arguments.out.exists():
            raise InputError(f"{arguments.out}: already there; expected a new folder: choose another name")
        if not arguments.gguf.is_file():
            raise InputError(f"{arguments.gguf}: no such file; expected a .gguf file: check the path")
        disable_progress_bar()
        convert(arguments.gguf, arguments.out)

    return exit_status(work)


if __name__ == "__main__":
    sys.exit(main())
