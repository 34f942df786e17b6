"""Measure how a version of the targets differs from the one before, and its worst source: what the checks look at.

Each number is from the source in which it is largest. Of shares and means only what three standard errors do not
explain counts, so that a small source does not raise an alarm by chance.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.parquet import read_shards
from targets.files import read_metadata

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

REMEDY = "prepare targets first"
STANDARD_ERRORS = 3
FEWEST_TARGETS = 20  # of a source, with fewer of which a share says little
FEWEST_READ = 0.8  # of the rows of a source block; with fewer, a file that is gone is a loss


@dataclass(frozen=True)
class Named:
    """The name under which each file and each source block of a version is compared."""

    files: Mapping[str, str]
    blocks: Mapping[str, str]


def common_names(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Named, Named]:
    """The names of the files and blocks of two versions; what has one name is compared.

    A file of both versions is compared by itself. The files of a source block that only one version has are one, under
    the name of the block, if the other version has such files too. A block that is gone is compared with the new one
    at its place among the blocks that only one version has, or all of these together if their numbers differ.

    >>> old, new = common_names({"a.csv": "a", "b.csv": "b"}, {"a.csv": "a", "b-2.csv": "b-2"})
    >>> old.files, new.blocks
    ({'a.csv': 'a.csv', 'b.csv': 'b-2 (b before)'}, {'a': 'a', 'b-2': 'b-2 (b before)'})

    Args:
        before: the source block of each file, in the order of the settings.
        now: the same of the version that is compared with it.
    """
    blocks = _common_blocks([*dict.fromkeys(before.values())], [*dict.fromkeys(now.values())])
    alone = [
        {file: names[block] for file, block in files.items() if file not in others}
        for files, others, names in zip((before, now), (now, before), blocks, strict=True)
    ]
    renamed = {*alone[0].values()} & {*alone[1].values()}
    old, new = (
        Named({file: name if (name := single.get(file)) in renamed else file for file in files}, names)
        for files, single, names in zip((before, now), alone, blocks, strict=True)
    )
    return old, new


def _common_blocks(before: list[str], now: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    gone = [name for name in before if name not in now]
    new = [name for name in now if name not in before]
    if gone and new and len(gone) != len(new):
        joined = f"{', '.join(new)} ({', '.join(gone)} before)"
        names = dict.fromkeys(gone, joined), dict.fromkeys(new, joined)
    else:
        pairs = [(old, now_, f"{now_} ({old} before)") for old, now_ in zip(gone, new, strict=False)]
        names = {old: name for old, _, name in pairs}, {now_: name for _, now_, name in pairs}
    return {name: names[0].get(name, name) for name in before}, {name: names[1].get(name, name) for name in now}


@dataclass(frozen=True)
class Change:
    """A number that the suite knows as a column, and the source that it is of."""

    value: float = 0.0
    where: str = ""


@dataclass(frozen=True)
class Version:
    """A profile and what its file records: by file, and by source block."""

    rows: "pd.DataFrame"
    sources: Mapping[str, Mapping[str, int]]  # by file: "read", "kept"
    blocks: Mapping[str, Mapping[str, int]]  # by source block: "read", "kept", first reasons
    tokenizer: str
    settings: Mapping[str, Any]  # of the preparation
    files: Mapping[str, str] = field(default_factory=dict)  # the source block of each file
    digests: Mapping[str, str] = field(default_factory=dict)  # of the content of each file

    def by_source(self, column: str) -> "dict[str, np.ndarray]":
        """The numbers of a column by file; empty if an older version has no such column."""
        if column not in self.rows:
            return {}
        numbers = self.rows[column].to_numpy(float)
        return {str(name): numbers[places] for name, places in self.rows.groupby("source").indices.items()}

    def texts(self, column: str) -> dict[str, list[str | None]]:
        """The texts of a column by file; None where there is no such column."""
        given = self.rows[column].to_list() if column in self.rows else [None] * len(self.rows)
        groups: dict[str, list[str | None]] = {}
        for name, value in zip(self.rows["source"].to_list(), given, strict=True):
            groups.setdefault(name, []).append(value if isinstance(value, str) else None)
        return groups


def read_version(profile: Path) -> Version:
    """Read a profile file; InputError if it is none."""
    frame = read_shards(profile, REMEDY).flatten().to_pandas()  # a struct of metadata becomes columns metadata.NAME
    recorded = read_metadata(profile, REMEDY)
    sources, blocks, settings = (json.loads(recorded.get(name, "{}")) for name in ("sources", "by_source", "config"))
    files = json.loads(recorded.get("files", "{}"))
    return Version(
        frame,
        sources,
        blocks,
        recorded.get("tokenizer_digest", ""),
        settings,
        files={name: file["source"] for name, file in files.items()},
        digests={name: file["digest"] for name, file in files.items()},
    )


def measure(now: Version, before: Version | None) -> dict[str, Change]:
    """The number of each column of `DERIVED`; 0 where there is no version before, or one of the two has no rows."""
    measured = {name: _largest(changes(now) if len(now.rows) else ()) for name, changes in OF_ONE.items()}
    if before is None or not (len(before.rows) and len(now.rows)):
        return {**measured, **dict.fromkeys(OF_TWO, Change())}
    old, new = (
        _named(version, names)
        for version, names in zip((before, now), common_names(before.files, now.files), strict=True)
    )
    return {**measured, **{name: _largest(changes(old, new)) for name, changes in OF_TWO.items()}}


def _named(version: Version, names: Named) -> Version:
    """The version under the names by which it is compared with the other one; what shares a name is added up."""

    def added(counts: Mapping[str, Mapping[str, int]], named: Mapping[str, str]) -> dict[str, Counter[str]]:
        sums: dict[str, Counter[str]] = {}
        for name, of in counts.items():
            sums.setdefault(named.get(name, name), Counter()).update(of)
        return sums

    return replace(
        version,
        rows=version.rows.assign(source=version.rows["source"].replace(names.files)),
        sources=added(version.sources, names.files),
        blocks=added(version.blocks, names.blocks),
        files={names.files[file]: names.blocks[block] for file, block in version.files.items()},
    )


def _largest(changes: Iterable[Change]) -> Change:
    return max(changes, key=lambda change: abs(change.value), default=Change())


def _least_share(column: str, now: Version) -> Iterator[Change]:
    shares = [
        Change(float(values.mean()), name)
        for name, values in now.by_source(column).items()
        if len(values) >= FEWEST_TARGETS
    ]
    yield min(shares, key=lambda share: share.value, default=Change(1.0))


def _shares(column: str, now: Version) -> Iterator[Change]:
    for name, values in now.by_source(column).items():
        yield Change(float(values.mean()), name)


def _most_frequent(column: str, now: Version) -> Iterator[Change]:
    for name, texts in now.texts(column).items():
        if len(texts) >= FEWEST_TARGETS:
            yield Change(Counter(texts).most_common(1)[0][1] / len(texts), name)


def _rejected(reason: str, now: Version) -> Iterator[Change]:
    """The share of the traces of a source block that a filter rejects."""
    for name, counts in now.blocks.items():
        yield Change(counts.get(reason, 0) / counts["read"], name)


def _mean(column: str, before: Version, now: Version, *, relative: bool = False) -> Iterator[Change]:
    for name, old, new in _common(before.by_source(column), now.by_source(column)):
        error = math.sqrt(sum(float(values.var()) / len(values) for values in (old, new)))
        change = _beyond(float(new.mean() - old.mean()), error)
        unit = float(old.mean()) if relative else 1.0
        yield Change(change / unit if unit else 0.0, name)


def _beyond(difference: float, error: float) -> float:
    """What `STANDARD_ERRORS` do not explain of a difference.

    >>> _beyond(-0.5, 0.125), _beyond(0.2, 0.1)
    (-0.125, 0.0)
    """
    return math.copysign(max(0.0, abs(difference) - STANDARD_ERRORS * error), difference)


def _rejections(chosen: Callable[[str], bool], before: Version, now: Version) -> Iterator[Change]:
    """The change of the share of a block's traces that a filter rejects, of the filters that are ``chosen``."""
    for block, old, new in _common(before.blocks, now.blocks):
        for reason in filter(chosen, (old.keys() | new.keys()) - {"read", "kept"}):
            counts = old.get(reason, 0), new.get(reason, 0)
            share = sum(counts) / (old["read"] + new["read"])
            error = math.sqrt(share * (1 - share) * (1 / old["read"] + 1 / new["read"]))
            difference = counts[1] / new["read"] - counts[0] / old["read"]
            yield Change(_beyond(difference, error), f"{block}: {reason}")


