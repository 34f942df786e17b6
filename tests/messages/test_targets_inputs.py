"""Bad inputs of `targets`: traces, their settings, the tokenizer. To add one, add a row."""

import pytest
from rows import DEEP, Row, name, parquet

PREPARE = "targets --out out --tokenizer model --source traces.jsonl"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
SET = "targets --out o --tokenizer model --set targets."
PYTHON = "{type: python, path: f.py:f}"
REVIEW, HEADER = f"{PREPARE} --set targets.review=review.csv", "id,decision,reviewer,note\n"

CHECK = "name: c, severity: error, description: d, type: expect_column_to_exist, kwargs: {colum: id}"

ROWS: list[Row] = [
    ("targets", {}, "missing --out, --tokenizer; see python -m targets --help"),
    (
        "targets diff gone gone",
        {},
        "gone/profile.parquet: no such file; give the folder of a preparation",
    ),
    (f"{PREPARE} --benchmarks embedded --benchmark-root nothere", {}, "nothere: no such folder"),
    (f"{SET}'source={{path: embedded, split: test}}'", {}, "'embedded' is no file or dataset, so split would change"),
    (f"{PREPARE} --prepare-only --previous out", {}, "prepare_only writes no training set to compare with previous"),
    (f"{PREPARE} --benchmark-root .", {}, "benchmark_roots has the files of a suite: name the suite with benchmarks"),
    (f"{PREPARE} --generated traces.jsonl", {}, "--generated traces.jsonl: no source reads it; add --source generated"),
    ("targets --check diff out out", {}, "--check: leave out what stands before the command"),
    (
        "targets --request r.json",
        {"r.json": '{"out": "o", "tokenizer": "model", "benchmark_root": ["x"]}'},
        "benchmark_root is not a setting; did you mean benchmark_roots?",
    ),
    (
        f"{SET}'source={{path: traces.jsonl, verifier: {PYTHON}}}'",
        {"f.py": "import none_such"},
        "f.py:f: its import raised ModuleNotFoundError: No module named 'none_such'",
    ),
    (
        f"{SET}'source={{path: \"gym:gcd\", metadata: [x]}}'",
        {},
        "no columns for metadata or fields but",
    ),
    (
        f"{SET}'source={{path: embedded, fields: [x]}}'",
        {},
        "'embedded' has no columns for metadata or fields",
    ),
    (
        "targets --out o --tokenizer model --set 'targets.source={path: traces.jsonl, metadata: [x]}'",
        {},
        "no column x for meta",
    ),
    (f"{PREPARE} --set 'targets.pass_rate=[0, 0.5]'", {}, "pass_rate needs the pass rates of the problems"),
    (f"{PREPARE} --set 'targets.pass_rate=[0.9, 0.1]' --set targets.difficulty=d.parquet", {}, "0 <= low <= high <= 1"),
    (
        f"{PREPARE} --set 'targets.pass_rate=[0, 1]' --set targets.difficulty=d.parquet",
        {"d.parquet": parquet(problem=["p"], pass_rate=[1.5])},
        "d.parquet: row 1: pass_rate 1.5: expected 0 to 1",
    ),
    (f"{PREPARE} --docs docs", {}, "docs belongs to the quality checks: add check, or leave it out"),
    (f"{PREPARE} --check --prepare-only", {}, "prepare_only skips the checks that check requests"),
    (
        f"{PREPARE} --set checks.suite=s.yaml --check",
        {"s.yaml": f"name: s\nchecks: [{{{CHECK}}}]"},
        "kwargs.colum: ",
    ),
    (f"{PREPARE} --benchmarks nothing", {}, "nothing"),
    (f"{PREPARE} --benchmarks b.parquet", {"b.parquet": parquet(benchmark=[1], id=[2], problem=[3])}, "b.parquet"),
    ("targets --out out --tokenizer nothing --source traces.jsonl", {}, "tokenizer nothing: no such file"),
    (PREPARE, {"model/tokenizer_config.json": '{"eos_token": null}'}, "tokenizer_config.json: no eos_token"),
    (
        f"{PREPARE} --set 'targets.chat_template_kwargs={{strftime_now: x}}'",
        {},
        "strftime_now: got 'x'",
    ),
    (PREPARE, {"model/chat_template.jinja": "{% for"}, "chat template is not Jinja"),
    (PREPARE, {"model/chat_template.jinja": b"\xff\xfe"}, "chat_template.jinja: not UTF-8"),
    (PREPARE, {"traces.jsonl": '{"a": 1}\n'}, "traces.jsonl"),
    (PREPARE, {"traces.jsonl": DEEP}, "traces.jsonl"),
    (PREPARE, {"traces.jsonl": '{"\\u001b[2J": 1}\n'}, r"\x1b[2J"),
    ("targets --out out --tokenizer model --source t.parquet", {"t.parquet": b"PAR1"}, "t.parquet: not a readable"),
    ("targets --out out --tokenizer model --source t.csv", {"t.csv": 'a,b\n"1,2\n'}, "t.csv: not CSV"),
    (
        "targets --out out --tokenizer model --source t.json",
        {"t.json": "[{}][{}]"},
        "t.json: more data follow the array",
    ),
    ("targets --out out --tokenizer model --source t.parquet", {"t.parquet": LFS}, "t.parquet: it is a pointer of Git"),
    (PREPARE, {"traces.jsonl": '{"problem": 1}'.encode("utf-16")}, "traces.jsonl: it is UTF-16 text"),
    (PREPARE, {"traces.jsonl": '{\n "problem": 1\n}'}, "its objects go over several lines"),
    (
        PREPARE,
        {"traces.jsonl": "{'problem': 1}\n{'problem': 2}\n"},
        "its first line: not JSON: Expecting property name",
    ),
    (PREPARE, {"traces.jsonl": "{}\n{}\n"}, "its objects have no keys"),
    (PREPARE, {"traces.jsonl": '{"data": [{"problem": 1}]}'}, "it holds one JSON object in which the rows"),
    ("targets --out out --tokenizer model --source t.arrow", {"t.arrow": b"x"}, "t.arrow: not a readable Arrow file"),
    ("targets --out out --tokenizer model --source t.jsonl.zst", {"t.jsonl.zst": b"xx"}, "t.jsonl.zst: cannot be read"),
    (
        "targets --out out --tokenizer model --source in",
        {"in/test.jsonl": '{"problem": 1}', "in/dev.jsonl": '{"problem": 1}'},
        "in: no file of the split 'train': it has test, validation; set split",
    ),
    (f"{REVIEW}", {}, "review review.csv: No such file or directory"),
    (REVIEW, {"review.csv": ""}, "review.csv: line 1: no column id, decision, reviewer, note"),
    (REVIEW, {"review.csv": b"id,decision,reviewer,note\n\xff\n"}, "review.csv: not UTF-8 at byte 26"),
    (REVIEW, {"review.csv": f"{HEADER}x,drop,me,\n"}, "review.csv: line 2: decision 'drop': expected keep or refuse"),
    (REVIEW, {"review.csv": f"{HEADER},keep,me,\n"}, "review.csv: line 2: no id"),
    (REVIEW, {"review.csv": f"{HEADER}x,keep,me,a,b\n"}, "review.csv: line 2: 5 values, expected 4"),
    (REVIEW, {"review.csv": f"{HEADER}x,keep,me,\nx,refuse,you,\n"}, "line 3: 'x' has a decision in line 2 already"),
    (REVIEW, {"review.csv": f'{HEADER}x,keep,"me,\n'}, "review.csv: line 2: not CSV"),
    ("targets pull me/set suite.parquet/x", {}, "suite.parquet/x: suite.parquet is a file; expected a folder"),
    ("targets push nothing me/set", {}, "nothing/train.parquet: no such file"),
    ("targets pull me/set model", {}, "model: exists already: give the name of a new folder"),
    ("targets pull me/set out", {}, "pull me/set: the hub refused ("),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS, ids=name)
def test_one_line_says_what_to_do(row, refuse):
    refuse(row)
