"""Upload a finished policy to the Hugging Face hub."""

from pathlib import Path

from core.errors import InputError


def push_to_hub(policy: Path, repository: str) -> None:
    """Upload the policy folder to a private ``repository``; InputError with the hub's reason if it refuses."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        api = HfApi()
        api.create_repo(repository, exist_ok=True, private=True)
        api.upload_folder(folder_path=policy, repo_id=repository)
    except (HfHubHTTPError, OfflineModeIsEnabled, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"run.push_to_hub={repository}: the hub refused the upload ({reason}); the policy is complete in {policy}"
        ) from error
