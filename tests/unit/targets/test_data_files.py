"""Which files a folder or glob gives: by their names, by the card of a dataset, and what is said of the others."""

import os
from pathlib import Path

import pytest
from processes import without_rights

from core.errors import InputError
from targets.read.data_files import find_files, with_unique_names


def folder(path: Path, *names: str, card: str = "") -> Path:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("{}\n")
    if card:
        (path / "README.md").write_bytes(card.encode())
    return path


def names(source: Path | str, split: str = "train", subset: str | None = None) -> list[str]:
    return [file.name for file in with_unique_names(find_files(str(source), split, subset))]


@pytest.mark.parametrize(
    ("file", "split"),
    [
        ("test_part1.jsonl", "test"),
        ("math.testing.v2.jsonl", "test"),
        ("my eval set.jsonl", "test"),
        ("Test.jsonl", "test"),
        ("evaluation2.jsonl", "test"),
        ("2024-test/a.jsonl", "test"),
        ("test/2024/a.jsonl", "test"),
        ("val.jsonl", "validation"),
        ("gsm_dev/a.jsonl", "validation"),
        ("test-sets/traces_train.jsonl", "train"),  # the name of the file counts before its folders
        ("latest.jsonl", "train"),
        ("contest/a.jsonl", "train"),
        ("evaluator_values.jsonl", "train"),
        ("data/test-00000-of-00001-0123456789abcdef.parquet", "test"),
        ("data/cot-00000-of-00001.parquet", "cot"),
    ],
)
def test_a_word_between_separators_names_the_split_of_a_file(tmp_path: Path, file: str, split: str) -> None:
    folder(tmp_path, file, "train/x.jsonl")
    assert (file in names(tmp_path)) == (split == "train")
    assert file in names(tmp_path, split)


def test_a_name_with_the_words_of_two_splits_is_refused(tmp_path: Path) -> None:
    folder(tmp_path, "train_test.jsonl")
    with pytest.raises(
        InputError, match=r"'train_test\.jsonl' names the splits test and train; rename it, or give a gl"
    ):
        names(tmp_path)
    assert names(f"{tmp_path}/*") == ["train_test.jsonl"]


LANGUAGES = """---
configs:
- config_name: en
  data_files: en/*
- config_name: de
  data_dir: ./de/
---
# Two languages
"""


@pytest.mark.parametrize(("end", "begin"), [("\n", ""), ("\r\n", ""), ("\n", "\ufeff"), ("\n", "\n")])
def test_a_card_gives_the_files_of_a_subset(tmp_path: Path, end: str, begin: str) -> None:
    card = begin + LANGUAGES.replace("\n", end)
    folder(tmp_path, "en/a.jsonl", "de/train.jsonl", "de/test.jsonl", "de-old/a.jsonl", card=card)
    assert names(tmp_path, subset="en") == ["en/a.jsonl"]
    assert names(tmp_path, subset="de") == ["de/train.jsonl"] and names(tmp_path, "test", "de") == ["de/test.jsonl"]
    with pytest.raises(InputError, match=r"'fr' not found\. Available: \['en', 'de'\]; set subset"):
        names(tmp_path, subset="fr")
    with pytest.raises(InputError, match=r"pick one among the available configs: \['en', 'de'\]"):
        names(tmp_path)


