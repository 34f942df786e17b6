"""Every command block of the README and of docs/ works, or says why it is not executed (see `blocks`)."""

import re
from collections.abc import Iterator

import pytest

from tests.defs.blocks import CHECKED, EXECUTED, FENCE, NIGHTLY, ROOT, Sandbox, blocks, pages


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


@pytest.mark.parametrize("page", pages())
def test_a_page_indents_no_code(page):
    """Such a block has no language, so that nothing would try it."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    assert not re.search(r"\n\n {4,}\S.*", text)
