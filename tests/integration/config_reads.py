"""Records which configuration keys a training reads: verl imports this module in every process of a job.

``VERL_USE_EXTERNAL_MODULES`` names it, and ``CONFIG_READS`` the folder that receives one file per process. A line is
the dotted key of a node that was read (``data.shuffle``), or a class of verl and its field
(``verl.workers.config.FSDPOptimizerConfig:lr``) where a section had been turned into that class. Copying, printing or
converting a section, and the checks of a class, are no reads.
"""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from omegaconf import DictConfig, OmegaConf
from verl.base_config import BaseConfig

# Frames of these hand a value on; what counts is who asked them.
CARRIERS = ("/omegaconf/", "/hydra/", "/dataclasses.py", "/copy.py", "verl/base_config.py", "verl/utils/config.py")
seen: set[str] = set()
lines = (Path(os.environ["CONFIG_READS"]) / f"{os.getpid()}.txt").open("a", buffering=1)


def note(name: str) -> None:
    if name not in seen:
        seen.add(name)
        lines.write(f"{name}\n")


def reads(frame: FrameType | None) -> bool:
    """Whether the code that asked for a value is one that does something with it."""
    return frame is not None and not any(part in frame.f_code.co_filename for part in CARRIERS)


def note_node(node: DictConfig, key: Any) -> None:
    if reads(sys._getframe(2)) and isinstance(key, str) and not key.startswith("__"):
        note(str(node._get_full_key(key)))


def recording(name: str) -> None:
    original = getattr(DictConfig, name)

    def record(self: DictConfig, key: Any, *arguments: Any, **named: Any) -> Any:
        note_node(self, key)
        return original(self, key, *arguments, **named)

    setattr(DictConfig, name, record)


for method in ("__getattr__", "__getitem__", "get", "pop"):
    recording(method)

select = OmegaConf.select


def record_select(node: Any, key: str, *arguments: Any, **named: Any) -> Any:
    if reads(sys._getframe(1)):
        note(str(node._get_full_key(key)))
    return select(node, key, *arguments, **named)


OmegaConf.select = staticmethod(record_select)


def record_field(self: BaseConfig, name: str) -> Any:
    if not name.startswith("_") and name in type(self).__dataclass_fields__:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.endswith("verl/base_config.py"):
            frame = frame.f_back  # config["lr"] and config.get("lr")
        if reads(frame) and frame is not None and frame.f_code.co_name != "__post_init__":
            note(f"{type(self).__module__}.{type(self).__qualname__}:{name}")
    return object.__getattribute__(self, name)


BaseConfig.__getattribute__ = record_field  # type: ignore[method-assign]
