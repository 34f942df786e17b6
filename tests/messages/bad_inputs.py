"""The bad inputs: one row each. To add one, add a line to the table of its command.

A row is ``(command, files, phrase)``: the command line, with ``VARIABLE=value`` before it where one is meant; the files
that are written into a copy of the good inputs (``model/``, ``suite.parquet``, ``graded/``, …: see ``conftest.py``)
before it is run there; and a part of the message. ``{here}`` in a command is that copy. The content of a file is its
text or bytes; ``GONE`` removes it.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

GONE = None
Content = str | bytes | Callable[[Path], Any] | None
Row = tuple[str, dict[str, Content], str]


def safetensors(header: bytes, data: bytes = b"") -> bytes:
    """A safetensors file with this header."""
    return struct.pack("<Q", len(header)) + header + data


def parquet(**columns: Any) -> Callable[[Path], None]:
    """A parquet file with these columns."""

    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns), path)

    return write


def retyped(column: str, values: Callable[[int], Any]) -> Callable[[Path], None]:
    """The file that is there, with other values in one column."""

    def write(path: Path) -> None:
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        index = table.schema.names.index(column)
        pq.write_table(table.set_column(index, column, values(table.num_rows)), path)

    return write


def binary_text(rows: int) -> Any:
    """Texts that are not UTF-8."""
    import pyarrow as pa

    return pa.array([b"\xff\xfe"] * rows, pa.binary()).view(pa.string())


def far_dates(rows: int) -> Any:
    """Dates that Python cannot hold."""
    import pyarrow as pa

    return pa.array([10**9] * rows, pa.date32())


def numbers(rows: int) -> Any:
    import pyarrow as pa

    return pa.array(list(range(rows)))


def nulls(rows: int) -> Any:
    import pyarrow as pa

    return pa.nulls(rows, pa.string())


MINE = "sources: [{file: mine.jsonl, columns: {problem: q, gold: a}}]"
SUITE_YAML = f"benchmarks:\n  - {{name: mine, group: evals, title: Mine, {MINE}}}\n"
LONE = '{"q": "\\ud800 1+1=?", "a": "2"}\n'
DEEP = "[" * 100_000

GENERATE = "evaluation generate --suite suite.parquet --out out --model"
GRADE = "evaluation grade --suite suite.parquet --samples samples --out out"
SUITE = "evaluation suite --out out.parquet"
REPORT = "evaluation report --suite suite.parquet --base graded --policy graded --out out.html"
PREPARE = "targets --out out --tokenizer model --source traces.jsonl"

EVALUATION: list[Row] = [
    # command lines
    ("evaluation", {}, "required: COMMAND"),
    ("evaluation nothing", {}, "invalid choice: 'nothing'"),
    ("evaluation suite", {}, "required: --out"),
    (f"{SUITE} --limit 0", {}, "--limit: got '0', expected a whole number from 1"),
    (f"{SUITE} --limit x", {}, "--limit: got 'x'"),
    (f"{SUITE} --seed -1", {}, "--seed: got '-1', expected a whole number from 0"),
    (f"{SUITE} --seed 99999999999999999999", {}, "--seed: got"),
    (f"{GRADE} --workers 0", {}, "--workers: got '0'"),
    (f"{GRADE} --workers -3", {}, "--workers: got '-3'"),
    (f"{GRADE} --limit-s nan", {}, "--limit-s: got 'nan', expected a number above 0"),
    (f"{GRADE} --limit-s 0", {}, "--limit-s: got '0'"),
    (f"{GRADE} --limit-s -1", {}, "--limit-s: got '-1'"),
    (f"{GRADE} --limit-s inf", {}, "--limit-s: got 'inf'"),
    ("evaluation disagreements graded --limit-s nan", {}, "--limit-s: got 'nan'"),
    ("evaluation disagreements graded --second nobody", {}, "invalid choice: 'nobody'"),
    (f"{GENERATE} model --temperature nan", {}, "--temperature: got 'nan'"),
    (f"{GENERATE} model --temperature -1", {}, "--temperature: got '-1'"),
    (f"{GENERATE} model --top-p 1.5", {}, "--top-p: got '1.5', expected a number above 0 up to 1"),
    (f"{GENERATE} model --max-tokens 0", {}, "--max-tokens: got '0'"),
    (f"{GENERATE} model --samples 0", {}, "--samples: got '0'"),
    (f"{GENERATE} model --replicas 0", {}, "--replicas: got '0'"),
    (f"{GENERATE} model --template nothing", {}, "--template: invalid choice: 'nothing'"),
    ("evaluation compare graded graded2 --pass-at 0", {}, "--pass-at: got '0'"),
    # suites
    (f"{SUITE} --suite nothing", {}, "benchmark suite 'nothing': neither a shipped suite"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": "a: [b"}, "s.yaml: not YAML"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": b"\xff\xfe\x00"}, "s.yaml: not YAML"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": DEEP}, "s.yaml: nested too deep"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": "[1, 2]"}, "expected a mapping"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": ""}, "benchmarks"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": "benchmarks: 3"}, "benchmarks: "),
    (f"{SUITE} --suite s.yaml", {"s.yaml": "benchmarks: []\ntitel: x"}, "titel is not a setting; did you mean title?"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": "benchmarks: [{name: A, group: evals, title: x}]"}, "benchmarks.0"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": "? [a]\n: b\n"}, "s.yaml"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": "a: &a [*a]"}, "s.yaml"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": "benchmarks: !!python/object:os.system {}"}, "s.yaml: not YAML"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": SUITE_YAML}, "no file mine.jsonl"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": "{"}, "mine.jsonl, line 1: not JSON"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": "[]"}, "expected a JSON object"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": ""}, "mine.jsonl"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": b"\xff"}, "not UTF-8"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": DEEP}, "nested too deep"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": LONE}, "lone surrogate"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": '{"q": "1"}\n'}, "no column 'a'"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": '{"q": "", "a": "2"}\n'}, "is empty"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": '{"q": [1], "a": "2"}\n'}, "row 1"),
    (f"{SUITE} --benchmarks nothing", {}, "benchmark nothing: not in suite embedded"),
    (f"{SUITE} --suite model", {}, "benchmark suite 'model'"),
    ("evaluation suite --out model", {}, "model: Is a directory; give another path"),
    # suite files
    (f"{GRADE}", {"suite.parquet": GONE}, "suite.parquet: no such file"),
    (f"{GRADE}", {"suite.parquet": b"PAR1"}, "suite.parquet: not a readable parquet file"),
    (f"{GRADE}", {"suite.parquet": parquet(a=[1])}, "suite.parquet: no column benchmark"),
    (f"{GRADE}", {"suite.parquet": retyped("gold", far_dates)}, "suite.parquet: column gold"),
    (f"{GRADE}", {"suite.parquet": retyped("gold", binary_text)}, "suite.parquet"),
    (f"{GRADE}", {"suite.parquet": retyped("prompt", numbers)}, "suite.parquet: column prompt"),
    (f"{GRADE}", {"suite.parquet": retyped("gold", nulls)}, "gold"),
    (f"{GRADE}", {"suite.parquet": retyped("grader", nulls)}, "grader"),
    (f"{GENERATE} model", {"suite.parquet": retyped("prompt", numbers)}, "suite.parquet: column prompt"),
    # results
    ("evaluation grade --suite suite.parquet --samples nothing --out out", {}, "nothing: no <benchmark>.parquet there"),
    (f"{GRADE}", {"samples/arithmetic.parquet": b""}, "arithmetic.parquet: not a readable parquet file"),
    (f"{GRADE}", {"samples/arithmetic.parquet": retyped("id", nulls)}, "samples"),
    (f"{GRADE}", {"samples/arithmetic.parquet": retyped("response", nulls)}, "samples"),
    (f"{GRADE}", {"samples/arithmetic.parquet": retyped("response", far_dates)}, "column response"),
    ("evaluation disagreements nothing", {}, "nothing: no <benchmark>.parquet there"),
    ("evaluation compare ./nothing ./nothing2", {}, "./nothing: no <benchmark>.parquet"),
    ("evaluation compare graded graded", {}, "given twice"),
    ("evaluation compare graded model/config.json", {}, "model/config.json"),
    ("evaluation leaderboard --results nothing", {}, "nothing: no graded results"),
    ("evaluation leaderboard --results graded", {"graded/arithmetic.parquet": b"PAR1xxxxPAR1"}, "arithmetic.parquet"),
    (f"{REPORT} --lineage l.json", {"l.json": "{"}, "l.json: not JSON"),
    (f"{REPORT} --lineage l.json", {"l.json": "[1]"}, "l.json: expected a JSON object"),
    (f"{REPORT} --lineage l.json", {"l.json": '{"targets": []}'}, "l.json: targets"),
    (f"{REPORT} --lineage l.json", {"l.json": DEEP}, "l.json: nested too deep"),
    (f"{REPORT} --lineage l.json", {"l.json": '{"started": "x", "finished": "y"}'}, "l.json: "),
    (f"{REPORT} --metrics m.jsonl", {"m.jsonl": "[1]\n"}, "m.jsonl"),
    (f"{REPORT} --metrics m.jsonl", {"m.jsonl": '{"step": 1}\n'}, "m.jsonl"),
    (f"{REPORT} --funnel f.json", {"f.json": "{}"}, "f.json"),
    (f"{REPORT} --funnel f.json", {"f.json": "[[1, 2, 3]]"}, "f.json"),
    (f"{REPORT} --targets nothing.parquet", {}, "nothing.parquet: no such file"),
    (f"{REPORT} --targets t.parquet", {"t.parquet": parquet(a=[1])}, "t.parquet: no column prompt"),
    (f"{REPORT} --targets t.parquet", {"t.parquet": parquet(prompt=["x"])}, "t.parquet: column prompt"),
    # models
    (f"{GENERATE} ./nothing", {}, "./nothing: no such folder"),
    (f"{GENERATE} model", {"model/config.json": "{"}, "config.json: not JSON"),
    (f"{GENERATE} model", {"model/config.json": "[]"}, "config.json: a JSON list"),
    (f"{GENERATE} model", {"model/config.json": "{}"}, "config.json: no model_type"),
    (f"{GENERATE} model", {"model/config.json": DEEP}, "config.json: nested too deep"),
    (f"{GENERATE} model", {"model/config.json": '{"model_type": 3}'}, "config.json: no model_type"),
    (f"{GENERATE} model", {"model/config.json": GONE}, "no config.json in it"),
    (f"{GENERATE} model", {"model/tokenizer_config.json": "[]"}, "tokenizer_config.json: a JSON list"),
    (f"{GENERATE} model", {"model/tokenizer_config.json": "{"}, "tokenizer_config.json: not JSON"),
    (f"{GENERATE} model", {"model/tokenizer.json": "{"}, "tokenizer.json: not "),
    (f"{GENERATE} model", {"model/tokenizer.json": GONE}, "no tokenizer"),
    (f"{GENERATE} model", {"model/model.safetensors": safetensors(b"{")}, "no readable safetensors header"),
    (f"{GENERATE} model", {"model/model.safetensors": b""}, "no readable safetensors header"),
    (f"{GENERATE} model", {"model/model.safetensors": safetensors(b"[1]")}, "no readable safetensors header"),
    (f"{GENERATE} model", {"model/model.safetensors": safetensors(b'{"a": {"dtype": "F32"}}')}, "no readable safetens"),
    (f"{GENERATE} model", {"model/model.safetensors": safetensors(b'{"a": 1}')}, "no readable safetensors header"),
    (f"{GENERATE} model", {"model/model.safetensors": safetensors(b'{"a": {"data_offsets": ["0", "x"]}}')}, "no reada"),
    (f"{GENERATE} model", {"model/model.safetensors": safetensors(b'{"a": {"data_offsets": [0, 9]}}')}, "header says"),
    (f"{GENERATE} model", {"model/x.safetensors.index.json": '{"weight_map": []}'}, "index.json: "),
    (f"{GENERATE} model", {"model/chat_template.jinja": "{% if %}"}, "chat template"),
    (f"{GENERATE} model", {"model/chat_template.jinja": "{{ ''.__class__.__mro__ }}"}, "chat template"),
    (f"{GENERATE} model", {"model/chat_template.jinja": "{{ raise_exception('no') }}"}, "chat template"),
    (f"{GENERATE} model", {"model/chat_template.jinja": "{{ messages[7].content }}"}, "chat template"),
    (f"{GENERATE} model", {"model/chat_template.jinja": b"\xff"}, "not UTF-8"),
    (f"{GENERATE} policy", {"policy/lineage.json": "{"}, "lineage.json"),
    (f"{GENERATE} policy", {"policy/lineage.json": "[]"}, "lineage.json"),
    (f"{GENERATE} policy", {"policy/lineage.json": b"\xff"}, "lineage.json"),
    (f"{GENERATE} model --benchmarks nothing", {}, "nothing"),
]

TARGETS: list[Row] = [
    ("targets", {}, "required: --out, --tokenizer"),
    (f"{PREPARE} --heldout-share 2", {}, "--heldout-share: got '2'"),
    (f"{PREPARE} --heldout-share nan", {}, "--heldout-share: got 'nan'"),
    (f"{PREPARE} --max-rows 0", {}, "--max-rows: got '0'"),
    (f"{PREPARE} --workers 0", {}, "--workers: got '0'"),
    (f"{PREPARE} --engine spark", {}, "engine: "),
    (f"{PREPARE} --set limit", {}, "--set 'limit': expected KEY=VALUE"),
    (f"{PREPARE} --set limit=[", {}, "--set 'limit=['"),
    (f"{PREPARE} --set limt=3", {}, "limt is not a setting; did you mean limit?"),
    (f"{PREPARE} --set limit=many", {}, "limit: "),
    (f"{PREPARE} --set near_duplicate=nan", {}, "near_duplicate: "),
    (f"{PREPARE} --set grade_limit_s=nan", {}, "grade_limit_s: "),
    (f"{PREPARE} --set grade_limit_s=.inf", {}, "grade_limit_s: "),
    (f"{PREPARE} --set mapping=nothing", {}, "mapping"),
    (f"{PREPARE} --set 'mapping={{problem: p}}'", {}, "mapping.answer"),
    (f"{PREPARE} --config c.yaml", {"c.yaml": "limit: ["}, "c.yaml: not YAML"),
    (f"{PREPARE} --config c.yaml", {"c.yaml": "3"}, "expected a mapping"),
    (f"{PREPARE} --config c.yaml", {"c.yaml": "limit: x"}, "c.yaml: limit"),
    (f"{PREPARE} --config nothing.yaml", {}, "nothing.yaml"),
    (f"{PREPARE} --config c.yaml", {"c.yaml": DEEP}, "c.yaml: nested too deep"),
    (f"{PREPARE} --config c.yaml", {"c.yaml": "{1: 2}"}, "c.yaml"),
    (f"{PREPARE} --suite s.yaml --check", {"s.yaml": "- {name: x}"}, "s.yaml"),
    (f"{PREPARE} --suite nothing.yaml --check", {}, "nothing.yaml"),
    (f"{PREPARE} --benchmarks nothing", {}, "nothing"),
    (f"{PREPARE} --benchmarks b.parquet", {"b.parquet": b"x"}, "b.parquet"),
    (f"{PREPARE} --benchmarks b.parquet", {"b.parquet": parquet(a=[1])}, "b.parquet"),
    (f"{PREPARE} --benchmarks b.parquet", {"b.parquet": parquet(benchmark=[1], id=[2], problem=[3])}, "b.parquet"),
    (f"{PREPARE} --previous nothing", {}, "nothing"),
    ("targets --out out --tokenizer model --source nothing.jsonl", {}, "nothing.jsonl"),
    ("targets --out out --tokenizer model --source ''", {}, "source"),
    ("targets --out out --tokenizer nothing --source traces.jsonl", {}, "tokenizer nothing: no such file"),
    (PREPARE, {"model/tokenizer.json": "{}"}, "tokenizer.json"),
    (PREPARE, {"model/tokenizer_config.json": "[]"}, "tokenizer_config.json: "),
    (PREPARE, {"model/tokenizer_config.json": b"\xff"}, "tokenizer_config.json: not UTF-8"),
    (
        PREPARE,
        {"model/tokenizer_config.json": '{"chat_template": [1]}', "model/chat_template.jinja": GONE},
        "chat temp",
    ),
    (PREPARE, {"model/tokenizer_config.json": '{"chat_template": 3}', "model/chat_template.jinja": GONE}, "chat templ"),
    (PREPARE, {"model/chat_template.jinja": "{{ ''.__class__.__mro__ }}"}, "chat template"),
    (PREPARE, {"model/chat_template.jinja": "{% for"}, "chat template is not Jinja"),
    (PREPARE, {"model/chat_template.jinja": "{{ 1 / 0 }}"}, "chat template does not render"),
    (PREPARE, {"model/chat_template.jinja": "{{ messages['x'].y.z }}"}, "chat template does not render"),
    (PREPARE, {"model/chat_template.jinja": b"\xff\xfe"}, "chat_template.jinja: not UTF-8"),
    (PREPARE, {"traces.jsonl": ""}, "traces.jsonl: it holds no JSON row"),
    (PREPARE, {"traces.jsonl": b"\x00\x01"}, "traces.jsonl: it holds no JSON row"),
    (PREPARE, {"traces.jsonl": '{"a": 1}\n'}, "traces.jsonl"),
    (PREPARE, {"traces.jsonl": DEEP}, "traces.jsonl"),
    ("targets --out out --tokenizer model --source t.parquet", {"t.parquet": b"PAR1"}, "t.parquet: not a readable"),
    ("targets --out out --tokenizer model --source t.parquet", {"t.parquet": parquet(a=[1])}, "t.parquet"),
    ("targets --out out --tokenizer model --source t.csv", {"t.csv": "problem,answer\n1,2\n"}, "t.csv"),
    ("targets --out out --tokenizer model --source t.jsonl.gz", {"t.jsonl.gz": b"\x1f\x8bxx"}, "t.jsonl.gz"),
    ("targets --out model/config.json --tokenizer model --source traces.jsonl", {}, "model/config.json"),
]

SMALL = "--set data.train_batch_size=8 --set data.max_prompt_length=64 --set data.max_response_length=144"
TRAIN = f"training --targets targets.parquet --model model --out out {SMALL}"
TRAINING: list[Row] = [
    ("training", {}, "missing --targets, --model, --out"),
    ("training --nothing", {}, "unrecognized arguments: --nothing"),
    (f"{TRAIN} --seed x", {}, "--seed: got 'x'"),
    (f"{TRAIN} --seed -1", {}, "--seed: got '-1'"),
    (f"{TRAIN} --recipe nothing", {}, "no recipe 'nothing': expected one of"),
    (f"{TRAIN} --hardware tpu", {}, "no hardware 'tpu': expected one of"),
    (f"{TRAIN} --recipe ../recipe/luffy", {}, "no recipe"),
    (f"{TRAIN} --recipe sft_rl", {}, "no heldout.parquet"),
    (f"{TRAIN} --set nothing=1", {}, "unknown key 'nothing'"),
    (f"{TRAIN} --set trainer.total_training_steps=abc", {}, "trainer.total_training_steps: got 'abc'"),
    (f"{TRAIN} --set trainer.total_training_steps=0", {}, "trainer.total_training_steps: got 0"),
    (f"{TRAIN} --set trainer.total_training_steps=1.5", {}, "got 1.5, expected a whole number from 1"),
    (f"{TRAIN} --set trainer.save_freq=x", {}, "trainer.save_freq: got 'x'"),
    (f"{TRAIN} --set data.train_batch_size=x", {}, "data.train_batch_size: got 'x'"),
    (f"{TRAIN} --set data.train_batch_size=0", {}, "data.train_batch_size: got 0"),
    (f"{TRAIN} --set data.max_prompt_length=x", {}, "data.max_prompt_length: got 'x'"),
    (f"{TRAIN} --set data.max_response_length=-4", {}, "data.max_response_length: got -4"),
    (f"{TRAIN} --set actor_rollout_ref.rollout.n=x", {}, "actor_rollout_ref.rollout.n: got 'x'"),
    (f"{TRAIN} --set actor_rollout_ref.actor.optim.lr=fast", {}, "actor_rollout_ref.actor.optim.lr: got 'fast'"),
    (f"{TRAIN} --set run.stall_seconds=x", {}, "run.stall_seconds: got 'x'"),
    (f"{TRAIN} --set run.backend=cloud", {}, "run.backend: got 'cloud'"),
    (f"{TRAIN} --set run.trackers=[nothing]", {}, "run.trackers: got 'nothing'"),
    (f"{TRAIN} --set ===", {}, "==="),
    (f"{TRAIN} --set a.b", {}, "a.b"),
    (f"{TRAIN} --set mixed.loss=nothing", {}, "loss: got 'nothing', expected one of"),
    (f"{TRAIN} --set mixed.loss=[1]", {}, "loss: got"),
    (f"{TRAIN} --set actor_rollout_ref.rollout.gpu_memory_utilization=lots", {}, "gpu_memory_utilization: got 'lots'"),
    (f"{TRAIN} --set algorithm.filter_groups.enable=maybe", {}, "enable: got 'maybe', expected true or false"),
    (f"{TRAIN} --lineage l.json", {"l.json": "{"}, "l.json: not JSON"),
    (f"{TRAIN} --lineage l.json", {"l.json": "[]"}, "l.json: expected a JSON object"),
    (TRAIN, {"targets.parquet": GONE}, "targets.parquet: no such file"),
    (TRAIN, {"targets.parquet": b"x"}, "targets.parquet: not a readable parquet file"),
    (TRAIN, {"targets.parquet": parquet(a=[1])}, "targets.parquet: no column"),
    (TRAIN, {"targets.parquet": retyped("prompt", numbers)}, "targets.parquet"),
    (TRAIN, {"targets.parquet": retyped("reward_model", numbers)}, "targets.parquet"),
    (TRAIN, {"model/config.json": GONE}, "no config.json"),
    (TRAIN, {"model/config.json": "{"}, "config.json: not JSON"),
    (TRAIN, {"model/config.json": "[]"}, "config.json: a JSON list"),
    (TRAIN, {"model/config.json": '{"model_type": "x", "max_position_embeddings": "x"}'}, "max_position_embeddings"),
    (TRAIN, {"model/tokenizer.json": "{"}, "tokenizer.json"),
    (TRAIN, {"model/model.safetensors": safetensors(b"{")}, "no readable safetensors header"),
    (TRAIN, {"model/chat_template.jinja": "{{ ''.__class__.__mro__ }}"}, "chat template"),
    (f"training --targets targets.parquet --model model --out targets.parquet {SMALL}", {}, "targets.parquet"),
    ("training.base --out model", {}, "model: exists already"),
    ("training.export.convert --gguf nothing.gguf --out out", {}, "nothing.gguf: no such file"),
    ("training.export.convert --gguf x.gguf --out out", {"x.gguf": b"GGUF\x00"}, "x.gguf: transformers cannot convert"),
]

RUN = "pipelines.cli.run"
PIPELINES: list[Row] = [
    (f"{RUN} --select nope", {}, "--select 'nope'"),
    (f"{RUN} --select 'key:((('", {}, "--select 'key:((('"),
    (f"{RUN} --select group:nothing", {}, "the selection contains no asset"),
    (f"{RUN} --select ''", {}, "--select ''"),
    (f"{RUN} --max-concurrent 0", {}, "--max-concurrent: got '0'"),
    (f"{RUN} --max-concurrent x", {}, "--max-concurrent: got 'x'"),
    (f"{RUN} --nothing", {}, "unrecognized arguments: --nothing"),
    (f"{RUN} --set training.seed", {}, "expected SECTION.KEY=VALUE"),
    (f"{RUN} --set seed=1", {}, "expected SECTION.KEY=VALUE"),
    (f"{RUN} --set training.seed=x", {}, "LUFFY__TRAINING__SEED: training.seed"),
    (f"{RUN} --set training.seeed=1", {}, "training.seeed is not a setting; did you mean seed?"),
    (f"{RUN} --set trainin.seed=1", {}, "with a section of"),
    (f"{RUN} --set 'training.seed=['", {}, "LUFFY__TRAINING__SEED: not YAML"),
    (f"{RUN} --set training.recipe=nothing", {}, "training.recipe: there is no 'nothing', expected one of"),
    (f"{RUN} --set training.hardware=tpu", {}, "training.hardware: there is no 'tpu', expected one of"),
    (f"{RUN} --set training.recipe=../hardware/cpu", {}, "training.recipe: there is no"),
    (f"{RUN} --set 'training.overrides=[paths.run=/x]'", {}, "says where a run writes"),
    (f"{RUN} --set training.overrides=3", {}, "training.overrides"),
    (f"{RUN} --set 'experiments.recipes=[nothing]'", {}, "there is no 'nothing', expected one of"),
    (f"{RUN} --set experiments.baseline=nothing", {}, "experiments.baseline: there is no 'nothing'"),
    (f"{RUN} --set 'experiments.overrides={{nothing: []}}'", {}, "there is no 'nothing'"),
    (f"{RUN} --set experiments.seeds=0", {}, "experiments.seeds"),
    (f"{RUN} --set schedule.retrain=nope", {}, "schedule.retrain: 'nope'"),
    (f"{RUN} --set 'schedule.retrain=61 * * * *'", {}, "schedule.retrain: '61 * * * *'"),
    (f"{RUN} --set schedule.timezone=Mars/X", {}, "schedule.timezone: 'Mars/X'"),
    (f"{RUN} --set schedule.timezone=../../etc/passwd", {}, "schedule.timezone"),
    (f"{RUN} --set evaluation.temperature=.nan", {}, "evaluation.temperature"),
    (f"{RUN} --set evaluation.grade_limit_s=.nan", {}, "evaluation.grade_limit_s"),
    (f"{RUN} --set evaluation.grade_limit_s=.inf", {}, "evaluation.grade_limit_s"),
    (f"{RUN} --set evaluation.template=nothing", {}, "evaluation.template: there is no 'nothing'"),
    (f"{RUN} --set evaluation.grade_workers=0", {}, "evaluation.grade_workers"),
    (f"{RUN} --set interpreter.grace_seconds=.nan", {}, "interpreter.grace_seconds"),
    (f"{RUN} --set interpreter.python={{here}}", {}, "no training interpreter at {here}"),
    (f"{RUN} --set storage.root=s3://bucket/x", {}, "storage.root: expected a folder"),
    (f"{RUN} --set targets.mapping=nothing", {}, "targets.mapping"),
    (f"{RUN} --set 'targets.source=[]'", {}, "targets.source"),
    (f"{RUN} --set promotion.max_ood_drop=2", {}, "promotion.max_ood_drop"),
    (f"{RUN} --set retention.keep_days=-1", {}, "retention.keep_days"),
    (f"{RUN} --set retention.keep_days=.inf", {}, "retention.keep_days"),
    (f"{RUN} --set suite.name=nothing", {}, "benchmark suite 'nothing'"),
    (f"{RUN} --set 'suite.only=[nothing]'", {}, "suite.only: nothing"),
    (f"{RUN} --set suite.name={{here}}/s.yaml", {"s.yaml": "["}, "s.yaml: not YAML"),
    (f"{RUN} --set 'notify.url_variables=x'", {}, "notify.url_variables"),
    ("LUFFY__X=1 pipelines.cli.run", {}, "variable LUFFY__X: expected LUFFY__SECTION__KEY"),
    ("LUFFY__TRAINING=1 pipelines.cli.run", {}, "variable LUFFY__TRAINING"),
    ("LUFFY__TRAINING__SEED__X=1 pipelines.cli.run", {}, "LUFFY__TRAINING__SEED__X"),
    ("LUFFY__TRAINING__=1 pipelines.cli.run", {}, "LUFFY__TRAINING__"),
    ("LUFFY_PROFILE=nothing pipelines.cli.run", {}, "profile 'nothing'"),
    ("DAGSTER_HOME={here}/traces.jsonl pipelines.cli.run", {}, "DAGSTER_HOME"),
    (f"{RUN} --profile {{here}}", {}, "profile"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "training: ["}, "p.yaml: not YAML"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "- a"}, "expected a mapping"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "trainig: {}"}, "trainig is not a setting; did you mean training?"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "training: 3"}, "p.yaml: training"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "training: {seed: x}"}, "p.yaml: training.seed"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "training:"}, "p.yaml: training"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "1: {}"}, "p.yaml"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": DEEP}, "p.yaml: nested too deep"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": b"\x80abc"}, "p.yaml: not YAML"),
    (f"{RUN} --profile {{here}}/p.yaml", {"p.yaml": "a: 1\na: !!python/name:os.system"}, "p.yaml: not YAML"),
    ("pipelines.cli.experiments nothing", {}, "unknown recipe nothing"),
    ("pipelines.cli.experiments --set x", {}, "expected SECTION.KEY=VALUE"),
    ("pipelines.cli.experiments --profile nothing", {}, "profile 'nothing'"),
    ("pipelines.cli.experiments luffy --copy-to {here}/traces.jsonl", {}, "traces.jsonl"),
    ("pipelines.cli.registry", {}, "required: action"),
    ("pipelines.cli.registry promote", {}, "required: TO"),
    ("pipelines.cli.registry promote abcd", {}, "'abcd' is neither a run's folder nor the digest of a policy"),
    ("pipelines.cli.registry promote /etc", {}, "/etc"),
    ("pipelines.cli.registry rollback", {}, "nothing to roll back"),
    ("pipelines.cli.registry show", {"storage/registry/champion.json": "{"}, "champion.json: not a decision"),
    ("pipelines.cli.registry show", {"storage/registry/champion.json": "[]"}, "champion.json: not a decision"),
    ("pipelines.cli.registry show", {"storage/registry/champion.json": b"\xff"}, "champion.json"),
    ("pipelines.cli.registry show", {"storage/registry/decisions/a.json": "{}"}, "a.json: not a decision"),
    (
        "pipelines.cli.registry promote abcd",
        {"storage/training/policy/x/policy/lineage.json": "{"},
        "lineage.json",
    ),
    (
        "pipelines.cli.registry promote abcd",
        {"storage/training/policy/x/policy/lineage.json": "[]"},
        "lineage.json",
    ),
    ("LUFFY__STORAGE__ROOT=s3://x pipelines.cli.registry show", {}, "storage.root: expected a folder"),
    ("pipelines.cli.execute nothing", {}, "invalid choice: 'nothing'"),
    ("pipelines.cli.execute everything --tags x", {}, "--tags"),
    ("pipelines.cli.execute everything --tags 3", {}, "--tags"),
    ("pipelines.cli.execute everything --assets no/asset", {}, "no/asset"),
    ("pipelines.cli.execute everything --max-concurrent 0", {}, "--max-concurrent: got '0'"),
    ("pipelines.cli.ui --port 0", {}, "--port: got '0'"),
    ("pipelines.cli.ui --port 70000", {}, "--port: got '70000'"),
    ("pipelines.cli.ui --port x", {}, "--port: got 'x'"),
    ("pipelines.cli.ui --host nowhere.invalid", {}, "nowhere.invalid"),
    ("LUFFY__TRAINING__RECIPE=nothing pipelines.cli.ui", {}, "training.recipe: there is no 'nothing', expected one of"),
    ("pipelines.cli.leaderboard --profile nothing", {}, "profile 'nothing'"),
    ("pipelines.cli.leaderboard", {}, "no graded results"),
]
