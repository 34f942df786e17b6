"""The cells of the notebook run as they stand, one after the other."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).with_name("quickstart.ipynb")


def run_cells(folder: Path, monkeypatch: pytest.MonkeyPatch, *, to_the_end: bool) -> list[Any]:
    """Run the cells in ``folder``, by default up to the training; return what each shows last."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        if "training" in cell["metadata"].get("tags", ()) and not to_the_end:
            break
        *body, last = ast.parse("".join(cell["source"])).body
        exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names))
        else:
            exec(compile(ast.Module([last], []), str(NOTEBOOK), "exec"), names)
    return shown


def test_the_cells_before_the_training_make_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, targets = run_cells(tmp_path, monkeypatch, to_the_end=False)
    assert len(targets) == 3 and all(r"\boxed{" in row["target"][0]["content"] for row in targets)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_notebook_ends_with_a_curve_and_the_scorecard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, curve, page = run_cells(tmp_path, monkeypatch, to_the_end=True)
    assert curve._repr_html_().startswith("<svg") and "Held-out questions" in page._repr_html_()
