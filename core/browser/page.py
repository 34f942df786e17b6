"""Writes the page: a self-contained HTML file that opens from a disk, without a network.

The rows are in it as gzip in base64, in chunks that the browser unpacks when it needs them, so that the list is there
before the texts are. No text of a row becomes mark-up: the script sets it as text, and the page's Content Security
Policy allows the two scripts of this folder, by their digests, and nothing else.
"""

import base64
import gzip
import hashlib
import html
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import IO, Any

from core.errors import InputError
from core.files import atomic_write
from core.text.markdown import shorten
from core.text.patterns import Match, compile_pattern

FOLDER = Path(__file__).parent
KATEX = FOLDER / "katex-0.19.1.tgz"  # the package of npm as it is published
KATEX_SHA512 = "jG8uKntjSEcm2EpQOh0XturpPuuC9r3Sq5HLHdsFdWZT27E672SF19QEi+of0/YeOy15lDgRhKvr5614uRrEfA=="  # npm's
MOST_ROWS = 100_000
ALL_CHARACTERS = 600_000_000  # limit for a page; with many rows, each text is shortened
SHORTEST, LONGEST = 4_000, 100_000  # characters of a text, at most
TITLE = 160  # characters of a problem in the list
CHUNK_ROWS, CHUNK_CHARACTERS = 256, 1_000_000
SLOT = compile_pattern(r"@([A-Z]+)@")  # a slot in page.html
FONT = compile_pattern(r'url\(fonts/([\w-]+\.woff2)\) format\("woff2"\)(?:,url\([^)]*\) format\("\w+"\))*')


@dataclass(frozen=True)
class Row:
    """One text of a model, with what it answers.

    Args:
        facets: a value for each of the page's facets.
        length: characters of the whole response.
        notes: more about it, by name; an empty one is not shown.
        turns: role and text of each, where the model called tools.
        duplicate_of: id of another row that is shown next to it, or a name for ``duplicate_problem``.
    """

    id: str
    facets: Sequence[str]
    problem: str
    gold: str
    response: str
    length: int
    notes: dict[str, str] = field(default_factory=dict)
    turns: Sequence[tuple[str, str]] = ()
    duplicate_of: str = ""
    duplicate_problem: str = ""


@dataclass(frozen=True)
class Page:
    """The content of a page. ``facets`` are the properties to filter rows by; ``review`` lets people make decisions."""

    title: str
    facets: Sequence[str]
    summary: dict[str, str] = field(default_factory=dict)
    review: bool = False


def write_page(page: Page, rows: Iterable[Row], count: int, out: Path) -> int:
    """Write ``page`` with ``rows``, of which there are ``count``, to ``out``; returns how many are in it.

    Of more than `MOST_ROWS` rows, every second (third, …) one is in it, and the page says so. A text that is longer
    than a page of so many rows can hold loses its middle.

    Raises:
        InputError: there is no row.
    """
    if not count:
        raise InputError(f"{page.title}: there is no row to show")
    step = -(-count // MOST_ROWS)
    longest = max(SHORTEST, min(LONGEST, ALL_CHARACTERS // min(count, MOST_ROWS)))
    index: dict[str, Any] = {"title": page.title, "summary": page.summary, "review": page.review, "longest": longest}
    index |= {"count": count, "step": step, "ids": [], "titles": [], "lengths": [], "chunks": []}
    values: list[dict[str, int]] = [{} for _ in page.facets]
    codes: list[list[int]] = [[] for _ in page.facets]
    with tempfile.TemporaryFile("w+", encoding="ascii") as chunks:
        for number, chunk in enumerate(_chunks(islice(rows, 0, None, step), longest)):
            for row in chunk:
                index["ids"].append(row.id)
                index["titles"].append(" ".join(row.problem[: 2 * TITLE].split())[:TITLE])
                index["lengths"].append(row.length)
                for facet, known, coded in zip(row.facets, values, codes, strict=True):
                    coded.append(known.setdefault(facet, len(known)))
            index["chunks"].append(len(chunk))
            _write_data(chunks, f"texts-{number}", [_texts(row, longest) for row in chunk])
        index["facets"] = [
            {"name": name, "values": list(known), "codes": coded}
            for name, known, coded in zip(page.facets, values, codes, strict=True)
        ]
        chunks.seek(0)
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(out) as temporary, temporary.open("w", encoding="utf-8") as file:
            head, tail = _frame(page.title)
            file.write(head)
            _write_data(file, "index", index)
            file.write(tail)
            shutil.copyfileobj(chunks, file)
            file.write("</body>\n</html>\n")
    return len(index["ids"])


def _chunks(rows: Iterable[Row], longest: int) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += sum(min(len(text), longest) for text in (row.problem, row.response, row.duplicate_problem))
        if len(chunk) == CHUNK_ROWS or characters > CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _texts(row: Row, longest: int) -> list[Any]:
    texts = [
        shorten(text, longest)
        for text in (row.problem, row.gold, row.response, row.duplicate_of, row.duplicate_problem)
    ]
    notes = {name: shorten(note, longest) for name, note in row.notes.items() if note}
    turns = [(role, shorten(text, longest)) for role, text in row.turns]
    return [*texts, notes, turns] if turns else [*texts, notes]


def _write_data(file: IO[str], name: str, data: Any) -> None:
    packed = gzip.compress(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"), 6, mtime=0)
    file.write(f'<script type="application/gzip" id="{name}">{base64.b64encode(packed).decode()}</script>\n')


def _frame(title: str) -> tuple[str, str]:
    """Split the page into the part before the index, and the part between the index and the texts."""
    script, style, katex = (FOLDER / "page.js").read_text(), (FOLDER / "page.css").read_text(), _katex()
    style = f"{katex[1]}\n{style}"
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_digest(katex[0])} {_digest(script)}",
            f"style-src {_digest(style)}",
            "font-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    parts = {"TITLE": html.escape(title), "POLICY": policy, "STYLE": style, "SCRIPT": script, "KATEX": katex[0]}
    head, _, tail = (FOLDER / "page.html").read_text().partition("@INDEX@")
    return SLOT.sub(lambda slot: parts[slot[1]], head), SLOT.sub(lambda slot: parts[slot[1]], tail)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _katex() -> tuple[str, str]:
    """Return KaTeX's script with its license, and its style with the fonts in it."""
    digest = base64.b64encode(hashlib.sha512(KATEX.read_bytes()).digest()).decode()
    assert digest == KATEX_SHA512, f"{KATEX}: not the file that npm publishes"
    with tarfile.open(KATEX) as package:

        def read(name: str) -> bytes:
            file = package.extractfile(f"package/{name}")
            assert file is not None, f"{KATEX}: no {name}"
            return file.read()

        def font(match: Match) -> str:
            data = base64.b64encode(read(f"dist/fonts/{match[1]}")).decode()
            return f'url(data:font/woff2;base64,{data}) format("woff2")'

        script = f"/*\nKaTeX\n\n{read('LICENSE').decode()}*/\n{read('dist/katex.min.js').decode()}"
        return script, FONT.sub(font, read("dist/katex.min.css").decode())
