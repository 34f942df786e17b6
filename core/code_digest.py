"""The list of the code that each identity covers, and the digests that decide what is reused.

A change to a file that `policy_code`, `PREPARATION_CODE`, `GENERATION_CODE` or `GRADING_CODE` covers changes the
identity of what that code computes. A change anywhere else (a model card, an upload, a report) does not.
"""

import json
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from core import PROJECT
from core.files import digest_bytes, digest_file
from core.plugins.config_files import HARDWARE, RECIPES, config_files, first_stage, is_shipped

SHORT_DIGEST = 16  # characters of a digest in folder names and in front of people

VERDICT_CODE = (
    "grading/grader.py",
    "grading/answers",
    "grading/expressions",
    "grading/equivalence_worker.py",
    "grading/pool.py",
    "grading/verdict.py",
    "grading/whole_text.py",
    "grading/worker_program.py",
    "grading/row_fields.py",
    "grading/gym_tasks.py",
    "grading/verifiers",
    "grading/vocabulary.py",
    "grading/isolation",
    "grading/judging",
    "core/text/patterns.py",
)
GRADING_CODE = (
    *VERDICT_CODE,
    "grading/graded_table.py",
    "grading/spec_values.py",
    "core/model/prompts.py",
    "core/schemas.py",
)  # of files with verdicts
PREPARATION_CODE = (
    "targets/embedding",
    "targets/engines",
    "targets/filter",
    "targets/read",
    "targets/select",
    "targets/config.py",
    "targets/counts.py",
    "targets/prepare.py",
    "targets/prepared_files.py",
    "targets/source_settings.py",
    "targets/staging.py",
    "targets/target_tables.py",
    "targets/trace.py",
    "core/arithmetic.py",
    "core/ledger_verdicts.py",
    "core/model/chat_template.py",
    "core/model/special_tokens.py",
    "core/text/excerpt.py",
    "core/model/token_counts.py",
    "grading/contamination.py",
    *GRADING_CODE,
)
GENERATION_CODE = (
    "evaluation/generation",
    "evaluation/benchmarks",
    "core/arithmetic.py",
    "core/machine/processor.py",
    "core/model/prompts.py",
    "core/model/prompts.yaml",
    "core/schemas.py",
    "core/text/patterns.py",
    "grading/answers/extraction.py",
    "grading/answers/gold.py",
    "grading/gym_tasks.py",
    "grading/row_fields.py",
)
# Of training/job, `configuration` composes the numbers, `derived_seeds` draws some, `request` says what a first stage
# computes, and `user_reward` calls the user's function; the rest starts, follows and describes the process that
# training/verl_hooks runs.
TRAINING_CODE = (
    "training/algorithms",
    "training/verl_hooks",
    "training/platforms",
    "training/job/configuration.py",
    "training/job/derived_seeds.py",
    "training/job/request.py",
    "training/job/user_reward.py",
    "training/config/keys.py",  # and not its table, which refuses keys and changes no number
    "training/config/rollout_modes.py",
    "training/config/teacher_settings.py",
    "training/config/train.yaml",
    "core/ledger_verdicts.py",
    "core/machine/processor.py",
    "core/model/prompts.py",
    *VERDICT_CODE,
)
POLICY_CODE = (*TRAINING_CODE, RECIPES, HARDWARE)  # of any policy
SELECTORS = ("recipe", "hardware", "first_stage", "first_stage.recipe")  # keys that choose configuration files


def policy_code(recipe: str, hardware: str, overrides: Sequence[str] = ()) -> list[str]:
    """List what decides the numbers of a policy: the code, and the configuration files that its run composes.

    If an override chooses another recipe or hardware profile, all of them are covered. Files of the user's are not
    among them: `training.job.request` has their digests.
    """
    if any(text.lstrip("+~").partition("=")[0].partition("@")[0] in SELECTORS for text in overrides):
        return [*POLICY_CODE]
    files = policy_files(recipe, hardware)
    return [*TRAINING_CODE, *(str(file.relative_to(PROJECT)) for file in files if is_shipped(file))]


def policy_files(recipe: str, hardware: str) -> list[Path]:
    """The files that a run composes: those of its recipe, of that of its first stage, and of its hardware."""
    recipes = filter(None, [recipe, first_stage(recipe)])
    return [*(file for name in recipes for file in config_files(RECIPES, name)), *config_files(HARDWARE, hardware)]


def code_digest(*paths: str, project: Path = PROJECT) -> str:
    """sha256 over the files at ``paths``, which are modules, packages and configuration files of ``project``."""
    listed = {path: list(_files(f"{project}/", path)) for path in paths}
    assert all(listed.values()), f"no code in {[path for path, files in listed.items() if not files]}"
    files = sorted({file for files in listed.values() for file in files})
    return identity([f"{file}\0{_digest(f'{project}/{file}', modified_ns)}" for file, modified_ns in files])


def code_version(*paths: str) -> str:
    """`code_digest`, short enough for people."""
    return code_digest(*paths)[:SHORT_DIGEST]


def identity(*parts: Any) -> str:
    """sha256 over ``parts`` (JSON values): equal parts, equal identity."""
    return digest_bytes(json.dumps(parts, sort_keys=True, default=_plain).encode())


def _files(root: str, path: str) -> Iterator[tuple[str, int]]:
    """Yield the files at ``path`` below ``root`` and when they were modified; a load of the definitions asks for 2,000.

    Raises:
        FileNotFoundError: there is nothing at ``path``.
    """
    if not os.path.isdir(root + path):
        yield path, os.stat(root + path).st_mtime_ns
        return
    with os.scandir(root + path) as entries:
        for entry in entries:
            if entry.is_file():
                yield f"{path}/{entry.name}", entry.stat().st_mtime_ns
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(root, f"{path}/{entry.name}")


@cache
def _digest(file: str, modified_ns: int) -> str:
    """The digest of ``file`` as of ``modified_ns``; several identities cover the same file."""
    return digest_file(Path(file))


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be part of an identity")
