"""Bad inputs of `training`: targets, models, options, checkpoints. To add one, add a row."""

import json
import shlex

import pytest
from rows import Content, Row, name, numbers, retyped

SMALL = "--set data.train_batch_size=8 --set data.max_prompt_length=64 --set data.max_response_length=144"
TRAIN = f"training --targets targets.parquet --model model --out out {SMALL}"

NO_DASHBOARDS = ("127.0.0.1:8265", "ray://head:10001", "http://", "http://head:port", "http://[::1", " ")


def request(**values: object) -> dict[str, Content]:
    """A file r.json that asks for a training."""
    return {"r.json": json.dumps({"targets": "targets.parquet", "model": "model", "out": "out", **values})}


ROWS: list[Row] = [
    ("training", {}, "missing --targets, --model, --out"),
    ("training browse --run model --out page.html", {}, "--run model: no samples in it"),
    ("training --nothing", {}, "No such option: --nothing"),
    ("training examine --request nothing.json", {}, "nothing.json"),
    (f"{TRAIN} --seed x", {}, "--seed: Input should be a valid integer"),
    (f"{TRAIN} --seed -1", {}, "--seed: Input should be greater than or equal to 0"),
    (f"{TRAIN} --recipe nothing", {}, "no recipe 'nothing': expected one of"),
    (f"{TRAIN} --hardware tpu", {}, "no hardware 'tpu'; did you mean gpu? expected one of"),
    (f"{TRAIN} --recipe ../recipe/luffy", {}, "no recipe"),
    (f"{TRAIN} --recipe sft_rl", {}, "no heldout.parquet"),
    (f"{TRAIN} --backend cloud", {}, "--backend: Input should be 'local', 'ray' or 'slurm' (got 'cloud')"),
    (f"{TRAIN} --backend ray", {}, "ray_address is not set: give the dashboard"),
    *(
        (f"{TRAIN} --backend ray --ray-address {shlex.quote(address)}", {}, f"--ray-address: got {address!r}, expected")
        for address in NO_DASHBOARDS
    ),
    (
        "training --request r.json",
        request(backend="ray", ray_address="foo"),
        "r.json: ray_address: got 'foo', expected the dashboard of a Ray cluster, http://HOST:8265",
    ),
    (f"RAY_ADDRESS=foo {TRAIN} --backend ray --ray-address http://127.0.0.1:1", {}, "no Ray dashboard answers there"),
    (f"{TRAIN} --backend slurm --slurm '{{nodes: 2}}'", {}, "slurm.nodes=2: expected 1"),
    (f"{TRAIN} --set run.trackers=[nothing]", {}, "run.trackers: got 'nothing'"),
    (f"{TRAIN} --set policy.dtype=int8", {}, "policy.dtype: got 'int8', expected one of bfloat16, float32"),
    ("training export --run run --out out --dtype int8", {}, "--dtype: got 'int8', expected one of bfloat16, float32"),
    (f"{TRAIN} --set ===", {}, "==="),
    (f"{TRAIN} --set method.type=nothing", {}, "method.type: got 'nothing', expected one of"),
    ("training --print-config --set seed=1", {}, "--set: seed cannot be set: give it with --seed"),
    ("training --request r.json", request(overrides=["seed=1"]), "--set: seed cannot be set: give it with --seed"),
    (f"{TRAIN.replace('--out out', '')} --out ''", {}, "--out: got '', expected the path of a file or folder"),
    ("training --request r.json", request(out=""), "r.json: out: got '', expected the path of a file or folder"),
    ("training --print-config --hardware ''", {}, "no hardware '': expected one of"),
    ("training --request r.json", request(recipe=""), "no recipe '': expected one of"),
    (f"{TRAIN} --set reward.custom_reward_function.path=no.py", {}, "no.py: no such file"),
    (f"{TRAIN} --lineage l.json", {"l.json": "{"}, "l.json: not JSON"),
    (f"{TRAIN} --lineage l.json", {"l.json": "[]"}, "l.json: expected a JSON object"),
    ("training --request r.json", {"r.json": "{"}, "r.json: not JSON"),
    ("training --request r.json", {"r.json": "[]"}, "r.json: expected a JSON object"),
    ("training --request r.json", {"r.json": '{"recipee": "luffy"}'}, "recipee is not a setting; did you mean recipe?"),
    ("training --request r.json", {"r.json": '{"targets": 3, "model": "m", "out": "o"}'}, "r.json: targets"),
    (
        "training --request r.json",
        {"r.json": '{"targets": "none.parquet", "model": "model", "out": "out"}'},
        "targets none.parquet: no such file",
    ),
    *(
        ("training --request r.json", request(**values), f"r.json: {message}")
        for values, message in (
            ({"targets": {"path": "t", "digst": "x"}}, "targets.digst is not a setting; did you mean digest?"),
            ({"heldout": {"digest": "x"}}, "heldout: path: Field required"),
            ({"targets": {"path": "t", "digest": "wrong"}}, "targets.digest: expected a sha256 in hex: leave the"),
            ({"model": None}, "model: got None, expected a path, or an object with path and digest"),
            ({"seed": None}, "seed: Input should be a valid integer (got None)"),
            ({"ray-address": "x"}, "ray-address is not a setting; did you mean ray_address?"),
            ({"overrides": "seed=1"}, "overrides: Input should be a valid list (got 'seed=1')"),
            ({"slurm": [1]}, "slurm: Input should be a mapping of keys to values (got [1])"),
        )
    ),
    *(
        (
            f"training{command} --request r.json",
            request(**{key: {"path": path, "digest": "a" * 64}}),
            f"{key} {path}: has",
        )
        for command in ("", " examine")
        for key, path in (("targets", "targets.parquet"), ("model", "model"))
    ),
    (
        "training --recipe nonsense browse --run x --out p.html",
        {},
        "--recipe: leave out what stands before the command",
    ),
    ("training --print-config --set a=1 preflight", {}, "--print-config, --set: leave out what stands before"),
    (TRAIN.replace("targets.parquet", "samples"), {}, "targets samples: is a folder: materialize"),
    ("training --request r.json", request(out="a\0b"), "r.json: out: got 'a\\x00b', expected the path"),
    (f"{TRAIN} --recipe sft_rl --heldout samples", {}, "heldout samples: is a folder: give --heldout"),
    (f"{TRAIN} --set reward.custom_reward_function.path=samples", {}, "samples: is a folder"),
    (TRAIN, {"targets.parquet": retyped("prompt", numbers)}, "targets.parquet"),
    (TRAIN, {"targets.parquet": retyped("reward_model", numbers)}, "targets.parquet"),
    (TRAIN, {"targets.parquet": retyped("extra_info", numbers)}, "extra_info has the type int64, expected a struct"),
    (TRAIN, {"model/config.json": '{"model_type": "x", "max_position_embeddings": "x"}'}, "max_position_embeddings"),
    (f"{TRAIN} --set data.chat_template_kwargs={{enable_thinking:false}}", {}, "does not read it; it reads none"),
    (
        f"{TRAIN} --set data.chat_template_kwargs.strftime_now=today",
        {},
        "chat_template_kwargs.strftime_now: got 'today'",
    ),
    (f"training --targets targets.parquet --model model --out targets.parquet {SMALL}", {}, "targets.parquet"),
    ("training track", {}, "Missing option '--run'; see python -m training track --help"),
    ("training track --run model", {}, "--run model: no trackers.json in it"),
    ("training track --run model", {"model/trackers.json": "{"}, "trackers.json: not JSON"),
    (
        "training track --run model",
        {"model/trackers.json": '{"config": "", "name": "", "runs": 1}'},
        "trackers.json: runs",
    ),
    ("research.shipped_weights.base_model --out model", {}, "model: exists already"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS, ids=name)
def test_one_line_says_what_to_do(row, refuse):
    refuse(row)


@pytest.mark.parametrize("row", ROWS[6:7], ids=name)
def test_the_process_that_a_user_starts_ends_in_the_same_way(row, refuse_process):
    refuse_process(row)
