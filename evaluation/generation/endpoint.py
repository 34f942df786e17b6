"""Draw samples of a served model through an OpenAI-compatible endpoint (such as vLLM's server).

Nothing proves which weights an endpoint serves: its name and address stand for the model in the lineage.
"""

import json
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from core.errors import InputError, first_line, validated
from core.model.calls import Format, write_calls
from core.model.endpoints import API_KEY, endpoint_of, open_client
from core.model.episodes import TOOL
from core.model.prompts import ENDPOINT, Messages, PromptRecord
from evaluation.generation.endpoint_answer import UnreadableAnswer, Usage, read_answer, read_tool_calls, reason_of
from evaluation.generation.requests import Beginning, Completion, SampleRequest, Sampling, sample_seed
from grading.tools.settings import ToolSettings
from grading.tools.tool import Context, Exchange
from grading.tools.toolbox import Toolbox

if TYPE_CHECKING:
    import openai
    import pyarrow as pa

    from evaluation.generation.sample_cache import SampleCache

CALLING = 4  # calls of a tool at once
CONCURRENCY = 64  # requests under way at once; the server batches them
RETRIES = 6  # most retries of a request, with growing pauses, if the server is busy or does not answer
TIMEOUT_S = 3600.0  # time limit of one response
REACH_S = 10.0  # time limit of the check whether an endpoint answers at all
LIMITS, DRAWN = ("max_tokens", "max_completion_tokens"), ("temperature", "top_p", "seed")  # fields of a request
REQUEST_FIELDS = {"model", "messages", "n", "stream", *LIMITS, *DRAWN}
REFUSED = (400, 422)  # statuses of a request that the server does not take
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


