"""The budget of a run: the run ends at the last checkpoint that the budget covers, and resumes exactly there."""

from collections.abc import Callable
from dataclasses import dataclass, field

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Field

from core.errors import InputError, validated
from training.cost.usage import Cost, Pace, Rates

PRICE = "run.device_hour_price"


class BudgetOptions(BaseModel):
    """Section ``run.budget``: the limits of a run, over all of its attempts; None: no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    hours: float | None = Field(default=None, gt=0)  # hours of wall-clock time
    tokens: float | None = Field(default=None, gt=0)  # tokens of prompts and responses
    money: float | None = Field(default=None, gt=0)  # cost at run.device_hour_price

    @classmethod
    def of(cls, config: DictConfig) -> "BudgetOptions":
        """Read the budget of a run; InputError for a value that is not allowed."""
        options = validated(cls, OmegaConf.to_container(config.run.budget), "run.budget.")
        if options.money is not None and not config.run.device_hour_price:
            raise InputError(f"run.budget.money={options.money:g}: set {PRICE}, the price of a device-hour, too")
        return options

    def exceeded(self, cost: Cost) -> str:
        """Return the keys that ``cost`` exceeds, with both numbers; "" if there are none."""
        limits = {name: limit for name in BudgetOptions.model_fields if (limit := getattr(self, name)) is not None}
        over = {name: limit for name, limit in limits.items() if getattr(cost, name) > limit}
        return ", ".join(f"run.budget.{name}={limit:g} ({getattr(cost, name):,.4g})" for name, limit in over.items())


@dataclass
class Budget:
    """Watches what a run spends.

    Args:
        options: the limits.
        rates: the devices and their price.
        spent: Returns what was spent so far; called only if it decides something.
        total: steps of the run.
        save_freq: steps between two checkpoints.
    """

    options: BudgetOptions
    rates: Rates
    spent: Callable[[], Cost]
    total: int
    save_freq: int
    _decided: int = field(default=0, init=False)  # step of the last checkpoint after which the run went on

    def check_start(self, done: int, pace: Pace | None) -> None:
        """Raise InputError if the run, of which ``done`` steps are saved, would not reach another checkpoint."""
        self._decided = done
        if done >= self.total:
            return
        more = pace.of_steps(self._next(done) - done, self.rates, start=True) if pace else self.rates.cost(0.0, 0.0)
        if over := self.options.exceeded(self.spent() + more):
            raise InputError(
                f"the budget does not reach the next checkpoint, of step {self._next(done)} of {self.total}: {over}: "
                f"raise it, or lower trainer.save_freq={self.save_freq}{self._saved(done)}"
            )

    def check(self, saved: int, pace: Callable[[], Pace | None]) -> None:
        """Raise InputError if the checkpoint of step ``saved`` is new and the budget does not cover the next one."""
        if saved <= self._decided or saved >= self.total or (measured := pace()) is None:
            return
        self._decided = saved
        more = measured.of_steps(self._next(saved) - saved, self.rates, start=False)
        if over := self.options.exceeded(self.spent() + more):
            raise InputError(
                f"the budget does not reach the checkpoint after step {saved} of {self.total}: {over}: the training "
                f"was stopped{self._saved(saved)}. Raise the budget and run the same command: it resumes exactly there"
            )

    def _next(self, step: int) -> int:
        return min(self.total, (step // self.save_freq + 1) * self.save_freq)

    @staticmethod
    def _saved(step: int) -> str:
        return f"; the checkpoint of step {step} is kept" if step else ""
