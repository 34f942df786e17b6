"""torch, which is imported when it is first used: that takes seconds, and options are validated without it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
    from torch import Tensor as Tensor
else:
    Tensor = Any

    class _Torch:
        def __getattr__(self, name: str) -> Any:
            import torch

            value = getattr(torch, name)
            setattr(self, name, value)  # the next use costs no more than that of a module
            return value

    torch = _Torch()