class EndpointOptions(BaseModel):
    """How requests to an endpoint differ from plain ones. Every option changes the samples and their names."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    max_tokens_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"  # what the server calls the limit
    leave_out: frozenset[Literal["seed", "temperature", "top_p"]] = frozenset()  # what the server does not take
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)  # further fields, such as reasoning_effort

    @field_validator("extra_body")
    @classmethod
    def _adds_to_the_request(cls, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        json.dumps(body, allow_nan=False)
        if taken := sorted(REQUEST_FIELDS & body.keys()):
            raise ValueError(f"{', '.join(taken)} cannot be set here: the sampling options set it")
        return body

    @classmethod
    def parse(cls, values: Any, where: str) -> "EndpointOptions":
        """Return the options in a mapping; InputError that starts with ``where`` if they do not fit."""
        if not isinstance(values, dict):
            raise InputError(f"{where}: expected a mapping, such as {{leave_out: [seed]}}, got {values!r:.80}")
        return validated(cls, values, f"{where}: ")

    def identity(self) -> dict[str, Any]:
        """Return the differences from a plain request, as JSON values."""
        options = self.model_dump(mode="json", exclude_defaults=True)
        return options | {"leave_out": sorted(self.leave_out)} if self.leave_out else options

    def fields(self, sampling: Sampling, seed: int) -> dict[str, Any]:
        """Return the fields of a request for one sample besides the model and the messages."""
        drawn = {"temperature": sampling.temperature, "top_p": sampling.top_p, "seed": seed}
        sent = {name: value for name, value in drawn.items() if name not in self.leave_out}
        return sent | {self.max_tokens_key: sampling.max_tokens, "extra_body": self.extra_body or None}


@dataclass(frozen=True)
class Endpoint:
    """The model ``name`` at ``url``; a key comes from the variable ``OPENAI_API_KEY``."""

    name: str
    url: str
    options: EndpointOptions = field(default=EndpointOptions(), repr=False)
    concurrency: int = field(default=CONCURRENCY, repr=False)  # requests under way at once
    tools: ToolSettings | None = field(default=None, repr=False)  # those that it may call

    @classmethod
    def parse(cls, text: str) -> "Endpoint | None":
        """Return the endpoint that ``text`` names as MODEL@URL, else None.

        >>> Endpoint.parse("Qwen/Qwen3-8B@http://localhost:8000/v1")
        Endpoint(name='Qwen/Qwen3-8B', url='http://localhost:8000/v1')
        """
        named = endpoint_of(text)
        return named and cls(*named)

    @property
    def checkpoint(self) -> str:
        """The name of the model on a scorecard."""
        return f"{self.name}@{self.url}"

    @property
    def call_format(self) -> Format:
        """How its turns, which come as messages, are written."""
        return "hermes"

    def decisive(self) -> dict[str, Any]:
        """Return the facts that decide a sample besides sampling, prompt and number, as far as they can be known."""
        return {"checkpoint": self.checkpoint, "device": "endpoint", **self.options.identity()}

    def render(self, conversation: Messages, *, calls: bool = False) -> str:
        """Return the messages as JSON: the endpoint renders them with its own chat template."""
        return json.dumps(list(conversation), ensure_ascii=False)

    def prompt_record(self, suite: "pa.Table", *, calls: bool = False) -> PromptRecord:
        """The template is the endpoint's own; an answer may come without thoughts."""
        return PromptRecord(ENDPOINT, thinking=False)

    def draw(
        self,
        requests: Sequence[SampleRequest],
        sampling: Sampling,
        samples: "SampleCache",
        *,
        budget: Budget | None = None,
    ) -> Generator[tuple[int, Completion], None, None]:
        """Yield (index, completion) in the order in which they finish; fewer than requested if ``budget`` ends.

        An answer may have cost money. So it goes to ``samples`` before anything else happens to it, also if it cannot
        be read, and what is under way when something fails, or the command is stopped, is waited for. After an error no
        request starts. Raises InputError if the endpoint refuses the key or the model, cannot be reached, or answers
        nothing usable.
        """
        import openai

        client = open_client(self.url, max_retries=RETRIES, timeout=TIMEOUT_S)
        self._reach(client)
        budget = budget or Budget()
        remaining = iter(enumerate(requests))
        upcoming = next(remaining, None)
        pending: dict[Future[tuple[Completion, Usage]], tuple[int, tuple[int, int]]] = {}
        failure: Exception | None = None
        tools: AbstractContextManager[Any] = Toolbox(self.tools, CALLING) if self.tools else nullcontext()
        with tools as toolbox, ThreadPoolExecutor(self.concurrency) as pool, _says_what_it_waits_for(pending):
            while True:
                while upcoming and failure is None and len(pending) < self.concurrency:
                    number, request = upcoming
                    most = self._most(request, sampling), sampling.max_tokens
                    if not budget.reserve_tokens(*most):
                        break
                    pending[pool.submit(self._complete, client, request, sampling, samples, toolbox)] = number, most
                    upcoming = next(remaining, None)
                if not pending:
                    break
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    number, most = pending.pop(future)
                    try:
                        completion, spent = future.result()
                    except (openai.OpenAIError, InputError) as error:
                        failure = failure or error
                        budget.record_usage(most, (0, 0))
                    else:
                        budget.record_usage(most, spent if any(spent) else most)
                        yield number, completion
        if failure is not None:
            raise self._explained(failure) from failure

    def _most(self, request: SampleRequest, sampling: Sampling) -> int:
        """Return the maximum number of tokens in all prompts of a sample.

        A prompt has at most as many tokens as bytes. Each turn of an episode asks with the prompt, the schemas of the
        tools, all turns before it, and their observations, where a character counts as a token.
        """
        prompt = len(request.prompt.encode())
        if self.tools is None or request.episode is None:
            return prompt
        turns, schemas = self.tools.turns, len(json.dumps(self.tools.schemas()))
        observed = self.tools.calls * self.tools.observation_chars
        asked = turns * (prompt + schemas + sampling.max_tokens)
        return asked + observed * turns * (turns - 1) // 2

    def _reach(self, client: "openai.OpenAI") -> None:
        """Raise an InputError if nothing listens at the address, before every request retries it."""
        import openai

        try:
            client.with_options(max_retries=0, timeout=REACH_S).models.with_raw_response.list()
        except (openai.APITimeoutError, openai.APIStatusError):
            return  # it is busy, or does not list its models
        except openai.APIConnectionError as error:
            raise self._explained(error) from error

    def _complete(
        self,
        client: "openai.OpenAI",
        request: SampleRequest,
        sampling: Sampling,
        samples: "SampleCache",
        toolbox: Toolbox | None,
    ) -> tuple[Completion, Usage]:
        """Return the answer to one request and its usage; the answer is in ``samples`` by then."""

        def ask(conversation: Any, seed: int, most: int, **more: Any) -> tuple[str, Completion, Usage]:
            fields = self.options.fields(replace(sampling, max_tokens=most), seed) | more
            response = client.chat.completions.with_raw_response.create(
                model=self.name, messages=conversation, **fields
            )
            raw = response.http_response.text
            try:
                return raw, *read_answer(raw)
            except UnreadableAnswer as error:
                file = samples.keep_unread(request.key, raw)
                raise InputError(f"{self.checkpoint}: {error}; what it sent is in {file}") from error

        if toolbox and request.episode:
            completion, usage = _converse(ask, request, request.episode, sampling.max_tokens, toolbox)
        else:
            _, completion, usage = ask(json.loads(request.prompt), request.seed, sampling.max_tokens)
        samples.add(request.key, completion)
        return completion, usage

    def _explained(self, error: Any) -> InputError:
        """Turn a failure of the endpoint into an InputError that explains it."""
        import openai

        if isinstance(error, openai.APIStatusError):
            reason = (reason_of(error.response.text) or error.response.reason_phrase).rstrip(".")
            hint = f"; set {API_KEY}" if error.status_code in (401, 403) else ""
            hint += _request_hint(reason) if error.status_code in REFUSED else ""
            return InputError(f"{self.checkpoint}: the endpoint answered {error.status_code}: {reason}{hint}")
        if isinstance(error, openai.APIConnectionError):
            return InputError(f"{self.checkpoint}: the endpoint cannot be reached ({error.__cause__ or error})")
        return error if isinstance(error, InputError) else InputError(f"{self.checkpoint}: {first_line(error)}")


