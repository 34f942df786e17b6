"""A chat template is tried in a process of its own, which has limits."""

import pytest

from core.errors import InputError
from core.model.chat_template import check_chat_template


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' * 10**10 }}",
        "{{ '%1000000000d' % 1 }}",
        "{% set ns = namespace(s='x') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
        "{% for i in range(10**5) %}{% for j in range(10**5) %}a{% endfor %}{% endfor %}",
    ],
)
def test_a_template_that_takes_all_memory_or_time_is_refused(template, tmp_path):
    (tmp_path / "chat_template.jinja").write_text(template)
    with pytest.raises(InputError, match="takes more than 5 s or 512 MiB to render a conversation of one line"):
        check_chat_template(tmp_path)
