"""The ledger: what is written of each use of a target, and what the uses come to."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tensordict import TensorDict

from core.errors import InputError
from core.ledger_verdicts import LEDGER, VERDICTS
from core.schemas import LEARNED, TARGET, USES
from training.algorithms.derived_seeds import prompt_id, target_ids
from training.algorithms.samples import Samples, Signal
from training.job.records.ledger_table import learned, verdicts, write_ledger
from training.methods.hpt import Hpt
from training.methods.luffy import Luffy
from training.methods.on_policy import OnPolicy
from training.verl_hooks.target_uses import Ledger, row_uses, supervised_uses, target_uses

NAN = float("nan")


@pytest.mark.parametrize(
    ("uses", "prob", "solved", "verdict"),
    [
        (0, (NAN, NAN), (NAN, NAN), "unused"),
        (1, (0.2, 0.2), (0.75, 0.75), "known"),
        (3, (0.2, 0.9), (1.0, 1.0), "known"),
        (1, (0.2, 0.2), (0.5, 0.5), "once"),
        (2, (0.2, 0.3), (0.0, 0.5), "taught"),
        (2, (0.2, 0.3), (0.5, 0.5), "imitated"),
        (2, (0.2, 0.3), (NAN, NAN), "imitated"),
        (2, (0.3, 0.2), (0.0, 0.5), "contradicted"),
        (2, (0.3, 0.2), (0.0, 0.4), "not_learned"),
        (2, (0.3, 0.3), (NAN, NAN), "not_learned"),
        (2, (NAN, NAN), (NAN, NAN), "unmeasured"),
    ],
)
def test_each_verdict_says_what_the_figures_are(uses, prob, solved, verdict):
    column = [np.array([values]).reshape(-1, 1) for values in (prob, solved)]
    assert verdicts(np.array([uses]), *column) == [verdict]
    assert verdict in VERDICTS


def uses_of(made: Samples, advantages: torch.Tensor, method: OnPolicy):
    """The uses of the targets of ``made``, whose supervised loss has the coefficient 0.5."""
    signal = Signal(advantages, torch.ones(7, 3), method.weights(made, {}), {"pg_loss": 1.0, "sft_loss": 0.5})
    return target_uses(made, signal, method.losses()["policy"].terms, step=7)


def samples() -> tuple[Samples, torch.Tensor]:
    """Two groups of three; the first sample of each starts with a target, and the last row is padding."""
    probs = torch.tensor([[0.5, 0.1, 0.9], [0.4, 0.4, 0.4], [0.3, 0.3, 1.0], [0.9, 0.9, 0.9], [0.2, 0.2, 0.2]])
    probs = torch.cat([probs, probs[:1].clone(), probs[:1].clone()])
    rows = {
        "response_mask": torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1]]),
        "old_log_probs": probs.log(),
        "prefix_length": torch.tensor([3, 0, 0, 2, 0, 0, 3]),
        "solved": torch.tensor([True, True, False, True, False, False, True]),
    }
    made = Samples(
        TensorDict(rows, batch_size=7),
        np.array(["a", "a", "a", "b", "b", "b", "a"], dtype=object),
        torch.tensor([True] * 6 + [False]),
        sources=["x"] * 3 + ["y"] * 3 + ["x"],
        targets=["t1", "", "", "t2", "", "", "t1"],
        numbers=[0, 1, 2, 0, 1, 2, 0],
    )
    advantages = torch.tensor([0.5, 0.5, -1.0, 1.0, -0.5, -0.5, 0.5]).unsqueeze(-1) * rows["response_mask"]
    return made, advantages


def test_a_use_has_the_figures_of_its_sample_and_its_share_of_the_loss():
    made, advantages = samples()
    first, second = uses_of(made, advantages, Luffy())
    assert pa.Table.from_pylist([first, second], schema=USES).num_rows == 2
    assert (first["step"], first["target"], first["data_source"], first["sample"]) == (7, "t1", "x", 0)
    assert (first["solved"], first["samples"]) == (1, 2)  # the policy's own, without the target and without padding
    assert (second["solved"], second["samples"], second["tokens"]) == (0, 2, 2)
    assert first["prob"] == pytest.approx(0.5)
    assert first["low_prob"] == pytest.approx(0.18)  # a tenth of the way through 0.1, 0.5, 0.9, by their positions
    shaped = [0.5 / 0.6, 0.1 / 0.2, 0.9 / 1.0], [0.9 / 1.0] * 2
    assert first["weight"] == pytest.approx(sum(shaped[0]) / 3)
    losses = 0.5 * sum(shaped[0]), 1.0 * sum(shaped[1])
    assert (first["loss_share"], second["loss_share"]) == pytest.approx(losses)


def test_a_supervised_loss_and_a_gate_count_in_the_share():
    made, advantages = samples()
    made.rows["solved"] = torch.tensor([True, False, False, True, True, False, True])  # by the policy: the second
    first, second = uses_of(made, advantages, Hpt())
    assert first["loss_share"] > 0 and (second["loss_share"], second["gate"]) == (0.0, 0.0)
    assert first["weight"] is None


def test_the_uses_of_a_supervised_update_come_from_the_figures_of_its_rows():
    figures = [[[1, 4, 0.5, 0.25, 3.0]], [[0, 2, 0.75, 0.5, 1.0], [1, 4, 0.5, 0.25, 0.0]]]  # of two ranks
    uses = {(use["target"], use["loss_share"]): use for use in row_uses(figures, [("a", "x"), ("b", "y")], 9)}
    assert set(uses) == {("b", 0.75), ("a", 0.25), ("b", 0.0)}
    use = uses["b", 0.75]
    assert (use["step"], use["data_source"], use["tokens"], use["prob"], use["low_prob"]) == (9, "y", 4, 0.5, 0.25)
    table = pa.Table.from_pylist([*uses.values()], schema=USES)
    assert table["solved"].null_count == table["samples"].null_count == 3


def test_a_step_that_is_made_again_replaces_its_file(tmp_path: Path):
    ledger = Ledger(tmp_path)
    for step, targets in ((1, ["a", "b"]), (2, ["c"]), (2, ["d", "c"])):
        ledger.begin()
        ledger.add(supervised_uses([(target, "x") for target in targets], step))
        ledger.write(step)
    ledger.add(supervised_uses([("e", "x")], 3))
    ledger.begin()  # the step was not finished
    assert [pq.read_table(tmp_path / f"{step}.parquet")["target"].to_pylist() for step in (1, 2)] == [
        ["a", "b"],
        ["c", "d"],
    ]


def test_the_shares_of_a_step_are_of_the_losses_of_all_its_updates(tmp_path: Path):
    ledger = Ledger(tmp_path)
    for losses in ({"a": 1.0, "b": 2.0}, {"c": 5.0}):
        ledger.add_losses([{"step": 1, "target": target, "loss_share": loss} for target, loss in losses.items()])
    ledger.add(supervised_uses([("d", "x")], 1))  # an update of its own
    ledger.write(1)
    assert pq.read_table(tmp_path / "1.parquet")["loss_share"].to_pylist() == [0.125, 0.25, 0.625, 1.0]


def rows(*names: str | None) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "data_source": f"s{number % 2}",
                "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": f"problem {number}"}],
                "extra_info": {"id": name, "index": None if name is None else number},
            }
            for number, name in enumerate(names)
        ],
        schema=TARGET,
    )


def use(step: int, target: str, prob: float | None, solved: int, samples: int = 4, **more: float) -> dict[str, object]:
    figures = {"prob": prob, "solved": solved, "samples": samples, "loss_share": 0.5}
    return {"step": step, "target": target, "data_source": "s", "sample": 0, **figures, **more}


def test_the_uses_of_a_target_come_to_its_first_and_last_figures():
    uses = pa.Table.from_pylist(
        [
            *(use(9, "b", 0.8, 3), use(2, "b", 0.2, 0), use(2, "b", 0.4, 0), use(5, "b", 0.9, 1)),
            use(3, "a", 0.3, 4),
        ],
        schema=USES,
    )
    table = learned(uses, rows("a", "b", "c"))
    assert table.schema.equals(LEARNED)
    a, b, c = table.to_pylist()
    assert (b["uses"], b["first_step"], b["last_step"], b["problem"]) == (3, 2, 9, "problem 1")
    assert (b["first_prob"], b["last_prob"]) == (pytest.approx(0.3), pytest.approx(0.8))  # two samples of one step
    assert (b["first_solved"], b["last_solved"], b["loss_share"]) == (0, 0.75, 2.0)
    assert [row["verdict"] for row in (a, b, c)] == ["known", "taught", "unused"]
    assert c["first_step"] is None and c["first_prob"] is None and c["loss_share"] == 0


def test_rows_have_the_id_that_the_samples_name():
    table = rows("a", None, "c")
    as_read = [{"extra_info": row["extra_info"], "raw_prompt": row["prompt"]} for row in table.to_pylist()]
    assert target_ids(table) == [prompt_id(row) for row in as_read]
    assert len(set(target_ids(table))) == 3


def test_only_the_steps_that_the_policy_has_seen_count(tmp_path: Path):
    pq.write_table(rows("a", "b"), tmp_path / "train.parquet")
    assert write_ledger(tmp_path, tmp_path / "train.parquet", 2) is None
    ledger = Ledger(tmp_path / LEDGER)
    for step in (1, 2, 10):
        ledger.begin()
        ledger.add([use(step, "a", step / 10, step)])
        ledger.write(step)
    assert write_ledger(tmp_path, tmp_path / "train.parquet", 2) == {"s0": {"taught": 1}, "s1": {"unused": 1}}
    assert pq.read_table(tmp_path / "ledger.parquet")["step"].to_pylist() == [1, 2]
    (tmp_path / LEDGER / "2 (copy).parquet").touch()
    (tmp_path / LEDGER / "2.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"2\.parquet: not a readable parquet file .* remove it, and its uses do not"):
        write_ledger(tmp_path, tmp_path / "train.parquet", 2)
