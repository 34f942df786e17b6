"""Upload a finished policy to the Hugging Face hub."""

from pathlib import Path

from core.model.hub import upload_folder


def push_to_hub(policy: Path, repository: str) -> None:
    """Upload the policy folder to a private ``repository``; InputError with the hub's reason if it refuses."""
    where, advice = f"run.push_to_hub={repository}", f"the policy is complete in {policy}"
    upload_folder(policy, repository, "model", where=where, advice=advice)
