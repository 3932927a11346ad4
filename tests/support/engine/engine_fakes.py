"""A fake model for tests that takes no time and detects every stale read.

For every slot of the KV cache, `FakeRunner` stores a hash of the exact tokens whose keys and values
were written there. Before it samples, it reads the slots of each sequence back, as attention would,
and fails if one holds something else. The next token is a function of all earlier tokens, so a lost
token or a wrong block table also changes the output.

This is the only fake runner of the tests, and `FakeTokenizer` the only fake tokenizer. Where a test
needs a model that waits, fails or writes a given text, it sets a hook of `FakeRunner`.
"""

import re
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from itertools import accumulate, pairwise

import numpy as np

from minivllm.clock import Clock, VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.beam_search import BeamSearch, Candidate
from minivllm.core.block_math import NOT_WRITTEN, slot_mapping
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy, ScheduledSequence, SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.errors import SamplingError
from minivllm.events.fold import Fold
from minivllm.events.types import Event
from minivllm.outputs import Logprob, RequestOutput, SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch
from minivllm.sampling_params import SamplingParams
from minivllm.speculation.proposers import Proposer
from support.engine.core_reference import ReferenceCore

VOCAB_SIZE = 100
EOS = 99


class FakeTokenizer:
    """One character per token: token i is chr(32 + i).

    With `words`, a word and the space before it are one token, with an id in order of appearance.
    """

    eos_token_ids = frozenset({EOS})
    has_chat_template = True
    template_knows_tools = False
    named_tokens: Mapping[str, str] = {"eos_token": "<eos>"}

    def __init__(self, words: bool = False) -> None:
        self.vocab_size = 10_000 if words else VOCAB_SIZE
        self._token = re.compile(r"\s*\S+" if words else "(?s:.)")
        self._pieces = [*(chr(32 + i) for i in range(EOS)), "<eos>"]
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [self._id(piece) for piece in self._token.findall(text)]

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            self._ids[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._ids[piece]

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return "".join("" if i == EOS and skip_special_tokens else self._pieces[i] for i in ids)

    def piece(self, token_id: int) -> str:
        return self._pieces[token_id]

    def is_silent(self, token_id: int, skip_special_tokens: bool) -> bool:
        return token_id == EOS and skip_special_tokens

    def is_byte_fallback(self, token_id: int) -> bool:
        return False

    def apply_chat_template(
        self, messages: list[dict[str, str]], tools: Collection[object] = ()
    ) -> list[int]:
        return self.encode("".join(f"{turn['role']}:{turn['content']}|" for turn in messages))


def prompt(length: int, first: int = 0) -> list[int]:
    return [(first + i) % 99 for i in range(length)]


def _draw(token_ids: list[int], salt: int) -> int:
    text = bytes(token_id % 256 for token_id in token_ids)
    digest = blake2b(text, digest_size=4, salt=salt.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")


def next_token(token_ids: list[int], vocab_size: int = VOCAB_SIZE - 1, index: int = 0) -> int:
    """Next token of the fake model after `token_ids` in sample `index`; never end-of-sequence."""
    return _draw(token_ids, salt=index) % vocab_size


def next_logprobs(
    token_ids: list[int], count: int, vocab_size: int = VOCAB_SIZE
) -> dict[int, Logprob]:
    """The `count` most likely next tokens of the fake model; sometimes with end-of-sequence."""
    scores = {token: _draw(token_ids, salt=1000 + token) / 2**32 for token in range(vocab_size)}
    best = sorted(scores, key=scores.get, reverse=True)[:count]
    return {token: Logprob(3 * (scores[token] - 1.0), rank) for rank, token in enumerate(best, 1)}


def expected_output(
    prompt: list[int], max_tokens: int, vocab_size: int = VOCAB_SIZE - 1, index: int = 0
) -> list[int]:
    """The output that every schedule must produce: the model alone, without cache or batch."""
    token_ids = list(prompt)
    for _ in range(max_tokens):
        token_ids.append(next_token(token_ids, vocab_size, index))
    return token_ids[len(prompt) :]


def expected_beams(prompt: list[int], search: BeamSearch) -> list[list[int]]:
    """The beams that every schedule must find with the fake model."""

    def candidates(beam: int, token_ids: list[int]) -> list[Candidate]:
        best = next_logprobs(token_ids, search.num_candidates)
        return [Candidate(beam, token_id, entry.logprob) for token_id, entry in best.items()]

    return search_over_lists(prompt, search, candidates)


def search_over_lists(
    prompt: list[int],
    search: BeamSearch,
    candidates_of: Callable[[int, list[int]], list[Candidate]],
) -> list[list[int]]:
    """Beam search over plain lists, without an engine. Returns the output tokens, best first."""
    beams = {0: list(prompt)}
    while not search.done:
        ways = [way for beam, tokens in beams.items() for way in candidates_of(beam, tokens)]
        written = {beam: tokens[len(prompt) :] for beam, tokens in beams.items()}
        chosen = search.advance(ways, written)
        # Order equally good beams by their parents, as the engine does.
        chosen.sort(key=lambda continuation: list(beams).index(continuation.beam))
        beams = {i: [*beams[way.beam], way.token_id] for i, way in enumerate(chosen)}
        search.scores = {i: way.score for i, way in enumerate(chosen)}
    return [hypothesis.token_ids for hypothesis in search.hypotheses]


def contents(item: ScheduledSequence) -> list[int]:
    """What the slots of a sequence and its drafts hold: at each position, a hash of its prefix."""
    token_ids = [*item.sequence.token_ids, *item.draft_token_ids]
    return list(accumulate(token_ids, lambda before, token: hash((before, token)), initial=0))[1:]


class FakeRunner:
    """Replaces the model runner; see the module docstring.

    answers: request -> the tokens that the model writes for it, and then end-of-sequence. Sample i
    leaves out the first i tokens; each beam gets tokens of the answer in an order of its own.
    """

    device_lost = False
    kv_caches, block_bytes = (), 0

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        max_model_len: int = 10_000,
        vocab_size: int = 99,
        answers: Mapping[str, list[int]] | None = None,
    ) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.max_model_len = max_model_len
        self.vocab_size = vocab_size
        self.answers = answers
        self.kv: dict[int, int] = {}
        self.num_tokens_run = 0
        # Hooks of a test: each may wait, count, raise, or return something else.
        self.before: Callable[[SchedulerOutput, Watch], None] = lambda plan, watch: None
        """Called before a step writes anything."""
        self.after: Callable[[SchedulerOutput, Watch], StepResult | None] = lambda plan, watch: None
        """Called after a step has written everything; may return its result."""
        self.draw: Callable[[Sequence], SampledToken | SamplingError] = self.sample
        """Draws the next token of a sequence."""

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        copied = [(copy.dst, self.block(copy.src)) for copy in copies]
        for dst, content in copied:
            for offset, entry in enumerate(content):
                self.kv[dst * self.block_size + offset] = entry

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        self.before(plan, watch)
        # As in each layer of the real model: all writes of the batch before all reads.
        held = [contents(item) for item in plan.scheduled]
        for item, content in zip(plan.scheduled, held, strict=True):
            sequence = item.sequence
            slots = slot_mapping(sequence, item.start, item.num_tokens, self.block_size)
            for position, slot in enumerate(slots, item.start):
                if slot != NOT_WRITTEN:
                    self.kv[slot] = content[position]
            self.num_tokens_run += item.num_tokens
        for item, content in zip(plan.scheduled, held, strict=True):
            self._read_back(item, content)
        # empty rows: `sample_tokens` draws from token ids
        result = StepResult(plan, np.empty((len(plan.sampling_sequences()), 0)))
        return self.after(plan, watch) or result

    def device_works(self) -> bool:
        return not self.device_lost

    def block(self, block_id: int) -> list[int | None]:
        first = block_id * self.block_size
        return [self.kv.get(slot) for slot in range(first, first + self.block_size)]

    def _read_back(self, item: ScheduledSequence, content: list[int]) -> None:
        sequence = item.sequence
        for position in range(item.start + item.num_tokens):
            block = sequence.block_table[position // self.block_size]
            slot = block.block_id * self.block_size + position % self.block_size
            assert self.kv.get(slot) == content[position], (
                f"{sequence!r} reads position {position} in slot {slot}: stale, or never written"
            )

    def sample_tokens(
        self, sequences: list[Sequence], logits: None, watched: Collection[Sequence] = ()
    ) -> list[SampledToken | SamplingError]:
        """The tokens of watched sequences have no explanation."""
        return [self.draw(sequence) for sequence in sequences]

    def sample(self, sequence: Sequence) -> SampledToken:
        if self.answers is not None:
            return self._next_of_answer(sequence, self.answers[sequence.request.request_id])
        token_id = next_token(sequence.token_ids, self.vocab_size, sequence.index)
        count = sequence.request.num_logprobs
        if count is None:
            return SampledToken(token_id)
        best = next_logprobs(sequence.token_ids, count)
        if sequence.request.params.use_beam_search:
            # As with the real sampler, the sampled token comes first, whatever its rank.
            sampled = {token_id: best.get(token_id, Logprob(-50.0, self.vocab_size))}
            return SampledToken(token_id, sampled | best)
        own = {token_id: Logprob(-1.0 - sequence.index, 1)}
        return SampledToken(token_id, own | best | own)

    def _next_of_answer(self, sequence: Sequence, answer: list[int]) -> SampledToken:
        if not sequence.request.params.use_beam_search:
            rest = answer[sequence.index + sequence.num_output_tokens :]
            return SampledToken(rest[0] if rest else EOS)
        # The words and their probabilities depend on the beam, so that some beams have several
        # children and others none.
        words = sorted(set(answer))
        start, likely = sum(sequence.token_ids) % len(words), 0.1 + sum(sequence.token_ids[-3:]) % 5
        offered = (words[start:] + words[:start])[: sequence.request.num_logprobs]
        best = {token_id: Logprob(-likely * rank, rank) for rank, token_id in enumerate(offered, 1)}
        return SampledToken(offered[0], best)


def fake_engine(
    num_blocks: int = 100, max_model_len: int = 10_000, vocab_size: int = 99, *,
    tokenizer: FakeTokenizer | None = None, clock: Clock | None = None,
    proposer: Proposer | None = None, **options: object,
) -> LLMEngine:  # fmt: skip
    """An engine with a `FakeRunner`, on the virtual clock unless it gets another one."""
    options = {"block_size": 4, "max_num_seqs": 8, "max_num_batched_tokens": 64, **options}
    config = EngineConfig(model="fake", check_invariants=True, **options)
    runner = FakeRunner(num_blocks, config.block_size, max_model_len, vocab_size)
    tokenizer, clock = tokenizer or FakeTokenizer(), clock or VirtualClock()
    return LLMEngine(config, runner, tokenizer, clock=clock, proposer=proposer)


def run_to_the_end(engine: LLMEngine) -> dict[str, RequestOutput]:
    """The last output of each request."""
    outputs: dict[str, RequestOutput] = {}
    while engine.has_unfinished_requests():
        outputs |= {output.request_id: output for output in engine.step()}
    return outputs


class WatchedEngine:
    """An engine on the virtual clock, compared with a fold and a reference after each phase."""

    def __init__(
        self,
        num_blocks: int = 100,
        max_model_len: int = 10_000,
        vocab_size: int = 99,
        proposer: Proposer | None = None,
        predicted: bool = True,
        **options: object,
    ) -> None:
        """predicted: whether the reference knows all that `options` switch on"""
        sizes = (num_blocks, max_model_len, vocab_size)
        self.engine = fake_engine(*sizes, proposer=proposer, **options)
        self.config, self.runner = self.engine.config, self.engine.core.runner.plain
        self.events: list[Event] = []
        self.fold = Fold(self.engine.log_header())
        self.reference = predicted and ReferenceCore(
            self.config, num_blocks, max_model_len, FakeTokenizer.eos_token_ids
        )
        self.engine.subscribe(self._listen)
        self.outputs: dict[str, RequestOutput] = {}

    def _listen(self, event: Event) -> None:
        self.events.append(event)
        self.fold.apply(event)
        if self.reference:
            self.reference.hear(event, self.scheduler.requests)

    def add(
        self,
        request_id: str,
        prompt: list[int],
        max_tokens: int = 8,
        priority: int = 0,
        **params: object,
    ) -> None:
        cache_salt = params.pop("cache_salt", None)
        sampling = SamplingParams(temperature=0, max_tokens=max_tokens, **params)
        salt = {} if cache_salt is None else {"cache_salt": cache_salt}
        self.engine.add_request(
            request_id, {"prompt_token_ids": prompt, **salt}, sampling, priority
        )
        self.compare()

    def step(self) -> list[RequestOutput]:
        return self._noted(self.engine.step())

    def step_phase(self) -> list[RequestOutput] | None:
        return self._noted(self.engine.step_phase())

    def _noted(self, outputs: list[RequestOutput] | None) -> list[RequestOutput] | None:
        self.outputs.update((output.request_id, output) for output in outputs or ())
        self.compare()
        return outputs

    def run(self, max_steps: int = 10_000) -> dict[str, RequestOutput]:
        """Step until all requests have finished; fail after `max_steps`, which means a livelock."""
        for _ in range(max_steps):
            if not self.engine.has_unfinished_requests():
                return self.outputs
            self.step()
        raise AssertionError(f"still unfinished after {max_steps} steps")

    def compare(self) -> None:
        if self.reference:
            self._compare_with_the_reference()
        assert self.fold.state == self.engine.inspect()
        assert all(a.seq + 1 == b.seq for a, b in pairwise(self.events[-50:]))

    def _compare_with_the_reference(self) -> None:
        self.reference.check()
        if self.engine.next_phase == "execute":
            plan = self.engine.core.last_plan
            for item, planned in zip(plan.scheduled, self.reference.planned(), strict=True):
                own = (item.sequence.seq_id, item.start, item.num_tokens, item.starts_fresh)
                assert (*own, [sequence.seq_id for sequence in item.sampling]) == planned
            assert self.reference.preempted == [sequence.seq_id for sequence in plan.preempted]
            assert sorted(self.reference.memory.copies.items()) == sorted(
                (copy.dst, copy.src) for copy in plan.copies
            )

    # ---- shortcuts ----

    @property
    def scheduler(self):
        return self.engine.core.scheduler

    @property
    def pool(self):
        return self.scheduler.kv_cache_manager.pool

    def table(self, request_id: str) -> list[int]:
        return self.fold.sequences[f"{request_id}.0"].block_table

    def token_ids(self, request_id: str) -> list[int]:
        return self.outputs[request_id].outputs[0].token_ids

    def events_of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if type(event) is kind]
