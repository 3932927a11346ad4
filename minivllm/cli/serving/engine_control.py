"""`EngineThreadControl`: the dashboard's keys for an engine in a thread of this process.

Each key becomes a command of `EngineThread`, and a result that the user should see becomes a
message. The caller draws eight frames a second, so no method here waits for a future; a callback
in the engine's thread appends messages to a deque.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from minivllm.engine.engine import LLMEngine
from minivllm.engine.engine_thread import EngineThread
from minivllm.engine.requests import TokensPrompt
from minivllm.errors import EmptyPromptError, EngineDeadError, MinivllmError
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import SamplingParams
from minivllm.tui.control import ASKED_HERE, BURST, MAX_TOKENS, ControlState, Question

BURST_PREFIX = (
    "You answer for a library of old maps; be polite and use one short sentence.",
    "The library owns nine thousand sheets, drawn between 1540 and 1910, and lends none of them.",
    "Visitors see a sheet in the reading room, one at a time, on weekdays from nine to five.",
    "Copies cost four coins a page and are ready on the next day.",
)
"""Common prefix of a burst's prompts, without sentences that do not fit into the KV cache."""
BURST_QUESTIONS = (
    "May I borrow a map?",
    "When can I come?",
    "What does a copy cost?",
    "How old is the oldest sheet?",
)


class EngineThreadControl:
    """Implements `minivllm.tui.control.EngineControl` for one `EngineThread`.

    The thread may be started later.
    """

    def __init__(self, thread: EngineThread) -> None:
        self._thread = thread
        # `append` and `popleft` are atomic.
        self._messages: deque[str] = deque()
        self._num_added = 0  # only the engine's thread uses it
        thread.ended.add_done_callback(self._tell_end)

    def state(self) -> ControlState:
        return ControlState(self._thread.paused, self._thread.next_phase)

    def pause(self) -> None:
        self._watch(self._thread.pause())

    def resume(self) -> None:
        self._watch(self._thread.resume())

    def step(self) -> None:
        self._watch(self._thread.step())

    def step_phase(self) -> None:
        self._watch(self._thread.step_phase())

    def add_request(
        self, prompt: str, max_tokens: int = MAX_TOKENS, temperature: float = 0.0, n: int = 1
    ) -> None:
        question = Question(prompt, max_tokens, temperature, n)
        self._call(lambda engine: self._add(engine, ASKED_HERE, [question]))

    def add_burst(self) -> None:
        self._call(lambda engine: self._add(engine, BURST, _burst_questions(engine)))

    def abort(self, request_id: str) -> None:
        def tell(future: Future[RequestOutput | None]) -> None:
            if future.exception() is None and future.result() is None:
                self._messages.append(f"There is no unfinished request {request_id} to abort.")

        self._say_if_it_waits(f"Request {request_id} will be aborted")
        future = self._thread.abort_request(request_id)
        future.add_done_callback(tell)
        self._watch(future)

    def set_option(self, name: str, value: int) -> None:
        self._say_if_it_waits(f"{name} will change")
        self._watch(self._thread.set_option(name, value))

    def record_attention_mass(
        self, on: bool, seq_id: str | None = None, layer: int | None = None, head: int | None = None
    ) -> None:
        self._call(lambda engine: engine.record_attention_mass(on, seq_id, layer, head))

    def trace_kernel(self, seq_id: str) -> None:
        self._call(lambda engine: engine.trace_kernel(seq_id))

    def explain_tokens(self, seq_id: str, on: bool) -> None:
        self._call(lambda engine: engine.explain_tokens(seq_id, on))

    def messages(self) -> list[str]:
        return [self._messages.popleft() for _ in range(len(self._messages))]

    # ---- in the engine's thread ----

    def _add(self, engine: LLMEngine, name: str, questions: Iterable[Question]) -> None:
        for question in questions:
            if not question.prompt.strip():
                raise EmptyPromptError("There is nothing to send: type a message first.")
            prompt = _as_prompt(engine, question.prompt)
            # At least one token: `add_request` refuses a prompt that is too long.
            max_tokens = min(question.max_tokens, max(1, _room_for_output(engine, prompt)))
            temperature, n = question.temperature, question.n
            params = SamplingParams(temperature=temperature, max_tokens=max_tokens, n=n)
            engine.add_request(f"{name}{self._num_added + 1}", prompt, params)
            self._num_added += 1

    def _call(self, command: Callable[[LLMEngine], object]) -> None:
        self._watch(self._thread.call(command))

    def _watch(self, future: Future) -> None:
        """Turn a failure of a command into a message."""
        future.add_done_callback(self._tell_refusal)

    def _tell_refusal(self, future: Future) -> None:
        error = future.exception()
        # When the engine fails, all pending commands fail, and `_tell_end` reports it once.
        if error is None or (isinstance(error, EngineDeadError) and error.__cause__ is not None):
            return
        expected = isinstance(error, MinivllmError)
        self._messages.append(str(error) if expected else f"That failed: {error!r}.")

    def _tell_end(self, ended: Future[None]) -> None:
        if (error := ended.exception()) is not None:
            self._messages.append(f"The engine failed: {error}")

    def _say_if_it_waits(self, what: str) -> None:
        """Say so if a command waits for the end of a paused step: the user need not repeat it."""
        paused, next_phase = self.state()
        if paused and next_phase != "schedule":
            self._messages.append(f"{what} when the current step has ended.")


def _as_prompt(engine: LLMEngine, text: str) -> TokensPrompt:
    """Convert a text to a prompt: a chat message if the model has a chat template."""
    token_ids = engine.tokenizer.encode(text)
    if engine.tokenizer.has_chat_template:
        token_ids = engine.tokenizer.apply_chat_template([{"role": "user", "content": text}])
    return {"prompt_token_ids": token_ids, "prompt": text}


def _burst_questions(engine: LLMEngine) -> list[Question]:
    """Return a burst's prompts. If possible, they leave room for `MAX_TOKENS` output tokens."""
    for num_sentences in range(len(BURST_PREFIX), 0, -1):
        prefix = " ".join(BURST_PREFIX[:num_sentences])
        texts = [f"{prefix} {question}" for question in BURST_QUESTIONS]
        if all(_room_for_output(engine, _as_prompt(engine, text)) >= MAX_TOKENS for text in texts):
            break
    return [Question(text) for text in texts]


def _room_for_output(engine: LLMEngine, prompt: TokensPrompt) -> int:
    """Return how many tokens fit into context and KV cache after the prompt."""
    header = engine.log_header()
    room = min(header.max_model_len, header.num_blocks * header.block_size)
    return room - len(prompt["prompt_token_ids"])
