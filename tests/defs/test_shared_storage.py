"""A storage that several runs, and definitions below several prefixes, write to."""

import os
from pathlib import Path

import dagster as dg
import pytest

from assets.shared.references import ModelReference, Reference, model_stamp
from assets.shared.storage import ReferenceIOManager, Storage
from core.errors import InputError
from tests.defs.project import message


class Overtaken(ReferenceIOManager):
    """Another run materializes ``data/one`` as soon as this one has."""

    def handle_output(self, context: dg.OutputContext, obj: Reference) -> None:
        super().handle_output(context, obj)
        if context.asset_key.path[-1] == "one":
            self.storage.write_reference("data/one", reference(self.storage.path, "theirs"))


def reference(folder: Path, digest: str) -> Reference:
    (folder / digest).mkdir(parents=True, exist_ok=True)
    return Reference(path=str(folder / digest), digest=digest)


def graph(storage: Path, seen: list[str], prefix: str = "") -> list[dg.AssetsDefinition]:
    def key(name: str) -> dg.AssetKey:
        return dg.AssetKey([*([prefix] if prefix else []), "data", name])

    @dg.asset(key=key("one"))
    def one() -> dg.MaterializeResult[Reference]:
        return reference(storage, "ours").result({})

    @dg.asset(key=key("two"), ins={"made": dg.AssetIn(key("one"))})
    def two(made: Reference) -> dg.MaterializeResult[Reference]:
        seen.append(made.digest)
        return made.result({})

    return [one, two]


def test_a_run_reads_what_it_made_itself(tmp_path: Path) -> None:
    seen: list[str] = []
    assets = graph(tmp_path, seen)
    resources = {"io_manager": Overtaken(storage=Storage(root=str(tmp_path)))}
    with dg.DagsterInstance.ephemeral() as instance:
        assert dg.materialize(assets, instance=instance, resources=resources).success
        assert seen == ["ours"]
        assert dg.materialize(assets, selection=["data/two"], instance=instance, resources=resources).success
    assert seen == ["ours", "theirs"]  # a run that made none reads the last one


def test_a_storage_belongs_to_one_prefix(tmp_path: Path) -> None:
    def run(prefix: str) -> dg.ExecuteInProcessResult:
        manager = ReferenceIOManager(storage=Storage(root=str(tmp_path)), key_prefix=[prefix])
        return dg.materialize(graph(tmp_path, [], prefix), resources={"io_manager": manager}, raise_on_error=False)

    assert run("a").success and run("a").success
    refused = message(run("b"))
    assert (
        "it holds the outputs of the assets below a/, and these are below b/" in refused and "storage.root" in refused
    )


def test_a_model_that_changed_is_not_read_under_its_old_digest(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    storage = Storage(root=str(tmp_path / "storage"))
    facts = {"source": "model", "parameters": 1, "architecture": "a"}
    made = ModelReference(path=str(model), digest="d" * 64, stamp=model_stamp(model), **facts)
    storage.write_reference("models/base", made)
    assert storage.read_reference("models/base", ModelReference) == made
    os.utime(model / "config.json", (1, 1))
    with pytest.raises(InputError, match=f"models/base: the files in {model} have changed .* materialize it again"):
        storage.read_reference("models/base", ModelReference)
