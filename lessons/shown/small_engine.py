"""A serving engine on one page: a loop of schedule, execute and sample, over small pieces.

    waiting   [cleo, dan]
    running   [ada, bob]        at most `max_num_seqs`, here 2

    step 5    schedule    ada: 1 token, bob: 1 token        a batch for one pass of the model
              execute     a row of scores for ada, one for bob
              sample      ada gets a token; bob gets his last one, and leaves
    step 6    schedule    ada: 1 token, cleo: her 6 prompt tokens

The batch is made anew in every step, so cleo takes bob's place at once: continuous batching. What
this engine lacks is the rest of the course: memory in blocks, a token budget, shared prefixes.

The exercise `engine-loop` asks for the methods of `SmallEngine`. In the engine, they are
`Scheduler.schedule` in `minivllm/core/scheduler.py`, and `LLMEngine.step` in
`minivllm/engine/engine.py`.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import NamedTuple
from zlib import crc32

VOCAB_SIZE = 32
END = 0
"""The token with which a model ends an answer early."""


class SmallRequest:
    """A prompt, and the answer so far."""

    def __init__(self, name: str, prompt: Seq[int], max_tokens: int) -> None:
        self.name = name
        self.prompt = list(prompt)
        self.max_tokens = max_tokens
        self.output: list[int] = []
        self.num_computed_tokens = 0
        """How many of its tokens have gone through the model: their keys and values are cached."""

    @property
    def token_ids(self) -> list[int]:
        """All known tokens: prompt and output."""
        return self.prompt + self.output

    @property
    def is_finished(self) -> bool:
        return len(self.output) == self.max_tokens or self.output[-1:] == [END]


class SmallWork(NamedTuple):
    """What one request gets in one step: its next `num_tokens` tokens go through the model."""

    request: SmallRequest
    num_tokens: int


class SmallOutput(NamedTuple):
    """One new token of one request."""

    name: str
    token_id: int
    is_last: bool


class SmallModel:
    """Plays a model with a KV cache: its scores depend on the tokens that went through it."""

    def __init__(self) -> None:
        self._cached: dict[str, list[int]] = {}

    def execute(self, batch: Seq[SmallWork]) -> list[list[int]]:
        """One pass: return a row of scores for each request of the batch, in the same order.

        Of each request, the tokens from `num_computed_tokens` on go through the model. An empty
        batch is an error.
        """
        if not batch:
            raise ValueError("the model was called with an empty batch")
        rows = []
        for request, num_tokens in batch:
            begin = request.num_computed_tokens
            tokens = self._cached.setdefault(request.name, [])
            tokens += request.token_ids[begin : begin + num_tokens]
            seed = repr(tokens).encode()
            rows.append([crc32(seed, token_id) for token_id in range(VOCAB_SIZE)])
        return rows


def sample(row: Seq[int]) -> int:
    """Return the token with the highest score."""
    return max(range(len(row)), key=lambda token_id: row[token_id])


class SmallEngine:
    def __init__(self, model: SmallModel, max_num_seqs: int) -> None:
        self.model = model
        self.max_num_seqs = max_num_seqs
        self.waiting: list[SmallRequest] = []
        """In order of arrival."""
        self.running: list[SmallRequest] = []
        """In order of admission; at most `max_num_seqs`."""

    def schedule(self) -> list[SmallWork]:
        """Make the batch of one step: an entry for each running request, in order of admission.

        Waiting requests are admitted first: the oldest ones, as long as there is a free place.
        """
        while self.waiting and len(self.running) < self.max_num_seqs:
            self.running.append(self.waiting.pop(0))
        return [
            SmallWork(request, len(request.token_ids) - request.num_computed_tokens)
            for request in self.running
        ]

    def step(self) -> list[SmallOutput]:
        """Schedule, execute and sample: each request of the batch gets one new token.

        A request that is finished leaves `running`. If nothing waits and nothing runs, the model is
        not called.
        """
        batch = self.schedule()
        if not batch:
            return []
        outputs = []
        for work, row in zip(batch, self.model.execute(batch), strict=True):
            request, token_id = work.request, sample(row)
            request.num_computed_tokens += work.num_tokens
            request.output.append(token_id)
            outputs.append(SmallOutput(request.name, token_id, request.is_finished))
        self.running = [request for request in self.running if not request.is_finished]
        return outputs

    def run(self, arrivals: Mapping[int, Seq[SmallRequest]]) -> list[list[SmallOutput]]:
        """Step until every request is finished; return the outputs of each step.

        arrivals: step number -> the requests that arrive just before that step; steps count from 1
        """
        steps: list[list[SmallOutput]] = []
        while self.waiting or self.running or max(arrivals, default=0) > len(steps):
            self.waiting += arrivals.get(len(steps) + 1, ())
            steps.append(self.step())
        return steps
