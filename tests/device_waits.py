"""Counts where Python waits for a GPU: on a CPU, where nothing waits, the same operations run."""

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

READ = {"_local_scalar_dense", "nonzero", "masked_select", "unique", "unique_consecutive", "_unique2", "equal"}
METHODS = ("tolist", "cpu", "numpy")  # of tensors; on a CPU they are no operations
ROOT = str(Path(__file__).parents[1])


class Waits(TorchDispatchMode):
    """Counts, while it is entered, what needs a tensor's values; ``where`` has the callers in this project and verl."""

    def __enter__(self) -> "Waits":
        self.where: Counter[str] = Counter()
        self._originals = {name: getattr(torch.Tensor, name) for name in METHODS}
        for name, original in self._originals.items():
            setattr(torch.Tensor, name, self._counting(name, original))
        return super().__enter__()

    def __exit__(self, *arguments: Any) -> None:
        for name, original in self._originals.items():
            setattr(torch.Tensor, name, original)
        super().__exit__(*arguments)

    @property
    def count(self) -> int:
        return self.where.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_mask = name in ("index", "index_put", "index_put_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if name in READ or by_mask:
            self._note(name)
        if NestedTensor in types:  # what it does itself counts, too
            with self._again():
                return NestedTensor.__torch_dispatch__(func, types, args, kwargs)
        return func(*args, **(kwargs or {}))

    @contextmanager
    def _again(self) -> Iterator[None]:
        super().__enter__()
        try:
            yield
        finally:
            super().__exit__(None, None, None)

    def _counting(self, name: str, original: Any) -> Any:
        def counted(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
            if self in _get_current_dispatch_mode_stack():
                self._note(name)
            return original(tensor, *arguments, **options)

        return counted

    def _note(self, name: str) -> None:
        frames = [frame for frame in traceback.extract_stack() if _of_interest(frame.filename)]
        frame = frames[-1] if frames else None
        self.where[f"{name} in {Path(frame.filename).name}:{frame.lineno} {frame.name}" if frame else name] += 1


def _of_interest(file: str) -> bool:
    ours = file.startswith(ROOT) and "site-packages" not in file and "/tests/" not in file
    return ours or "/verl/" in file
