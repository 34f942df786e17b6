"""The figures of the demo in the README are those of the picture, which is drawn from the demo's storage."""

from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


def test_the_readme_has_the_figures_of_the_scorecards_picture() -> None:
    with Image.open(ROOT / "docs" / "scorecard.png") as picture:
        drawn = [" ".join(line.split()) for line in picture.info["figures"].splitlines()]
    blocks = (ROOT / "README.md").read_text(encoding="utf-8").split("```text\n")[1:]
    lines = [" ".join(line.split()) for block in blocks for line in block.partition("```")[0].splitlines()]
    figures = [line for line in lines if line.startswith(("arithmetic", "promoted"))]
    assert len(figures) == 5 and set(figures) <= set(drawn)
