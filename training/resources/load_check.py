"""Let transformers load a model without its values, and refuse what it would draw at random.

``python -m training.resources.load_check FOLDER true|false`` (whether code of the folder may run).

`core.model.architecture` compares the tensors of the usual families without torch; this is for all others.
"""

import sys
from pathlib import Path

from transformers import AutoModelForCausalLM
from transformers.utils import logging

from core.cli import exit_status
from core.errors import InputError, first_line

NAMED = 3  # tensors that the message names
# What transformers raises for a folder that it cannot load.
UNLOADABLE = (AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def check_loading(folder: Path, *, trust_remote_code: bool) -> None:
    """Raise InputError unless transformers finds each tensor of the model in the weights in ``folder``."""
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        _, report = AutoModelForCausalLM.from_pretrained(
            folder,
            device_map="meta",
            output_loading_info=True,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
        )
    except UNLOADABLE as error:
        raise InputError(
            f"{folder}: transformers cannot load the model ({first_line(error)}): choose another model, or let code of "
            "its folder run (actor_rollout_ref.model.trust_remote_code=true) if it has some"
        ) from error
    if missing := sorted(report["missing_keys"]):
        more = ", …" if len(missing) > NAMED else ""
        raise InputError(
            f"{folder}: its weights do not belong to the model in its config.json: {len(missing)} missing "
            f"({', '.join(missing[:NAMED])}{more}): copy config.json and weights from one model"
        )


if __name__ == "__main__":
    sys.exit(exit_status(lambda: check_loading(Path(sys.argv[1]), trust_remote_code=sys.argv[2] == "true")))