def _converse(
    ask: Callable[..., tuple[str, Completion, Usage]],
    request: SampleRequest,
    episode: Beginning,
    most: int,
    toolbox: Toolbox,
) -> tuple[Completion, Usage]:
    """Ask for turn after turn, of at most ``most`` tokens together, until one calls no tool or none may follow."""
    conversation: Any = json.loads(request.prompt)
    turns, history, spent = list[dict[str, str]](), list[Exchange](), Usage(0, 0)
    number = 0
    while True:
        number += 1
        seed = sample_seed(request.seed, "turn", len(turns)) if turns else request.seed
        tools = toolbox.settings.schemas()
        raw, completion, usage = ask(conversation, seed, max(1, most - spent.answer), tools=tools)
        spent = Usage(spent.prompt + usage.prompt, spent.answer + usage.answer)
        asked = read_tool_calls(raw)
        calls = [call for _, call in asked]
        turns.append({"role": "assistant", "content": f"{completion.response}{write_calls(calls, 'hermes')}"})
        cut = bool(calls) and (number == toolbox.settings.turns or spent.answer >= most)
        if not calls or cut:
            reason = "length" if cut else completion.finish_reason
            return completion._replace(tokens=spent.answer, finish_reason=reason, turns=turns), spent
        made = toolbox.run(calls, history, Context(episode.row, request.seed))
        history += made
        said = [{"role": TOOL, "content": exchange.observation} for exchange in made]
        turns += said
        conversation.append(json.loads(raw)["choices"][0]["message"])
        conversation += [{**one, "tool_call_id": id_} for one, (id_, _) in zip(said, asked, strict=True)]


@contextmanager
def _says_what_it_waits_for(pending: Collection[Future[Any]]) -> Iterator[None]:
    """Tell a user who stops the command within the block how many answers it waits for."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if under_way := sum(not future.done() for future in pending):
            sys.stderr.write(f"stopping: waiting for {under_way} answers that are under way; they are stored\n")
        raise


def _request_hint(reason: str) -> str:
    """Name the option that makes the request acceptable, if the reason names a field that the server refuses."""
    if "max_completion_tokens" in reason:
        return "; send it by the setting endpoint: {max_tokens_key: max_completion_tokens}"
    named = [name for name in DRAWN if name in reason]
    return f"; leave it out by the setting endpoint: {{leave_out: [{', '.join(named)}]}}" if named else ""