def _survivals(before: Version, now: Version) -> Iterator[Change]:
    """The relative change of the share of its traces that each file keeps, and the filter behind it."""
    for name, old, new in _common(before.sources, now.sources):
        if old["kept"] and new["read"]:
            change = (new["kept"] / new["read"]) / (old["kept"] / old["read"]) - 1
            yield Change(change, f"{name}{_changed_most(now.files.get(name, ''), before, now)}")


def _changed_most(block: str, before: Version, now: Version) -> str:
    """The filter that took the share of the traces of a source block that differs most from before."""
    if not (block in before.blocks and block in now.blocks):
        return ""
    old, new = before.blocks[block], now.blocks[block]
    shares = {
        reason: abs(new.get(reason, 0) / new["read"] - old.get(reason, 0) / old["read"])
        for reason in sorted((old.keys() | new.keys()) - {"read", "kept"})
    }
    reason = max(shares, key=lambda name: shares[name], default="")
    if not reason:
        return ""
    return (
        f": {reason} took {new.get(reason, 0):,} of {new['read']:,} traces, "
        f"{old.get(reason, 0):,} of {old['read']:,} before"
    )


def _lost(before: Version, now: Version) -> Iterator[Change]:
    """The largest share of its earlier targets that a file has lost."""
    lost = (Change(-change.value, change.where) for change in _survivals(before, now))
    yield max(lost, key=lambda change: change.value, default=Change())


