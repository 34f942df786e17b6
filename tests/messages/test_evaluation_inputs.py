"""Bad inputs of `evaluation`: command lines, requests, samples, verdicts. To add one, add a row."""

import math

import pytest
from rows import Row, far_dates, name, nulls, retyped

MINE = "sources: [{file: mine.jsonl, columns: {problem: q, gold: a}}]"
SUITE_YAML = f"benchmarks:\n  - {{name: mine, group: evals, title: Mine, {MINE}}}\n"

GENERATE = "evaluation generate --suite suite.parquet --out out --model"
REMOTE = "m@http://127.0.0.1:9/v1"
GRADE = "evaluation grade --suite suite.parquet --samples samples --out out"
SUITE = "evaluation suite --out out.parquet"
REPORT = "evaluation report --suite suite.parquet --base graded --policy graded --out out.html"

MINE_SUITE = f"{SUITE} --suite mine.yaml"


ROWS: list[Row] = [
    # command lines
    ("evaluation", {}, "Missing command; see python -m evaluation --help"),
    ("evaluation traces --teacher model --problems none.jsonl --out t.parquet", {}, "none.jsonl: no such file"),
    ("evaluation traces --teacher model --problems p.csv --out t.parquet", {"p.csv": "a,b"}, "p.csv: "),
    (
        "evaluation traces --teacher nothing --problems p.jsonl --out t.parquet --verifier gym --fields [item]",
        {},
        "--fields: the verifier gym reads the field 'entry', and the file p.jsonl has only data_source, problem, item",
    ),
    ("evaluation traces --teacher nothing --problems traces.jsonl --out t.parquet", {}, "nothing: no such folder"),
    (
        f"{GENERATE} model --set 'evaluation.endpoint={{leave_out: [seed]}}'",
        {},
        "endpoint: model: no MODEL@URL; leave it out",
    ),
    (
        f"{GENERATE} {REMOTE} --set evaluation.endpoint=[seed]",
        {},
        "evaluation.endpoint: in it: expected a mapping, such as {leave_out: [seed]}",
    ),
    (
        f"{GENERATE} {REMOTE} --set 'evaluation.endpoint={{extra_body: {{n: 2}}}}'",
        {},
        "extra_body.n cannot be set here: the sampling",
    ),
    ("evaluation difficulty --samples targets.parquet --out d.parquet", {}, "targets.parquet"),
    (
        "evaluation browse graded --out graded/arithmetic.parquet",
        {},
        "is in the folder graded, and the command reads",
    ),
    (
        "evaluation leaderboard --results . --markdown graded/arithmetic.parquet",
        {},
        "and the command reads its parquet files",
    ),
    (
        "evaluation suite --out m.jsonl --suite s.yaml --roots .",
        {"s.yaml": SUITE_YAML.replace("mine.jsonl", "m.jsonl"), "m.jsonl": '{"q": "1+1?", "a": "2"}\n'},
        "m.jsonl: the command would overwrite this file",
    ),
    (f"{REPORT} --markdown suite.parquet", {}, "suite.parquet: the command would overwrite"),
    *(
        (
            "evaluation traces --teacher nothing --problems p.jsonl --out t.parquet",
            {"p.jsonl": f'{{"problem": "1+1?", "answer": 2}}\n{{"problem": {problem}, "answer": {answer}}}\n'},
            f"p.jsonl: row 2: column {column}: expected text, found {shown}",
        )
        for problem, answer, column, shown in (
            ("NaN", "2", "problem", "nan"),
            ('"2+2?"', "true", "answer", "True"),
        )
    ),
    ("evaluation browse model --out page.html", {}, "model: no <benchmark>.parquet there"),
    (
        "evaluation export inspect --samples model --suite suite.parquet --out logs",
        {},
        "model: no <benchmark>.parquet there",
    ),
    ("evaluation export inspect --samples graded --suite none.parquet --out logs", {}, "none.parquet"),
    ("evaluation export lm-eval --suite none.parquet --out tasks", {}, "none.parquet"),
    (f"{SUITE} --set targets.seed=1", {}, "--set targets.seed: this command reads the sections suite, benchmarks"),
    (
        f"{GENERATE} model --set interpreter.backend=ray",
        {},
        "interpreter.ray_address: backend ray needs the dash",
    ),
    (f"{GENERATE} model --set interpreter.ray_address=foo", {}, "got 'foo', expected the dashboard of a Ray"),
    # requests
    ("evaluation generate --request nothing.json", {}, "nothing.json"),
    ("evaluation traces --request r.json --samples 1", {"r.json": "{}"}, "leave out --samples: the file has all of it"),
    # keys that are given twice
    (MINE_SUITE, {"mine.yaml": f"title: a\n{SUITE_YAML}title: b\n"}, "mine.yaml, line 4: the key title is given twice"),
    (
        MINE_SUITE,
        {"mine.yaml": SUITE_YAML.replace("group: evals", "group: evals, group: ood")},
        "line 2: the key group is given twice; give it once",
    ),
    ("evaluation grade --request r.json", {"r.json": '{"suite": "a", "suite": "b"}'}, "r.json: the key suite is given"),
    # results
    (f"{GRADE}", {"samples/arithmetic.parquet": b""}, "arithmetic.parquet: not a readable parquet file"),
    (f"{GRADE}", {"samples/arithmetic.parquet": retyped("response", nulls)}, "samples"),
    (f"{GRADE}", {"samples/arithmetic.parquet": retyped("response", far_dates)}, "column response"),
    *(
        (
            "evaluation compare graded model",
            {"graded/arithmetic.parquet": retyped(column, values)},
            f"graded/arithmetic.parquet: {said}",
        )
        for column, values, said in (
            ("score", [1.0, math.nan], "row 1: the score is nan, expected a number from 0 to 1"),
            ("score", ["1", "0"], "column score: expected double, got string"),
            ("score", [1.0, 0.0], "row 1: the verdict is correct, and the score 0 contradicts it"),
            ("id", ["a", "a"], "row 1: sample 0 of problem a is there twice; grade the samples again"),
            ("verdict", ["correct", "right"], "row 1: the verdict is 'right', expected one of correct, "),
        )
    ),
    (
        REPORT,
        {"graded/arithmetic.parquet": retyped("id", ["a", "b"])},
        "--base graded: samples of arithmetic: 2 rows over 2 problems do not cover the 2 problems of the suite",
    ),
    (
        "evaluation compare graded model",
        {"graded/arithmetic.parquet": retyped("benchmark", ["a", "b"])},
        "graded/arithmetic.parquet: rows of a, b; expected arithmetic alone",
    ),
    ("evaluation compare ./nothing ./nothing2", {}, "./nothing: no <benchmark>.parquet"),
    ("evaluation compare graded graded", {}, "given twice"),
    ("evaluation compare graded model/config.json", {}, "model/config.json"),
    ("evaluation leaderboard --results nothing", {}, "nothing: no graded results"),
    ("evaluation leaderboard --results graded", {"graded/arithmetic.parquet": b"PAR1xxxxPAR1"}, "arithmetic.parquet"),
    (f"{REPORT} --lineage l.json", {"l.json": "[1]"}, "l.json: expected a JSON object"),
    (f"{REPORT} --metrics m.jsonl", {"m.jsonl": "[1]\n"}, "m.jsonl"),
    (f"{REPORT} --targets nothing.parquet", {}, "nothing.parquet: no such file"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS, ids=name)
def test_one_line_says_what_to_do(row, refuse):
    refuse(row)


@pytest.mark.parametrize("row", ROWS[1:2], ids=name)
def test_the_process_that_a_user_starts_ends_in_the_same_way(row, refuse_process):
    refuse_process(row)
