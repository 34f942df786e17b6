"""A limit on the tokens and cost of samples from a paid endpoint."""

from dataclasses import dataclass, field

from core.errors import InputError

MILLION = 1_000_000


@dataclass
class Budget:
    """The maximum that one command may spend. A request starts only if its longest answer still fits.

    Args:
        tokens: of prompts and answers together. None: any number.
        money: in the currency of the prices. None: any amount.
        input_price: of a million tokens of prompts.
        output_price: of a million tokens of answers.
        covers_cached: Whether answers that an earlier command paid for count, too, with the bytes of their prompts:
            then a command that was killed and starts again spends no more than one that was not.
    """

    tokens: int | None = None
    money: float | None = None
    input_price: float = 0.0
    output_price: float = 0.0
    covers_cached: bool = False
    prompt_tokens: int = field(default=0, init=False)  # spent, or reserved for requests that are under way
    answer_tokens: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.money is not None and not (self.input_price or self.output_price):
            raise InputError("a budget of money needs the prices of tokens: give the input price and the output price")

    @property
    def cost(self) -> float:
        """The cost of the tokens so far."""
        return (self.prompt_tokens * self.input_price + self.answer_tokens * self.output_price) / MILLION

    def reserve_tokens(self, prompt: int, answer: int) -> bool:
        """Reserve the maximum tokens of a request; return False and reserve nothing if they do not fit."""
        self.record_usage((0, 0), (prompt, answer))
        fits = (self.tokens is None or self.prompt_tokens + self.answer_tokens <= self.tokens) and (
            self.money is None or self.cost <= self.money
        )
        if not fits:
            self.record_usage((prompt, answer), (0, 0))
        return fits

    def record_usage(self, reserved: tuple[int, int], spent: tuple[int, int]) -> None:
        """Replace the reservation of a request by its actual usage."""
        self.prompt_tokens += spent[0] - reserved[0]
        self.answer_tokens += spent[1] - reserved[1]
