"""What every block of options is made of. No torch.

The options of a formula stand next to it, in the module of the formula; options of a method are the fields of its class
in ``training.methods``. ``docs/algorithm.md`` explains them one by one, with their sources.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.errors import InputError

Share = Annotated[float, Field(ge=0.0, le=1.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
Positive = Annotated[float, Field(gt=0.0)]
Baseline = Literal["all_samples", "on_policy"]


class Options(BaseModel):
    """A frozen block of options, which validates itself; unknown keys and values of another type are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __hash__(self) -> int:
        """That of the values; a mapping among them has none of its own."""
        return hash(self.model_dump_json())


def contradiction(first: str, value: object, second: str, other: object, why: str) -> InputError:
    """Make the error for two options that exclude each other."""
    return InputError(f"{first}={value} contradicts {second}={other}: {why}. Change one of them.")
