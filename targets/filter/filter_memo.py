"""Remember what is slow to compute and depends on no threshold: benchmark matches, verdicts, token counts.

``<cache>/results/<start of piece>/<piece>.parquet`` has the results for the texts of one piece of a source. A result is
found by a digest of its texts, and of the code, packages and inputs that its kind depends on, so that it holds whatever
else has changed.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import read_parquet, write_table

BENCHMARK, VERDICT, TOKENS = ("benchmark", "verdict", "tokens")
REMEDY = "delete it"


class Memory:
    """The results on the texts of a piece, in ``file``; without one, nothing is remembered.

    ``versions``: of each kind, a digest of what its results depend on beside their texts.
    """

    def __init__(self, file: Path | None = None, versions: Mapping[str, str] | None = None) -> None:
        self._file, self._versions = file, versions or {}
        self._before = _read(file) if file else {}
        self._used: dict[bytes, str] = {}

    def recall(self, kind: str, *texts: str) -> Any | None:
        """The result on ``texts``, a JSON value; None if there is none."""
        if not self._before and not self._used:
            return None
        key = self._key(kind, texts)
        value = self._used.get(key) or self._before.get(key)
        if value is None:
            return None
        self._used[key] = value
        return json.loads(value)

    def keep(self, kind: str, result: Any, *texts: str) -> None:
        """Remember the ``result`` on ``texts``."""
        if self._file:
            self._used[self._key(kind, texts)] = json.dumps(result)

    def result(self, kind: str, compute: Callable[[], Any], *texts: str) -> Any:
        """The result on ``texts``, computed if it is not remembered; it may not be None."""
        value = self.recall(kind, *texts)
        if value is None:
            value = compute()
            self.keep(kind, value, *texts)
        return value

    def save(self) -> None:
        """Write the results that have been used, unless the file has them; others, as of an earlier code, go."""
        import pyarrow as pa

        if self._file and not self._used.keys() <= self._before.keys():
            columns = {"key": pa.array(self._used, pa.binary(16)), "result": pa.array(self._used.values(), pa.string())}
            write_table(pa.table(columns), self._file)

    def _key(self, kind: str, texts: tuple[str, ...]) -> bytes:
        return sha256("\0".join((kind, self._versions[kind], *texts)).encode("utf-8", "surrogatepass")).digest()[:16]


def _read(path: Path) -> dict[bytes, str]:
    if path.exists():
        with suppress(InputError):  # damaged: computed again
            table = read_parquet(path, REMEDY)
            return dict(zip(table["key"].to_pylist(), table["result"].to_pylist(), strict=True))
    return {}
