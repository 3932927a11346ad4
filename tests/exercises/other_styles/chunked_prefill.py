"""Early returns."""

from minivllm.events import types as ev


class Scheduler:
    def _first_chunk(self, sequence, start, budget):
        missing = len(sequence.token_ids[start:])
        if missing <= budget:
            return missing
        return budget if self.enable_chunked_prefill else 0

    def _advance(self, item):
        sequence, bus = item.sequence, self._bus
        is_decode = item.start >= sequence.num_prompt_tokens and item.num_tokens == 1
        item.kind = "decode" if is_decode else item.kind
        if bus.active:
            bus.emit(ev.StepScheduled, sequence.seq_id, item.num_tokens, item.kind, item.start)
        sequence.num_computed_tokens = item.start + item.num_tokens
        if sequence.num_computed_tokens < sequence.num_tokens:
            return
        item.sampling.append(sequence)
