"""Foundations of every package: errors, files and digests, schemas, command lines, processes, progress."""

import os
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]  # the clone, or the folder of the wheel in site-packages
INSTALLED = PROJECT.with_suffix(".pth").is_file()  # from the wheel
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
# Where the training environment lies: in the clone, or in the user's cache.
ENVIRONMENTS = _CACHE / "luffy-on-dagster" / "{}.{}".format(*sys.version_info) if INSTALLED else PROJECT