@pytest.mark.parametrize(
    ("configs", "problem"),
    [
        ("- {config_name: x, data_files: gone-*.jsonl}", "No .supported. data files found in the folder"),
        ("- {config_name: x, data_files: [a.jsonl, b.jsonl]}", "Unable to find 'b.jsonl'"),
        ("- {config_name: x, data_files: ../b.jsonl}", r"Unable to find '\.\./b.jsonl'"),
        ("- {config_name: x, data_dir: gone}", "doesn't contain data files matching the patterns for config 'x'"),
        ("- {config_name: x, data_files: {train: a.jsonl}}", r"but got {'train': 'a\.jsonl'}"),
        ("- {config_name: x, data_files: a**.jsonl}", "Invalid pattern"),
        ("  default: a.jsonl", "Expected configs to be a list"),
        ("- 3", "not iterable"),
        ("- [", "while parsing a flow node"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(tmp_path: Path, configs: str, problem: str) -> None:
    folder(tmp_path, "b.jsonl")
    folder(tmp_path / "in", "a.jsonl", card=f"---\nconfigs:\n{configs}\n---\n")
    with pytest.raises(InputError, match=rf"README\.md: .*{problem}.*; set subset to one that it has, correct it, or"):
        names(tmp_path / "in")


def test_a_subset_that_no_card_names_is_refused(tmp_path: Path) -> None:
    folder(tmp_path, "de/a.jsonl", "en/a.jsonl")
    for card in ("", "# A dataset", "---\nlicense: mit\n---\n"):
        folder(tmp_path, card=card)
        with pytest.raises(InputError, match=r"no subset 'de': no README\.md there names subsets .*; give the folder"):
            names(tmp_path, subset="de")
    folder(tmp_path, card="---\nconfigs:\n")
    with pytest.raises(InputError, match="no line '---' ends the metadata"):
        names(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder(tmp_path, *(f"data/train-0000{k}-of-00003.parquet" for k in (0, 2)), "data/test-00000-of-00002.parquet")
    with pytest.raises(InputError, match=r"data/train-00001-of-00003\.parquet is missing, and others of these files"):
        names(tmp_path)
    assert len(names(f"{tmp_path}/data/train-*")) == 2
    folder(tmp_path, "data/train-00001-of-00003.parquet")
    assert len(names(tmp_path)) == 3
    folder(tmp_path / "from-one", "a-00001-of-00002.jsonl", "a-00002-of-00002.jsonl", "best-3-of-8.jsonl")
    assert len(names(tmp_path / "from-one")) == 3


def test_suffixes_are_compared_without_case_and_other_files_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    read = ["B.JSONL", "a.jsonl", "d.jsonl.bz2", "f.Parquet"]
    folder(tmp_path, *read, "c.txt", "e.feather", "t.csv", ".hidden", "state.json", card="# Traces")
    assert names(tmp_path) == read
    assert caplog.messages == [
        f"source {tmp_path}: not read: c.txt, e.feather, t.csv; to read such a file, name it as a source"
    ]
    assert {file.suffix for file in find_files(str(tmp_path))} == {".jsonl", ".parquet"}
    caplog.clear()
    assert names(f"{tmp_path}/*") == [*read, "t.csv"]
    assert caplog.messages[0].startswith(f"source {tmp_path}/*: not read: c.txt, e.feather; ")
    caplog.clear()
    folder(tmp_path / "tables", "train.csv", "test.csv")
    assert names(tmp_path / "tables") == ["train.csv"] and not caplog.messages


@pytest.mark.parametrize("glob", ["*/*.jsonl", "**/*.jsonl", "*/*/*.jsonl", "l*/x/*"])
def test_a_glob_into_a_folder_that_may_not_be_read_is_refused(glob: str) -> None:
    with without_rights(0o000) as locked:
        with pytest.raises(InputError, match=f"no right to read {locked}; make it readable"):
            names(f"{locked.parent}/{glob}")
        for beside in ("*.jsonl", "a*/*.jsonl"):
            with pytest.raises(InputError, match="no data file there"):
                names(f"{locked.parent}/{beside}")


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with without_rights(0o000) as locked, pytest.raises(InputError, match=rf"no right to read {locked}/a\.jsonl; make"):
        names(locked / "a.jsonl")
    folder(tmp_path, "a.jsonl")
    (tmp_path / "gone.jsonl").symlink_to("nowhere.jsonl")
    for source in (tmp_path, tmp_path / "*.jsonl", tmp_path / "gone.jsonl"):
        with pytest.raises(
            InputError, match=r"gone\.jsonl: a link to a file that is not there; get the file or remove"
        ):
            names(source)
    (tmp_path / "gone.jsonl").unlink()
    os.mkfifo(tmp_path / "pipe.jsonl")
    for source in (tmp_path, tmp_path / "*.jsonl", tmp_path / "pipe.jsonl"):
        with pytest.raises(
            InputError, match=r"pipe\.jsonl: neither a regular file nor a folder; write what it gives to"
        ):
            names(source)


@pytest.mark.parametrize("name", ["a::b.jsonl", "q'\".jsonl", "q?[1]*.jsonl", "{x,y}.jsonl", "a%20#b.jsonl", "~.jsonl"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder(tmp_path, name)
    assert names(tmp_path / name) == names(tmp_path) == [name]
