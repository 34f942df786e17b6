"""Upload a finished policy to the Hugging Face hub: ``python -m training.export.upload POLICY REPOSITORY``.

The program is for `push_to_hub`: the hub's client stays offline in a process that has trained.
"""

import sys
from pathlib import Path

from core.cli import exit_status
from core.model.hub import upload_folder
from core.program import run_module


def push_to_hub(policy: Path, repository: str) -> None:
    """Upload the policy folder to a private ``repository``; InputError with the hub's reason if it refuses."""
    run_module("training.export.upload", str(policy), repository)


def main() -> None:
    policy, repository = Path(sys.argv[1]), sys.argv[2]
    where, advice = f"run.push_to_hub={repository}", f"the policy is complete in {policy}"
    upload_folder(policy, repository, "model", where=where, advice=advice)


if __name__ == "__main__":
    sys.exit(exit_status(main))
