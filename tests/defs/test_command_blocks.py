"""Every command block of the README and of docs/ works, or says why it is not executed (see `blocks`)."""

import re
from collections.abc import Iterator

import pytest

from tests.defs.blocks import CHECKED, EXECUTED, FENCE, NIGHTLY, ROOT, Block, Sandbox, blocks, pages, parse, same


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return Sandbox(tmp_path_factory.mktemp("documentation"))


@pytest.fixture(scope="module")
def fresh_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """Another copy, in which the quick blocks have left nothing."""
    return Sandbox(tmp_path_factory.mktemp("nightly"))


def having(*ways: str) -> Iterator[object]:
    for page in pages():
        if any(block.how in ways for block in blocks(page)):
            yield pytest.param(page, id=page)


@pytest.mark.parametrize("page", having(EXECUTED))
def test_the_quick_blocks_of_a_page_run(page, sandbox):
    sandbox.forget()
    for block in blocks(page):
        if block.how == EXECUTED:
            sandbox.execute(block)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", having(NIGHTLY))
def test_all_blocks_of_a_page_run(page, fresh_sandbox):
    fresh_sandbox.forget()
    for block in blocks(page):
        if block.how in (EXECUTED, NIGHTLY):
            fresh_sandbox.execute(block)


@pytest.mark.parametrize("page", having(CHECKED))
def test_what_checked_blocks_name_is_there(page, sandbox):
    for block in blocks(page):
        if block.how == CHECKED:
            sandbox.check(block)


def test_a_block_that_says_nothing_of_itself_is_an_error():
    with pytest.raises(ValueError, match=r"page\.md:3: a block of ''"):
        list(parse("page.md", "text\n\n```\nmake demo\n```\n"))
    with pytest.raises(ValueError, match="needs no marker"):
        list(parse("page.md", "<!-- checked: why -->\n```text\na\n```\n"))
    (block,) = parse("page.md", "<!-- checked: -->\n```sh\nmake demo\n```\n")  # a marker without a reason is none
    assert block.how == EXECUTED


@pytest.mark.parametrize("page", pages())
def test_a_page_indents_no_code(page):
    """Such a block has no language, so that nothing would try it."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    assert not re.search(r"\n\n {4,}\S.*", text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("make nothing", "No rule to make target"),
        ("luffy run --profile nothing", "there is no profile nothing"),
        ("LUFFY__TRAINING__SPEED=1 luffy run", "there is no setting training.speed"),
        ("luffy run --set training.speed=1", "there is no setting training.speed"),
        ("luffy run --nothing 1", "has no option --nothing"),
        ("python -m evaluation traces --teacher A --nothing", "has no option --nothing"),
        ("docker compose up", "cannot be checked"),
    ],
)
def test_what_is_not_there_is_noticed(text, reason, sandbox):
    with pytest.raises(AssertionError, match=reason):
        sandbox.check(Block("page.md", 1, "sh", text, CHECKED))


def test_a_block_that_fails_or_prints_something_else_is_noticed(sandbox):
    with pytest.raises(AssertionError, match=r"page\.md:1: exit status 3"):
        sandbox.execute(Block("page.md", 1, "sh", "true\n(exit 3)\ntrue", EXECUTED))
    sandbox.execute(Block("page.md", 1, "console", "$ echo 1.5 s; false\n… s\n", EXECUTED))
    with pytest.raises(AssertionError, match="something else"):
        sandbox.execute(Block("page.md", 1, "console", "$ echo 1.5 s\n1.5 h\n", EXECUTED))


def test_a_page_stays_in_the_folder_that_it_goes_to(sandbox):
    sandbox.forget()
    sandbox.execute(Block("page.md", 1, "sh", "mkdir -p ~/mine && cd ~/mine\ntouch here", EXECUTED))
    sandbox.execute(Block("page.md", 2, "console", "$ ls\nhere\n", EXECUTED))
    sandbox.forget()  # another page
    sandbox.execute(Block("page.md", 3, "sh", "test -f pyproject.toml", EXECUTED))


def test_dots_stand_for_what_changes():
    assert same(["[1/2] a done 0.5 s", "x", "y", "end"], ["[1/2] a done … s", "…", "end"])
    assert not same(["[1/2] a done 0.5 s", "end"], ["[2/2] a done … s", "…", "end"])
    assert same(["end"], ["…", "end"]) and not same([], ["end"])
