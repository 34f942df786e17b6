"""Bad suites and files of problems. To add one, add a row."""

import pytest
from rows import DEEP, Row, name, nulls, parquet, retyped

MINE = "sources: [{file: mine.jsonl, columns: {problem: q, gold: a}}]"
SUITE_YAML = f"benchmarks:\n  - {{name: mine, group: evals, title: Mine, {MINE}}}\n"
CHOICE_YAML = SUITE_YAML.replace("title: Mine", "title: Mine, verifier: choice")
NUMBER_YAML = SUITE_YAML.replace("title: Mine", "title: Mine, verifier: number")
LONE = '{"q": "\\ud800 1+1=?", "a": "2"}\n'

GRADE = "evaluation grade --suite suite.parquet --samples samples --out out"
SUITE = "evaluation suite --out out.parquet"

MINE_SUITE = f"{SUITE} --suite mine.yaml"


ROWS: list[Row] = [
    # a source and its columns
    (
        f"{SUITE} --suite s.yaml --roots .",
        {"s.yaml": NUMBER_YAML, "mine.jsonl": '{"q": "How far?", "a": "far"}\n'},
        "the gold answer 'far' does not fit the verifier number",
    ),
    (
        f"{SUITE} --suite s.yaml --roots .",
        {"s.yaml": SUITE_YAML.replace("}]", ", fields: [b.c]}]"), "mine.jsonl": '{"q": "1+1?", "a": "2", "b": {}}\n'},
        "mine.jsonl, row 1: no column 'b.c'; the row has q, a, b. Correct `fields`",
    ),
    *(
        (
            f"{SUITE} --suite s.yaml --roots .",
            {
                "s.yaml": SUITE_YAML.replace("columns: {", "repeated: true, columns: {id: n, "),
                "mine.jsonl": f'{{"n": {first}, "q": "1+1?", "a": "2"}}\n{{"n": {second}, "q": "4-1?", "a": "3"}}\n',
            },
            said,
        )
        for first, second, said in (
            ("1", '"1"', "row 2: another problem than an earlier row with the id 1: '4-1?'; expected one problem"),
            ("null", "1", "row 1: the id (column n) is empty; add it, or map no id column"),
            ("1", "NaN", "row 2: the id (column n) is empty"),
        )
    ),
    *(
        (
            MINE_SUITE,
            {"mine.yaml": SUITE_YAML, "mine.jsonl": f'{{"q": {problem}, "a": "2"}}\n'},
            "row 1: the problem (c",
        )
        for problem in ("NaN", '"<NA>"')
    ),
    # suites
    (f"{SUITE} --suite s.yaml", {"s.yaml": DEEP}, "s.yaml: nested too deep"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": "[1, 2]"}, "expected a mapping"),
    (f"{SUITE} --suite s.yaml", {"s.yaml": SUITE_YAML}, "no file mine.jsonl"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": "[]"}, "expected a JSON object"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": ""}, "mine.jsonl"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": b"\xff"}, "not UTF-8"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": DEEP}, "nested too deep"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": LONE}, "lone surrogate"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": '{"q": "", "a": "2"}\n'}, "is empty"),
    (f"{SUITE} --suite s.yaml --roots .", {"s.yaml": SUITE_YAML, "mine.jsonl": '{"q": [1], "a": "2"}\n'}, "row 1"),
    (
        f"{SUITE} --suite s.yaml --roots .",
        {"s.yaml": SUITE_YAML, "mine.jsonl": '{"q": "1+1", "a": NaN}\n'},
        "mine.jsonl, row 1: column a: the gold answer is the number nan, which no response can match; write",
    ),
    (
        f"{SUITE} --suite s.yaml --roots .",
        {"s.yaml": SUITE_YAML, "mine.jsonl": '{"q": "1", "a": {"v": 1}}\n'},
        "an object",
    ),
    (
        f"{SUITE} --suite s.yaml --roots .",
        {"s.yaml": CHOICE_YAML, "mine.jsonl": '{"q": "Which? (A) 1 (B) 2", "a": "B) 2"}\n'},
        "row 1: column a: gold answer 'B) 2' is not the label of any option in its text (A, B); write the label alone",
    ),
    (
        f"{SUITE} --suite s.yaml --roots .",
        {"s.yaml": SUITE_YAML.replace("}]", ", answer_form: boxed}]"), "mine.jsonl": '{"q": "1+1", "a": "so 2"}\n'},
        "row 1: column a: the solution has no \\boxed{answer}",
    ),
    (f"{SUITE} --suite s.yaml", {"s.yaml": SUITE_YAML.replace("}]", ", index_base: 0}]")}, "`index_base` needs"),
    ("evaluation suite --out model", {}, "--out: model is a folder; expected the name of a file"),
    # suite files
    (f"{GRADE}", {"suite.parquet": parquet(a=[1])}, "suite.parquet: no column benchmark"),
    (f"{GRADE}", {"suite.parquet": retyped("gold", nulls)}, "gold"),
    # benchmarks
    (
        "evaluation compare model --roots suite.parquet",
        {},
        "benchmarks.roots: {here}/suite.parquet: is a file; expected a folder",
    ),
    (
        MINE_SUITE,
        {"mine.yaml": SUITE_YAML, "mine.jsonl": '{"q": "1 + 1?", "a": "2"}\n{"q": " 1  +\\n1?", "a": "2"}\n'},
        "row 2: the same problem as an earlier row",
    ),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS, ids=name)
def test_one_line_says_what_to_do(row, refuse):
    refuse(row)
