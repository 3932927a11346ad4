"""A model without computation, for checks of memory and scheduling.

Each slot stores a digest of its token and all earlier tokens. The next token is a digest of the
slots that attention would read through the block table. So a wrong table, a block with two writers
or a missing copy changes the text and the event log. Like a layer, it copies, writes, then reads.
"""

from collections.abc import Iterator
from zlib import crc32

from minivllm.core.block_math import NOT_WRITTEN, slot_mapping
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy, ScheduledSequence, SchedulerOutput
from minivllm.lessons.scenarios.scripted import ScriptedTokenizer
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch
from minivllm.speculation.proposers import Draft, Wanted

VOCAB_SIZE = 32
EOS = VOCAB_SIZE - 1


def _digest_of_prefix(token_ids: list[int]) -> int:
    """What the slot of the last token stores."""
    return crc32(bytes(token_ids))


def _digest(slots: list[int], index: int) -> int:
    return crc32(repr([*slots, index]).encode())


class ToyTokenizer(ScriptedTokenizer):
    """Each token is one letter."""

    def __init__(self) -> None:
        super().__init__(lambda token_id: chr(64 + token_id), VOCAB_SIZE, {EOS}, {EOS})

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - 64 for letter in text]


class ToyRunner:
    def __init__(self, num_blocks: int, block_size: int, max_model_len: int) -> None:
        self.num_blocks, self.max_model_len = num_blocks, max_model_len
        self._block_size, self.kv_caches, self.block_bytes = block_size, (), 0
        self._kv: dict[int, int] = {}

    def device_works(self) -> bool:
        return False  # no retries: an error in the student's code must be visible

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        size = self._block_size
        for copy in copies:
            for offset in range(size):
                self._kv[copy.dst * size + offset] = self._kv.get(copy.src * size + offset, 0)

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        for item in plan.scheduled:
            token_ids = [*item.sequence.token_ids, *item.draft_token_ids]
            slots = slot_mapping(item.sequence, item.start, item.num_tokens, self._block_size)
            for end, slot in enumerate(slots, item.start + 1):
                if slot != NOT_WRITTEN:
                    self._kv[slot] = _digest_of_prefix(token_ids[:end])
        return StepResult(plan, [digest for item in plan.scheduled for digest in self._rows(item)])

    def _rows(self, item: ScheduledSequence) -> Iterator[int]:
        """One digest for each sampling sequence, and one after each draft."""
        num_known = item.start + item.num_tokens - len(item.draft_token_ids)
        for sequence in item.sampling:
            yield self._read(sequence, num_known)
        for number, _ in enumerate(item.draft_token_ids, 1):
            yield self._read(item.sequence, num_known + number)

    def _read(self, sequence: Sequence, num_tokens: int) -> int:
        table, size = sequence.block_table, self._block_size
        slots = (table[at // size].block_id * size + at % size for at in range(num_tokens))
        return _digest([self._kv.get(slot, 0) for slot in slots], sequence.index)

    def sample_tokens(self, sequences: list[Sequence], logits: list[int], *_) -> list[SampledToken]:
        # Never sample end-of-sequence, so that max_tokens sets the length.
        return [SampledToken(digest % EOS) for digest in logits]


class ToyProposer:
    """Knows the toy model's tokens, and drafts a wrong one at every `wrong_every`-th position."""

    def __init__(self, wrong_every: int) -> None:
        self._wrong_every = wrong_every

    def propose(self, wanted: list[Wanted]) -> list[Draft]:
        return [Draft(self._tokens(*want), "draft_model") for want in wanted]

    def _tokens(self, sequence: Sequence, num_tokens: int) -> list[int]:
        token_ids = list(sequence.token_ids)
        for _ in range(num_tokens):
            slots = [_digest_of_prefix(token_ids[: i + 1]) for i in range(len(token_ids))]
            is_wrong = len(token_ids) % self._wrong_every == 0
            token_ids.append((_digest(slots, sequence.index) + is_wrong) % EOS)
        return token_ids[sequence.num_tokens :]

    def forget(self, sequence: Sequence) -> None:
        """It keeps nothing."""