def _rows_read(before: Version, now: Version) -> Iterator[Change]:
    for name, old, new in _common(before.sources, now.sources):
        if old["read"]:
            yield Change(new["read"] / old["read"] - 1, name)


def _missing(before: Version, now: Version) -> Iterator[Change]:
    """The number of files that are gone from source blocks that have fewer traces than before."""
    shrunk = {
        name
        for name, old in before.blocks.items()
        if now.blocks.get(name, {}).get("read", 0) < FEWEST_READ * old["read"]
    }
    gone = [name for name in sorted(before.sources.keys() - now.sources.keys()) if before.files.get(name) in shrunk]
    yield Change(float(len(gone)), ", ".join(gone))


def _copies(now: Version) -> Iterator[Change]:
    alike: dict[str, list[str]] = {}
    for name, digest in now.digests.items():
        alike.setdefault(digest, []).append(name)
    copies = [(names[1:], names[0]) for names in alike.values() if len(names) > 1]
    where = "; ".join(f"same content as {first}: {', '.join(names)}" for names, first in copies)
    yield Change(float(sum(len(names) for names, _ in copies)), where)


def _other_values(column: str, before: Version, now: Version) -> Iterator[Change]:
    """The share of a file's targets with a value of a metadata that none of its targets had before."""
    if column in before.rows or column in now.rows:
        for name, old, new in _common(before.texts(column), now.texts(column)):
            seen = set(old)
            other = [value for value in new if value not in seen]
            where = f"{name}: {', '.join(sorted({str(value) for value in other}))}"
            yield Change(len(other) / len(new), where if other else "")


def _language(before: Version, now: Version) -> Iterator[Change]:
    """The share of a source's targets in another language than most of its targets had before."""
    for name, old, new in _common(before.texts("language"), now.texts("language")):
        (language, count), *_ = Counter(old).most_common(1)
        if language:
            other = [text for text in new if text and text != language]
            most = f", now {Counter(other).most_common(1)[0][0]}" if other else ""
            share = len(other) / len(new) - (1 - count / len(old))
            yield Change(max(0.0, share), f"{name}: {language} before{most}")


def _tokenizer(before: Version, now: Version) -> Iterator[Change]:
    where = f"{before.tokenizer[:8]} before, {now.tokenizer[:8]} now"
    yield Change(float(before.tokenizer != now.tokenizer), where)


def _mix(before: Version, now: Version) -> Iterator[Change]:
    """Half the sum of the changes of the files' shares, and the file that changes most."""
    old, new = ({name: len(v) / len(of.rows) for name, v in of.texts("id").items()} for of in (before, now))
    changes = [Change(new.get(name, 0) - old.get(name, 0), name) for name in sorted(old.keys() | new.keys())]
    yield Change(sum(abs(change.value) for change in changes) / 2, _largest(changes).where)


def _mean_length(before: Version, now: Version) -> Iterator[Change]:
    old, new = (of.rows["target_tokens"].to_numpy(float).mean() for of in (before, now))
    yield Change(float(new / old - 1))


def _common(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in sorted(old.keys() & new.keys()):
        yield name, old[name], new[name]


OF_ONE: Mapping[str, Callable[[Version], Iterable[Change]]] = {
    "least_about_problem": partial(_least_share, "about_problem"),
    "most_wrong_equations": partial(_shares, "wrong_equation"),
    "most_html_escapes": partial(_shares, "html_escapes"),
    "most_equal_golds": partial(_most_frequent, "gold_digest"),
    "most_damaged": partial(_rejected, "damaged_encoding"),
    "most_verifier_errors": partial(_rejected, "verify_error"),
    "copied_files": _copies,
}
OF_TWO: Mapping[str, Callable[[Version, Version], Iterable[Change]]] = {
    "source_mix_shift": _mix,
    "sources_missing": _missing,
    "rows_read_change": _rows_read,
    "survival_change": _survivals,
    "survival_loss": _lost,
    "wrong_change": partial(_rejections, lambda reason: reason == "wrong"),
    "rejected_change": partial(_rejections, lambda reason: reason != "wrong"),
    "mean_length_change": _mean_length,
    "source_length_change": partial(_mean, "target_tokens", relative=True),
    "reached_change": partial(_mean, "reaches_answer"),
    "gold_text_change": partial(_mean, "gold_is_answer"),
    "chars_per_word_change": partial(_mean, "chars_per_word", relative=True),
    "backslash_change": partial(_mean, "backslashes", relative=True),
    "non_ascii_change": partial(_mean, "non_ascii", relative=True),
    "language_change": _language,
    "license_change": partial(_other_values, "metadata.license"),
    "teacher_change": partial(_other_values, "metadata.teacher"),
    "tokenizer_change": _tokenizer,
}
DERIVED = ("traces_of_problem", *OF_ONE, *OF_TWO)
