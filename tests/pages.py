"""What a page of rows holds, unpacked as its script does it."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

DATA = re.compile(r'<script type="application/gzip" id="([\w-]+)">([\w+/=]+)</script>')


def page_data(page: Path) -> tuple[dict[str, Any], list[Any]]:
    """The index of a page, and the texts of its rows."""
    found = {name: json.loads(gzip.decompress(base64.b64decode(data))) for name, data in DATA.findall(page.read_text())}
    index = found.pop("index")
    return index, [row for number in range(len(found)) for row in found[f"texts-{number}"]]
