"""What the site holds besides docs/: the README, the generated reference, and the sources that pages link to.

The pages are written for the repository, where a link may lead to any file. In the site such a link leads to a page
with the file's text, or with the names in a folder.
"""

import json
import os
import posixpath
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PROJECT = Path(__file__).resolve().parents[2]
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "deploy/README.md": "deploy.md"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(?=[)#])")
DOCSTRING = re.compile(r'(?s)"""(.+?)(?:"""|\n\n)')  # its first paragraph
FENCED = re.compile(r"(?ms)^(```+).*?^\1$")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".sh": "sh", ".json": "json"}
HEAD = "---\nsearch: {exclude: true}\n---\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    pages = {page: (PROJECT / file).read_text(encoding="utf-8") for file, page in OUTSIDE.items()} | _reference()
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    linked = {target for file in files.documentation_pages() for target in _sources(file.src_uri, file.content_string)}
    for target in sorted(linked):
        files.append(File.generated(config, _page_of(target), content=_source_page(target, linked)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to their pages."""
    here = page.file.src_uri
    if here.startswith("source/"):
        return markdown

    def moved(link: re.Match[str]) -> str:
        return posixpath.relpath(_page_of(_target(here, link[0])), posixpath.dirname(here) or ".")

    return LINK.sub(moved, markdown)


def _reference() -> dict[str, str]:
    """The pages of `pipelines.reference`, without the settings of this shell."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LUFFY", "DAGSTER"))}
    command = [str(PROJECT / ".venv" / "bin" / "python"), "-m", "pipelines.reference"]
    done = subprocess.run(
        command, cwd=PROJECT, env={**kept, "PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PluginError(f"the reference cannot be generated:\n{done.stderr}")
    return json.loads(done.stdout)


def _sources(page: str, markdown: str) -> Iterator[str]:
    """The files and folders of the repository that ``page`` links to and that are no pages themselves."""
    for link in LINK.finditer(FENCED.sub("", markdown)):
        target = _target(page, link[0])
        if _page_of(target).startswith("source/") and (PROJECT / target).exists():
            yield target


def _target(page: str, link: str) -> str:
    """Where ``link`` of ``page`` leads, from the root of the repository."""
    origin = {generated: file for file, generated in OUTSIDE.items()}.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))


def _page_of(target: str) -> str:
    """The page or file of the site for a file or folder of the repository."""
    if target in OUTSIDE:
        return OUTSIDE[target]
    if f"{target}/README.md" in OUTSIDE:
        return OUTSIDE[f"{target}/README.md"]
    if target.startswith("docs/"):
        inside = target.removeprefix("docs/")
        return f"source/{target}/index.md" if (PROJECT / target).is_dir() else inside
    return f"source/{target}/index.md" if (PROJECT / target).is_dir() else f"source/{target}.md"


def _source_page(target: str, linked: set[str]) -> str:
    path = PROJECT / target
    if path.is_dir():
        rows = [_row(child, linked) for child in sorted(path.iterdir()) if child.name[0] not in "._"]
        return "\n".join([f"{HEAD}# {target}/\n", "| file | what it is |", "| --- | --- |", *rows])
    text = path.read_text(encoding="utf-8")
    return f"{HEAD}# {target}\n\n~~~~~~ {LANGUAGES.get(path.suffix, 'text')}\n{text}\n~~~~~~\n"


def _row(child: Path, linked: set[str]) -> str:
    target = child.relative_to(PROJECT).as_posix()
    name = f"`{child.name}{'/' if child.is_dir() else ''}`"
    if target in linked:
        name = f"[{name}]({posixpath.relpath(_page_of(target), f'source/{posixpath.dirname(target)}')})"
    about = child / "__init__.py" if child.is_dir() else child
    is_python = about.suffix == ".py" and about.is_file()
    docstring = DOCSTRING.match(about.read_text(encoding="utf-8")) if is_python else None
    return f"| {name} | {' '.join(docstring[1].split()).replace('|', chr(92) + '|') if docstring else ''} |"
