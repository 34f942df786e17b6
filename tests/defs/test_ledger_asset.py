"""The asset training/ledger, the scorecard's table of it, and the documentation's."""

import base64
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pages import page_data
from preparing import trace

from assets.ledger import OTHER_TARGETS
from core.ledger_verdicts import LEARNED_FILE, VERDICTS
from core.model.base_model import SHIPPED
from core.model.lineage_file import write_manifest
from core.schemas import LEARNED
from targets.prepare import prepare
from targets.settings import build_config
from tests import manifests
from tests.defs.written_scores import Written


def metadata(written: Written, **changes: object) -> dict[str, str]:
    written.policy("p", arithmetic=0.5)
    source = written.project.storage / "t.jsonl"
    source.write_text("".join(json.dumps(trace(k)) + "\n" for k in range(3)))
    settings = build_config({"source": str(source), "workers": 1})
    prepared = prepare(settings, written.project.storage / "prepared", tokenizer_json=SHIPPED)
    written.refer("targets/rejected", prepared.rejected, "j" * 64)
    folder = Path(written.reference("training/policy")["path"])
    upstream = {"targets": {"prepared_digest": prepared.digest}}
    write_manifest(folder, manifests.manifest(**{"upstream": upstream, **changes}))
    result = written.project.run("training/ledger")
    assert result.success
    (event,) = result.get_asset_materialization_events()
    return {name: str(value.value) for name, value in event.materialization.metadata.items()}


def test_the_verdicts_and_the_heaviest_targets_are_shown(build):
    written = Written(build())
    run = written.project.storage / "training" / "policy" / "p"
    run.mkdir(parents=True)
    row = {
        "target": "t.jsonl:0",
        "data_source": "s",
        "problem": "1 | 2",
        "uses": 2,
        "loss_share": 0.5,
        "verdict": "not_learned",
    }
    row |= {"first_prob": 0.25, "last_prob": 0.2, "first_solved": None, "last_solved": None}
    other = {"target": "b", "uses": 1, "loss_share": 0.5, "verdict": "taught"}
    pq.write_table(pa.Table.from_pylist([row, other], schema=LEARNED), run / LEARNED_FILE)
    shown = metadata(written, ledger={"s": {"taught": 3, "not_learned": 1}, "t|u": {"unused": 1200}})
    assert "| source | taught | not learned | unused |" in shown["targets by verdict"]
    assert "| s | 3 | 1 | 0 |" in shown["targets by verdict"]
    assert "1,200" in shown["targets by verdict"] and VERDICTS["taught"] in shown["targets by verdict"]
    assert "| 50.00% | 2 | 0.25 to 0.20 |  | not learned |" in shown["heaviest targets"]
    assert shown["figure"].startswith("![picture](data:image/svg+xml;base64,")
    figure = base64.b64decode(shown["figure"].partition("base64,")[2].rstrip(")")).decode()
    assert "t|u: unused: 1,200 of 1,204 (99.7%)" in figure
    page = written.project.storage / shown["page"].split("/", 2)[2]
    index, texts = page_data(page)
    training = next(facet for facet in index["facets"] if facet["name"] == "training")
    assert [training["values"][code] for code in training["codes"]] == ["not learned", *["not in the training"] * 2]
    assert texts[0][5]["probability, first to last"] == "0.25 to 0.20" and texts[0][5]["uses"] == "2"


def test_traces_of_another_preparation_are_on_no_page(build):
    written = Written(build())
    run = written.project.storage / "training" / "policy" / "p"
    run.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([], schema=LEARNED), run / LEARNED_FILE)
    earlier = {"targets": {"prepared_digest": "e" * 64}}
    shown = metadata(written, ledger={"s": {"taught": 3}}, upstream=earlier)
    assert shown["page"] == OTHER_TARGETS and "targets by verdict" in shown


def test_a_recipe_without_a_ledger_says_so(build):
    assert "targets by verdict" not in metadata(Written(build()))


def test_the_documentation_defines_every_verdict():
    page = (Path(__file__).resolve().parents[2] / "docs" / "training.md").read_text()
    for name, meaning in VERDICTS.items():
        assert f"| `{name}` | {meaning} |" in page
