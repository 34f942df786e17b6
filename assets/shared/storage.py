"""The folders of outputs, and the small references by which assets find each other's outputs.

Data is in folders that never change: ``<root>/<stage>/<name>/<identity>/``, written under a temporary name and
renamed when complete; a result that is made again by force gets a number, ``<identity>-2``. A reference,
``<root>/references/<key>.json``, names the folder of the last materialization, relative to the storage.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from logging import Logger
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
from pydantic import PrivateAttr, ValidationError

from assets.shared.failures import as_failure
from assets.shared.references import MAKER, REFERENCE, Reference, made_by
from core.code_digest import SHORT_DIGEST
from core.errors import InputError, explain_validation, first_line
from core.files import UNWRITABLE, atomic_folder, set_aside, write_json, write_text
from core.kinds import Kind
from core.parquet import is_there
from core.shared_settings import StorageSettings

HERE = "$STORAGE"  # in a reference: the storage, wherever it is now
FILES = "/files"  # where the web server of the UI serves the pages of the storage
Data = TypeVar("Data", bound=Reference)


class Storage(StorageSettings):
    """The section ``storage``, and what it holds."""

    _said: set[str] = PrivateAttr(default_factory=set)  # digests of the code of results that are reused

    def folder(self, stage: str, name: str, identity: str) -> Path:
        """Return the folder of one output, which is complete if it exists; InputError if it is outside the storage."""
        return self._inside(self.path / stage / name / identity[:SHORT_DIGEST])

    def result(self, stage: str, name: str, identity: str, complete: str = "") -> Path:
        """Return the folder of a result: the newest one of its identity, or by `force` the next after a complete one.

        ``complete``: What the folder has if the result is complete.
        """
        first = self.folder(stage, name, identity)
        endings = (folder.name.removeprefix(f"{first.name}-") for folder in first.parent.glob(f"{first.name}-*"))
        numbers = [int(ending) for ending in endings if ending.isdecimal()]
        newest = first.with_name(f"{first.name}-{max(numbers)}") if numbers else first
        forced = self.force and (newest / complete).exists()
        return first.with_name(f"{first.name}-{max(numbers, default=1) + 1}") if forced else newest

    def link(self, page: Path) -> dg.UrlMetadataValue:
        """Return a link to a page of the storage, which the UI's own server serves below `FILES`."""
        return dg.MetadataValue.url(f"{FILES}/{page.relative_to(self.path).as_posix()}")

    def _inside(self, path: Path) -> Path:
        if not path.resolve().is_relative_to(self.path.resolve()):
            raise InputError(
                f"storage {self.path}: {path} is outside of it: a name in the settings must not be a path; "
                "choose another name"
            )
        return path

    @contextmanager
    def writing(self, folder: Path, kind: Kind | None = None) -> Iterator[Path]:
        """Yield a temporary folder that becomes ``folder`` when the block ends without an error.

        It gets the digest of the code that makes a result of ``kind``. Raises InputError if the storage is full or
        read-only; nothing is left behind in that case.
        """
        with self.writable(), atomic_folder(folder) as temporary:
            yield temporary
            if kind:
                write_text(kind.code_digest(), temporary / MAKER)

    def has(self, folder: Path, kind: Kind, log: Logger, read: Callable[[Path], Any] = Path.stat) -> bool:
        """Return whether ``folder`` is there and ``read`` can read it.

        A warning says if other code has made it, once of a step. A damaged one is set aside, with a warning, too.
        """
        if not folder.exists():
            return False
        try:
            read(folder)
        except InputError as error:
            with self.writable():
                kept = set_aside(folder)
            log.warning(f"damaged, so it was renamed to {kept.name} and is made again: {error}")
            return False
        maker = made_by(folder)
        if maker not in self._said and (line := kind.reused(folder, maker)):
            log.warning(line)
        self._said.add(maker)
        return True

    @contextmanager
    def working(self, stage: str, name: str, identity: str) -> Iterator[Path]:
        """Yield the folder of work that has an identity, so that a step finds what it left there when it was killed.

        The folder is removed when the block ends without an error.
        """
        folder = self.folder(stage, name, identity)
        with self.writable():
            folder.mkdir(parents=True, exist_ok=True)
            yield folder
        shutil.rmtree(folder)

    @contextmanager
    def writable(self) -> Iterator[None]:
        """Turn a full or read-only disk into an InputError that says what to do.

        A storage that does not exist is created for our user only, whatever the umask of this process, which may be
        another team's.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            yield
        except OSError as error:
            file = error.filename2 or error.filename  # of a copy, the second is written
            if error.errno not in UNWRITABLE or not _below(file, self.path):
                raise
            what = f" {os.fsdecode(file)}" if file else ""
            raise InputError(
                f"storage {self.path}: cannot write{what}: {os.strerror(error.errno)}; make room or grant write "
                "permission there, or choose another folder (storage.root)"
            ) from error

    def _portable(self, text: str) -> str:
        """Return a path in the storage as one that still holds when the storage has been moved."""
        return f"{HERE}{text.removeprefix(str(self.path))}" if text.startswith(f"{self.path}/") else text

    def _located(self, text: str) -> str:
        return f"{self.path}{text.removeprefix(HERE)}" if text.startswith(f"{HERE}/") else text

    def reference_file(self, key: str) -> Path:
        """Return the file that holds the reference of asset ``key`` (``stage/name``)."""
        return self._inside(self.path / "references" / f"{key}.json")

    def write_reference(self, key: str, reference: Reference) -> None:
        """Let ``key`` point to ``reference``, atomically for every reader."""
        file = self.reference_file(key)
        with self.writable():
            write_json(_mapped(reference.model_dump(mode="json"), self._portable), file)

    def read_reference(self, key: str, kind: type[Data]) -> Data:
        """Read what ``key`` points to; InputError if it was never materialized here or its data is gone."""
        file = self.reference_file(key)
        try:
            values = json.loads(file.read_text(encoding="utf-8"))
            reference = kind.model_validate(_mapped(values, self._located))
        except FileNotFoundError:
            raise InputError(
                f"{key}: not materialized in storage {self.path} yet; materialize it first (a selection that begins "
                "with +key: includes everything that it needs; + without key: includes one layer)"
            ) from None
        except (ValidationError, ValueError) as error:
            why = explain_validation(error, kind) if isinstance(error, ValidationError) else first_line(error)
            raise InputError(f"{file}: not a reference ({why}); materialize {key} again") from error
        path = Path(reference.path)
        if not path.exists() and not is_there(path):
            raise InputError(f"{key}: {reference.path} is gone; materialize {key} again")
        reference.require_unchanged()
        return reference


class ReferenceIOManager(dg.IOManager):
    """Stores the references that assets return, and reads them as the type of the input's annotation.

    A step reads what its own run has made, if it has, whatever another run made of the same asset since.
    """

    def __init__(self, storage: Storage, key_prefix: Sequence[str] = ()) -> None:
        self.storage = storage
        self.key_prefix = key_prefix  # of our keys, which the storage does not repeat

    def handle_output(self, context: dg.OutputContext, obj: Reference) -> None:
        try:
            self._claim()
            self.storage.write_reference(self._key(context), obj)
        except InputError as error:
            raise as_failure(error) from None

    def load_input(self, context: dg.InputContext) -> Reference:
        kind = context.dagster_type.typing_type
        try:
            made = made_in_run(context.instance, context.step_context.run_id, context.asset_key, kind)
            return made or self.storage.read_reference(self._key(context), kind)
        except InputError as error:
            raise as_failure(error) from None

    def _claim(self) -> None:
        """Raise InputError if the storage belongs to assets below another prefix, which have references of one name."""
        prefix, file = "/".join(self.key_prefix), self.storage.path / "references" / ".key_prefix"
        if not prefix:
            return
        if not file.exists():
            with self.storage.writable():
                write_text(prefix, file)
        elif (other := file.read_text(encoding="utf-8")) != prefix:
            raise InputError(
                f"storage {self.storage.path}: it holds the outputs of the assets below {other}/, and these are below "
                f"{prefix}/: give each a separate folder (storage.root); if you renamed them, remove {file}"
            )

    def _key(self, context: dg.OutputContext | dg.InputContext) -> str:
        return "/".join(context.asset_key.path[len(self.key_prefix) :])


def made_in_run(instance: dg.DagsterInstance, run_id: str, key: dg.AssetKey, kind: type[Data]) -> Data | None:
    """Return what a run has made of an asset; None if it has made nothing of it."""
    events = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    for made in (event.asset_materialization for event in reversed(events)):
        if made and made.asset_key == key and (reference := made.metadata.get(REFERENCE)):
            return kind.model_validate(reference.value)
    return None


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {name: _mapped(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [_mapped(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def _below(filename: Any, folder: Path) -> bool:
    """Return whether an error's file is below ``folder``; pyarrow's errors name no file, and concern what it writes."""
    return filename is None or Path(os.fsdecode(filename)).absolute().is_relative_to(folder)
