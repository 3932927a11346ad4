"""`LessonEngine`: the real engine on the virtual clock, with its events folded beside it.

A lesson's queries, such as `table("ada")` or `num_free`, are answered from the fold, from which the
pictures are drawn too. After each step, the fold is compared with the engine's own state, so a
lesson cannot show something false.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from minivllm import runtime
from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import LessonError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.kv_usage import KVUsage
from minivllm.events.state import SequenceState
from minivllm.lessons.scenarios.facts import RunFacts
from minivllm.lessons.scenarios.house import QUICK
from minivllm.lessons.teacher.prompts import LESSON_MODEL, STORIES
from minivllm.sampling_params import SamplingParams

MAX_STEPS = 2_000
"""Step limit, more than any lesson needs: without it, a faulty lesson would wait forever."""

LOADING = frozenset({"model", "dtype", "linear_backend", "quantization"})
"""Options that change which weights are loaded, or how."""

E = TypeVar("E", bound=ev.Event)


class ModelShelf:
    """One model, loaded for the first engine and shared by all engines of a lesson.

    An engine with options of `LOADING` gets a model of its own.
    """

    def __init__(
        self,
        model: str = LESSON_MODEL,
        loaded: runtime.LoadedModel | None = None,
        load: Callable[[EngineConfig], runtime.LoadedModel] | None = None,
    ) -> None:
        """loaded: the model, if it has been loaded already; load: by default, `load_model`"""
        self.name = model
        self._loaded = loaded
        self._load = load or (lambda config: runtime.load_model(config))  # late, because of torch

    def engine(self, options: dict[str, object]) -> LessonEngine:
        given = {"model": self.name, "check_invariants": True, "device": "cpu", **QUICK}
        config = EngineConfig(**{**given, **options})
        loaded = self._load(config) if LOADING & options.keys() else self._shared(config)
        return LessonEngine(LLMEngine.from_model(config, loaded, clock=VirtualClock()), loaded)

    def _shared(self, config: EngineConfig) -> runtime.LoadedModel:
        if self._loaded is None:
            self._loaded = self._load(config)
        return self._loaded


class LessonEngine:
    """A request's id (`ada`) stands for its first sequence; `ada.1` is the second one."""

    def __init__(self, engine: LLMEngine, loaded: runtime.LoadedModel) -> None:
        self.engine = engine
        self.loaded = loaded
        """The model itself: its sizes (`config`), weights and tokenizer."""
        self.name = ""
        self.header = header = engine.log_header()
        self.block_size, self.num_blocks = header.block_size, header.num_blocks
        self.bytes_per_token = header.block_bytes // header.block_size
        """Bytes of the keys and values of one token in the KV cache, over all layers."""
        self.facts = RunFacts(header)
        self.events: list[ev.Event] = []
        engine.subscribe(self.events.append)
        engine.subscribe(self.facts.apply)

    # ---- commands ----

    def add(
        self,
        request_id: str,
        prompt: str | list[int] | int,
        max_tokens: int = 8,
        *,
        chat: bool = False,
        priority: int = 0,
        cache_salt: str | None = None,
        **params: object,
    ) -> None:
        """Add a request. By default, sampling is greedy and the model cannot end the answer.

        prompt: a text, its tokens, or how many tokens of this user's own story
        params: fields of `SamplingParams`
        chat: the prompt is a user's message, to be put into the chat template
        """
        tokenizer = self.engine.tokenizer
        if isinstance(prompt, int):
            user = re.match("[a-z]+", request_id)[0]
            prompt = self.tokens(STORIES[user], prompt)
        if chat:
            token_ids = tokenizer.apply_chat_template([{"role": "user", "content": prompt}])
        else:
            token_ids = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        text = prompt if isinstance(prompt, str) else tokenizer.decode(prompt)
        fields = {"prompt_token_ids": token_ids, "prompt": text}
        fields |= {} if cache_salt is None else {"cache_salt": cache_salt}
        sampling = SamplingParams(
            **{"temperature": 0.0, "ignore_eos": True, "max_tokens": max_tokens, **params}
        )
        self.engine.add_request(request_id, fields, sampling, priority)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.engine.step()
            self._compare()

    def phase(self) -> None:
        """Run one phase: schedule, execute or sample."""
        self.engine.step_phase()
        self._compare()

    def run(self) -> None:
        self.run_until(lambda: not self.busy)

    def run_until(self, holds: Callable[[], bool]) -> None:
        for _ in range(MAX_STEPS):
            if holds():
                return
            self.step()
        raise LessonError(f"Nothing came of {MAX_STEPS} steps: please report this lesson.")

    def _compare(self) -> None:
        if self.fold.state != self.engine.inspect():
            raise LessonError("The events and the engine's own state disagree: please report it.")

    # ---- queries ----

    @property
    def fold(self) -> Fold:
        return self.facts.fold

    @property
    def busy(self) -> bool:
        return self.engine.has_unfinished_requests()

    @property
    def num_free(self) -> int:
        return len(self.fold.free_queue)

    @property
    def num_used(self) -> int:
        """Number of blocks that are in at least one block table."""
        return sum(block.ref_cnt > 0 for block in self.fold.blocks)

    @property
    def usage(self) -> list[KVUsage]:
        """The usage of the KV cache, one entry per step in which a sequence ran."""
        return self.facts.usage.samples

    @property
    def tokens_computed(self) -> int:
        return sum(event.num_tokens for event in self.events_of(ev.StepScheduled))

    def is_running(self, name: str) -> bool:
        return _seq_id(name) in self.fold.running

    def sequence(self, name: str) -> SequenceState:
        """The state of a sequence that has not ended."""
        return self.fold.sequences[_seq_id(name)]

    def table(self, name: str) -> list[int]:
        """The sequence's block table: block ids in the order of the tokens."""
        return self.sequence(name).block_table

    def num_tokens(self, name: str) -> int:
        """Number of prompt and output tokens of a sequence that has not ended."""
        return self.sequence(name).num_tokens

    def text(self, request_id: str) -> str:
        """The output text so far. If the request has several samples, the text of the first one."""
        sequence = self.fold.sequences.get(_seq_id(request_id))
        return sequence.text if sequence is not None else self.facts.requests[request_id].texts[0]

    def output_tokens(self, name: str) -> list[int]:
        """The ids of a sequence's sampled tokens, even after the sequence has ended."""
        sampled = self.events_of(ev.TokenSampled)
        return [event.token_id for event in sampled if event.seq_id == _seq_id(name)]

    def scheduled(self, name: str) -> int:
        """Number of tokens that the sequence got in the last step; 0 if it was not scheduled."""
        return sum(item.num_tokens for item in self.fold.scheduled if item.seq_id == _seq_id(name))

    def events_of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if type(event) is kind]

    def tokens(self, text: str, count: int) -> list[int]:
        """The first `count` tokens of a text, for a prompt of an exact length."""
        token_ids = self.engine.tokenizer.encode(text)
        if len(token_ids) < count:
            raise LessonError(f"The prompt needs {count} tokens, but has {len(token_ids)}.")
        return token_ids[:count]

    def pieces(self, text: str) -> list[str]:
        """The tokens of a text, each decoded."""
        decode, token_ids = self.engine.tokenizer.decode, self.engine.tokenizer.encode(text)
        return [decode([token_id], skip_special_tokens=False) for token_id in token_ids]


def _seq_id(name: str) -> str:
    return name if "." in name else f"{name}.0"
