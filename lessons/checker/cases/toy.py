"""A model without computation, for checks of memory and scheduling.

The model's output depends on the cache. Each slot stores a digest of its token and all earlier
tokens. The next token is a digest of the slots that attention would read through the block table.
So a wrong table, a block with two writers or a missing copy changes the text and the event log.

Implements `minivllm.engine.runner.Runner`. A step works in the order of a real layer: all block
copies, then all writes of the batch, then all reads.
"""

from collections.abc import Iterator
from zlib import crc32

from minivllm.core.block_math import NOT_WRITTEN, slot_mapping
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch

VOCAB_SIZE = 32
EOS = VOCAB_SIZE - 1


class ToyTokenizer:
    """Each token is one letter."""

    vocab_size = VOCAB_SIZE
    eos_token_ids = frozenset({EOS})
    has_chat_template = False

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - 64 for letter in text]

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return "".join("" if i == EOS and skip_special_tokens else chr(64 + i) for i in ids)

    def piece(self, token_id: int) -> str:
        return self.decode([token_id], skip_special_tokens=False)

    def is_silent(self, token_id: int, skip_special_tokens: bool) -> bool:
        return token_id == EOS and skip_special_tokens

    def is_byte_fallback(self, token_id: int) -> bool:
        return False


class ToyRunner:
    def __init__(self, num_blocks: int, block_size: int, max_model_len: int) -> None:
        self.num_blocks = num_blocks
        self.max_model_len = max_model_len
        self._block_size = block_size
        self._kv: dict[int, int] = {}

    def device_works(self) -> bool:
        # False disables retries: an error in the student's code must be visible.
        return False

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        size = self._block_size
        for copy in plan.copies:
            for offset in range(size):
                self._kv[copy.dst * size + offset] = self._kv.get(copy.src * size + offset, 0)
        for item in plan.scheduled:
            slots = slot_mapping(item.sequence, item.start, item.num_tokens, size)
            for position, slot in enumerate(slots, item.start):
                if slot != NOT_WRITTEN:
                    self._kv[slot] = crc32(bytes(item.sequence.token_ids[: position + 1]))
        digests = [
            crc32(
                repr([*self._read(sequence, item.start + item.num_tokens), sequence.index]).encode()
            )
            for item in plan.scheduled
            for sequence in item.sampling
        ]
        return StepResult(digests)

    def _read(self, sequence: Sequence, num_tokens: int) -> Iterator[int]:
        for position in range(num_tokens):
            block = sequence.block_table[position // self._block_size]
            yield self._kv.get(block.block_id * self._block_size + position % self._block_size, 0)

    def sample_tokens(self, sequences: list[Sequence], logits: list[int]) -> list[SampledToken]:
        # Never sample end-of-sequence, so that max_tokens sets the length.
        return [SampledToken(digest % EOS) for digest in logits]
