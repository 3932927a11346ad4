"""The parts of an engine without a model: a script says each token and the time of a step.

Races, the playground, exercises and benches run such engines.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from typing import Any

from minivllm.clock import SimulatedClock
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy, SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch


class ScriptedRunner:
    """Implements `minivllm.engine.runner.Runner`, and computes nothing."""

    kv_caches, block_bytes = (), 0

    def __init__(
        self,
        num_blocks: int,
        max_model_len: int,
        next_token: Callable[[Sequence], int],
        spend: Callable[[SchedulerOutput], object] = lambda plan: None,
    ) -> None:
        """spend: lets the time of a step pass"""
        self.num_blocks = num_blocks
        self.max_model_len = max_model_len
        self._next_token, self._spend = next_token, spend

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        """Do nothing: there are no keys and values."""

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        self._spend(plan)
        return StepResult(plan, None)

    def device_works(self) -> bool:
        return True

    def sample_tokens(
        self, sequences: list[Sequence], logits: Any, watched: Collection[Sequence] = ()
    ) -> list[SampledToken]:
        return [SampledToken(self._next_token(sequence)) for sequence in sequences]


class ScriptedTokenizer:
    """Knows a text for each token id. Prompts are token ids already."""

    has_chat_template = False

    def __init__(
        self,
        piece: Callable[[int], str],
        vocab_size: int,
        silent: Collection[int] = (),
        eos_token_ids: Collection[int] = (),
    ) -> None:
        """silent: the special tokens, which have a name and no text"""
        self.piece, self.vocab_size, self._silent = piece, vocab_size, silent
        self.eos_token_ids = frozenset(eos_token_ids)

    def decode(self, token_ids: list[int], skip_special_tokens: bool = True) -> str:
        return "".join(
            self.piece(token_id)
            for token_id in token_ids
            if not self.is_silent(token_id, skip_special_tokens)
        )

    def is_silent(self, token_id: int, skip_special_tokens: bool) -> bool:
        return skip_special_tokens and token_id in self._silent

    def is_byte_fallback(self, token_id: int) -> bool:
        return False


def serve(
    engine: LLMEngine,
    clock: SimulatedClock,
    arrivals: Iterable[tuple[float, Callable[[], object]]],
    max_steps: int | None = None,
) -> None:
    """Call each function, which adds a request, at its time; step until all requests have ended."""
    pending = deque(sorted(arrivals, key=itemgetter(0)))
    steps = 0
    while (pending or engine.has_unfinished_requests()) and steps != max_steps:
        if not engine.has_unfinished_requests():
            clock.advance_to(pending[0][0])
        while pending and pending[0][0] <= clock.now():
            pending.popleft()[1]()
        engine.step()
        steps += 1
