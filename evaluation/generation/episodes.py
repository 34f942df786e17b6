"""Draw samples that call tools: an engine that gets the next turn of a sample as a further request.

While tools answer, the engine draws other samples. A failure of a tool to run ends the generation, since nothing would
follow about the answer; samples that were complete before it are stored.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from core.errors import TaskFailed
from core.model.episodes import Example
from evaluation.generation.engine import Engine, EngineRequest
from evaluation.generation.requests import Completion, sample_seed
from grading.isolation.sandbox import SandboxFailed
from grading.tools.episode import Episode
from grading.tools.tool import Context, Exchange
from grading.tools.toolbox import Toolbox

WORKERS = 4  # turns that call tools at once


class EpisodeEngine(Engine):
    """An engine with tools."""

    def complete(self, groups: Iterable[Sequence[EngineRequest]]) -> Iterator[tuple[int, Completion]]:
        assert self._options.tools
        with Toolbox(self._options.tools, WORKERS) as toolbox, ThreadPoolExecutor(WORKERS) as pool:
            turns = _Turns(groups, self, toolbox, pool)
            for number, completion in super().complete(turns):
                turns.add(number, completion)
                yield from turns.take_ended()
            yield from turns.take_ended()

    def episode(self, request: EngineRequest) -> Episode:
        """Return the episode that begins with the prompt of ``request``."""
        assert request.episode and self._options.tools
        context = self._engine.vllm_config.model_config.max_model_len
        return Episode(
            Example(list(request.tokens), [], []),
            [],
            request.episode.conversation,
            self.llm.get_tokenizer(),
            self._options.template,
            limit=min(self._options.max_tokens, context - len(request.tokens)),
            turns=self._options.tools.turns,
        )

    def _completion(self, sample: Any) -> Completion:
        return super()._completion(sample)._replace(token_ids=list(sample.token_ids))


class _Turns:
    """The requests of an engine: the next turns of samples for which tools have answered, and then new samples."""

    def __init__(
        self,
        groups: Iterable[Sequence[EngineRequest]],
        engine: EpisodeEngine,
        toolbox: Toolbox,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._groups, self._engine, self._toolbox, self._pool = iter(groups), engine, toolbox, pool
        self._requests: dict[int, EngineRequest] = {}  # the first one of each sample that is not ended
        self._episodes: dict[int, Episode] = {}
        self._calling: dict[Future[list[Exchange]], int] = {}
        self._ended: list[tuple[int, Completion]] = []

    def __iter__(self) -> "_Turns":
        return self

    def __next__(self) -> Sequence[EngineRequest]:
        while True:
            answered = [future for future in self._calling if future.done()]
            if not answered and (group := next(self._groups, None)):
                self._requests |= {request.number: request for request in group}
                return group
            if not answered and len(self._requests) == len(self._calling) > 0:  # the engine has nothing to do
                answered = list(wait(self._calling, return_when=FIRST_COMPLETED).done)
            if following := [request for future in answered if (request := self._next_turn(future))]:
                return following
            if not answered:
                raise StopIteration

    def add(self, number: int, completion: Completion) -> None:
        """Add what the model has written: the turn calls tools, or the sample has ended."""
        request = self._requests[number]
        if request.episode is None:
            self._end(number, completion)
            return
        if number not in self._episodes:
            self._episodes[number] = self._engine.episode(request)
        episode = self._episodes[number]
        episode.add_turn(completion.token_ids or [])
        if calls := episode.calls():
            context = Context(request.episode.row, request.seed)
            self._calling[self._pool.submit(self._toolbox.run, calls, episode.history, context)] = number
        else:
            self._end(number, completion)

    def take_ended(self) -> Iterator[tuple[int, Completion]]:
        """Yield the samples that have ended since the last call."""
        ended, self._ended = self._ended, []
        yield from ended

    def _next_turn(self, answered: Future[list[Exchange]]) -> EngineRequest | None:
        """Return the request of the next turn; None if there is no room for it, so that the sample has ended."""
        number = self._calling.pop(answered)
        episode, request = self._episodes[number], self._requests[number]
        try:
            made = answered.result()
        except SandboxFailed as error:
            raise TaskFailed(f"a tool could not run: {error}") from error
        if not episode.observe(made):
            self._end(number, Completion("", 0, "length"))
            return None
        tokens, seed = (*request.tokens, *episode.response), sample_seed(request.seed, "turn", episode.number)
        return EngineRequest(number, tokens, seed, episode.room)

    def _end(self, number: int, completion: Completion) -> None:
        """End a sample; ``completion`` is what the model has written last."""
        del self._requests[number]
        if episode := self._episodes.pop(number, None):
            reason = "length" if episode.ended else completion.finish_reason
            completion = Completion(episode.final(), sum(episode.mask), reason, turns=episode.messages())
        self._ended.append((number, completion))
