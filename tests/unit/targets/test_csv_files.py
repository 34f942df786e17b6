"""CSV files: where a row ends, and what is said of a file that is none."""

import gzip
from pathlib import Path

import pytest

from core.errors import InputError
from targets.read.json_rows import LARGEST_ROW
from tests.unit.targets.test_sources import read

HEADER = "problem,answer,response\n"


def written(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("character", "\u2028\u2029\x85\f\v\x1c\x1d\x1e")
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize(("name", "delimiter"), [("x.csv", ","), ("x.csv.gz", ","), ("x.tsv", "\t")])
def test_only_newlines_end_a_row(tmp_path: Path, character: str, quote: str, name: str, delimiter: str) -> None:
    row = delimiter.join(f"{quote}{value}{quote}" for value in (f"4{character}4", "8", f"a{character}b"))
    header = HEADER.replace(",", delimiter)
    for end in ("\n", "\r\n", "\r"):
        traces = read(written(tmp_path / name, header.replace("\n", end) + (row + end) * 3))
        assert [(trace.problem, trace.response) for trace in traces] == [(f"4{character}4", f"a{character}b")] * 3


def test_the_line_of_an_error_is_that_of_its_row(tmp_path: Path) -> None:
    rows = HEADER + 'p,1,"a\nb\nc"\n\n'
    with pytest.raises(InputError, match=r"x\.csv: not CSV: the row at line 6: .*double the quotes in them"):
        read(written(tmp_path / "x.csv", f'{rows}"Bob" has,1,r\n'))
    with pytest.raises(InputError, match=r"x\.csv: not CSV: it ends within a quoted value of the row at line 6; if"):
        read(written(tmp_path / "x.csv", f'{rows}p,1,"a\nb'))


@pytest.mark.parametrize("value", ["{}", '"{}"', '"a\n{}"', '"a ""quoted"" line\n{}\n"'])
def test_a_row_that_is_too_large_stays_one_row(tmp_path: Path, value: str) -> None:
    large = value.format("x" * LARGEST_ROW)
    path = written(tmp_path / "x.csv", f"{HEADER}p,1,a\nq,2,{large}\nr,3,b\n")
    traces = read(path)
    assert [trace.reasons for trace in traces] == [[], ["too_large"], []]
    assert traces[1].detail == f"a row of {len(large) + 5:,} characters (limit 16,777,216)"
    assert (traces[2].problem, traces[2].response) == ("r", "b")


def test_large_texts_that_are_no_row_are_one_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.csv: its first row has more than 16,777,216 characters"):
        read(written(tmp_path / "x.csv", "x" * (LARGEST_ROW + 1)))
    with pytest.raises(InputError, match=r"x\.csv: not CSV: it ends within a quoted value of the row at line 2;"):
        read(written(tmp_path / "x.csv", f'{HEADER}p,1,"{"x" * LARGEST_ROW}\nq,2,b\n'))


def test_a_file_without_a_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its first line is empty; expected a header"):
        read(written(tmp_path / "x.csv", ""))


@pytest.mark.parametrize(("name", "delimiter"), [("x.csv", ";"), ("x.csv", "\t"), ("x.csv", "|"), ("x.tsv", ",")])
def test_the_header_says_what_separates_values(tmp_path: Path, name: str, delimiter: str) -> None:
    text = HEADER.replace(",", delimiter) + f'p, q{delimiter}1{delimiter}"a{delimiter}b\nc"\n' * (delimiter != ",")
    traces = read(written(tmp_path / name, text + f"r{delimiter}2{delimiter}d\n"))
    assert [trace.response for trace in traces] == [f"a{delimiter}b\nc", "d"][delimiter == "," :]


def test_a_byte_that_is_not_utf8_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(f"{HEADER}café,1,a\n".encode("latin-1"))
    assert read(tmp_path / "x.csv")[0].detail.startswith("problem: a byte that is not UTF-8 (iconv converts the file)")
