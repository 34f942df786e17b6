"""Base models: what is accepted, what is refused and in which words. Runs in either interpreter, without torch."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core import PROJECT
from core.errors import InputError
from core.files import digest_file, read_yaml
from core.model.base_model import SHIPPED, resolve_base
from core.model.model_folder import check_model, model_digest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model folder of the test's own."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "model"))


def test_the_embedded_model_is_the_one_that_the_recipe_made(tmp_path: Path) -> None:
    base = resolve_base("embedded", tmp_path)
    record = json.loads((SHIPPED.parent / "training_record.json").read_text())
    assert base.digest == record["model_digest"] == model_digest(base.path)
    recipe = PROJECT / "research/shipped_weights/recipe.yaml"
    assert (record["recipe"], record["recipe_sha256"]) == (read_yaml(recipe, "recipe"), digest_file(recipe))
    assert (base.source, base.revision, base.path.parent) == ("embedded", None, tmp_path)
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 4e6


def test_the_embedded_model_is_copied_once(tmp_path: Path) -> None:
    first = resolve_base("embedded", tmp_path)
    stamp = (first.path / "model.safetensors").stat().st_ctime_ns
    assert resolve_base("embedded", tmp_path) == first
    assert (first.path / "model.safetensors").stat().st_ctime_ns == stamp
    assert [path.name for path in tmp_path.iterdir()] == [first.path.name]


def test_a_folder_is_used_where_it_is(folder: Path, tmp_path: Path) -> None:
    base = resolve_base(str(folder), tmp_path / "out")
    assert base.path == folder and not (tmp_path / "out").exists()


def test_the_digest_follows_the_model_and_nothing_else(folder: Path) -> None:
    before = model_digest(folder)
    (folder / "lineage.json").write_text("{}")
    (folder / "README.md").write_text("about")
    assert model_digest(folder) == before == model_digest(SHIPPED)
    (folder / "generation_config.json").write_text("{}")
    assert model_digest(folder) != before


def without(name: str):
    return lambda folder: (folder / name).unlink()


def cut_short(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def lose_a_shard(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut_short, "bytes where its header says"),
        (
            lambda folder: (folder / "model.safetensors").write_text("version https://git-lfs"),
            "no readable safetensors header",
        ),
        (lose_a_shard, "names 1 files that are not there .model-00002-of-00002.safetensors"),
        (without("chat_template.jinja"), "no chat template"),
    ],
)
def test_a_damaged_folder_is_refused_by_name(folder: Path, damage, message: str) -> None:
    check_model(folder)
    damage(folder)
    with pytest.raises(InputError, match=message):
        resolve_base(str(folder), folder.parent)


@pytest.mark.parametrize(
    ("source", "revision", "message"),
    [
        ("no/such/folder", None, "'no/such/folder' does not exist: give 'embedded', a Hugging Face folder"),
        ("embedded", "main", "'embedded' has no revisions"),
        (str(SHIPPED / "config.json"), None, "config.json: not a GGUF file"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, source: str, revision: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve_base(source, tmp_path, revision=revision)
    assert not list(tmp_path.iterdir())


def test_a_gguf_file_needs_the_training_interpreter(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(InputError, match=r"no training interpreter there, which converts .*: run `luffy setup`"):
        resolve_base(str(file), tmp_path, train_python=tmp_path / "python")


def test_a_hub_model_that_cannot_be_had_offline_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In a process of its own: huggingface_hub reads its environment once, on import.
    script = (
        "import sys; from pathlib import Path; from core.model.base_model import resolve_base\n"
        "try: resolve_base('nobody/nothing', Path(sys.argv[1]), revision='main')\n"
        "except ValueError as error: print(error)"
    )
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("model 'nobody/nothing@main' is not a folder here or in the local cache, and the hub")
    assert "HF_HUB_OFFLINE is set" in done.stdout


def test_a_hub_model_in_the_cache_is_found_offline_with_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--someone--tiny"
    shutil.copytree(SHIPPED, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    script = (
        "import sys; from pathlib import Path; from core.model.base_model import resolve_base\n"
        "base = resolve_base('someone/tiny', Path(sys.argv[1])); print(base.revision, base.digest)"
    )
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [commit, model_digest(SHIPPED)]


def test_resolving_a_model_imports_nothing_heavy() -> None:
    script = (
        "import sys, core.model.base_model\n"
        "print({'torch', 'transformers', 'huggingface_hub', 'dagster'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
