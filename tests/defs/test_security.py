"""Paths stay in the storage, texts of models are not interpreted, nothing from outside is unpickled."""

import ast
from pathlib import Path

import pytest

from assets.shared.metadata import cell, preview
from assets.shared.references import Reference
from assets.shared.storage import Storage
from core.errors import InputError
from evaluation.report.charts import Line, curves

ROOT = Path(__file__).resolve().parents[2]
UNPICKLING = {"pickle", "cPickle", "dill", "shelve", "marshal", "joblib", "cloudpickle"}
HOSTILE = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) `a` | b"


@pytest.mark.parametrize("identity", ["../../../out", "/etc"])
def test_an_output_cannot_lie_outside_of_the_storage(tmp_path, identity):
    storage = Storage(root=str(tmp_path / "storage"))
    with pytest.raises(InputError, match="outside of it"):
        storage.folder("training", "policy", identity)
    with pytest.raises(InputError, match="outside of it"):
        storage.write_reference(f"../../{identity}", Reference(path="x", digest="d"))
    assert storage.folder("training", "policy", "ok").is_relative_to(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_storage_does_not_lead_out(tmp_path):
    (tmp_path / "storage" / "training").mkdir(parents=True)
    (tmp_path / "storage" / "training" / "policy").symlink_to("/etc")
    with pytest.raises(InputError, match="outside of it"):
        Storage(root=str(tmp_path / "storage")).folder("training", "policy", "a")


def test_what_a_model_wrote_is_not_interpreted():
    import pyarrow as pa

    shown = preview(pa.table({"response": [HOSTILE]}), ["response"]).value
    assert "<img" not in shown and "[x](" not in shown
    assert "&lt;img" in cell(HOSTILE) and "\\|" in cell(HOSTILE)
    assert "<img" not in curves(HOSTILE, [Line(HOSTILE, "#000000", [(1, 0.0), (2, 1.0)])], unit=HOSTILE, legend=True)


def test_every_template_escapes():
    templates = list((ROOT / "evaluation").rglob("*.jinja"))
    assert templates
    for file in templates:
        text = file.read_text(encoding="utf-8")
        assert "|safe" not in text.replace(" ", "") and "autoescape false" not in text, file


def test_nothing_is_unpickled():
    found = []
    for package in ("assets", "evaluation", "pipelines", "training"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found += [f"{file}: import {name}" for name in names if name.split(".")[0] in UNPICKLING]
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "numpy.load", "np.load"):
                    safe = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                    if safe.get("weights_only") != "True" and safe.get("allow_pickle") != "False":
                        found.append(f"{file}:{node.lineno}: {ast.unparse(node)}")
    assert not found
