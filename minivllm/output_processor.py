"""`OutputProcessor`: turns sampled tokens into text, log-probabilities and `RequestOutput`s.

It knows sequences and text, and nothing of blocks or scheduling. Stop strings are found here, because
a string may begin in the middle of one token and end in the middle of another; tokens that might be
the start of a stop string are held back until that is decided.

The easy thing to get wrong: what was once visible must never be taken back. Text is handed out only
when no later token can change it (half a UTF-8 character, half a stop string).

Source: vLLM `vllm/v1/engine/output_processor.py`.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Protocol

from minivllm.core.request import Request, Sequence
from minivllm.detokenizer import IncrementalDetokenizer, TokenDecoder
from minivllm.outputs import CompletionOutput, Logprob, RequestOutput
from minivllm.sampling_params import RequestOutputKind
from minivllm.stop_strings import StopStringChecker


class TokenLogprob(Protocol):
    """One entry of a position's log-probabilities, as the sampler gives it."""

    token_id: int
    logprob: float
    rank: int


class SampledToken(Protocol):
    """What the model runner says of one new token."""

    token_id: int
    logprobs: Seq[TokenLogprob] | None
    """The sampled token first, then the most likely ones; None where the request did not ask."""


@dataclass(slots=True)
class NewText:
    """What one token made visible, and the stop string that it completed, if any."""

    text: str
    stop_string: str | None = None


@dataclass(slots=True)
class _SequenceOutput:
    """What one sequence has produced so far, as its caller sees it."""

    detokenizer: IncrementalDetokenizer
    stop_strings: StopStringChecker | None
    text: str = ""
    logprobs: list[dict[int, Logprob]] | None = None
    cumulative_logprob: float | None = None
    # How much of it the caller has had already (RequestOutputKind.DELTA).
    num_chars_sent: int = 0
    num_tokens_sent: int = 0


class OutputProcessor:
    """Holds the output side of every unfinished request."""

    def __init__(self, decoder: TokenDecoder) -> None:
        self._decoder = decoder
        self._outputs: dict[str, _SequenceOutput] = {}

    def add_sequence(self, sequence: Sequence) -> None:
        """Start the output of a new sequence."""
        params = sequence.request.params
        wants_logprobs = params.logprobs is not None
        self._outputs[sequence.seq_id] = _SequenceOutput(
            detokenizer=IncrementalDetokenizer(self._decoder, skip_special_tokens=params.skip_special_tokens),
            stop_strings=StopStringChecker(params.stop, params.include_stop_str_in_output) if params.stop else None,
            logprobs=[] if wants_logprobs else None,
            cumulative_logprob=0.0 if wants_logprobs else None,
        )

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Start the output of a beam that has the tokens of `parent` so far."""
        output = self._outputs[parent.seq_id]
        self._outputs[child.seq_id] = replace(output, detokenizer=output.detokenizer.fork())

    def forget(self, sequence: Sequence) -> None:
        """Drop the output of a beam that died."""
        del self._outputs[sequence.seq_id]

    def visible_text(self, sequence: Sequence) -> str:
        """The output as far as a caller may see it."""
        return self._outputs[sequence.seq_id].text

    def append(self, sequence: Sequence, sampled: SampledToken) -> NewText:
        """Take in the token that `sequence` has just gained."""
        output = self._outputs[sequence.seq_id]
        if output.logprobs is not None and sampled.logprobs is not None:
            entries = {entry.token_id: self._logprob(entry) for entry in sampled.logprobs}
            output.logprobs.append(entries)
            output.cumulative_logprob += entries[sampled.token_id].logprob
        new = NewText(output.detokenizer.append(sampled.token_id))
        if output.stop_strings is not None:
            may_stop = sequence.num_output_tokens >= sequence.request.params.min_tokens
            checked = output.stop_strings.feed(new.text, may_stop=may_stop)
            new = NewText(checked.text, checked.stop)
        output.text += new.text
        return new

    def flush(self, sequence: Sequence) -> str:
        """The sequence has ended without a stop string: what was held back becomes visible."""
        output = self._outputs[sequence.seq_id]
        text = output.detokenizer.finish()
        if output.stop_strings is not None:
            text = output.stop_strings.flush(text)
        output.text += text
        return text

    def make_output(self, request: Request) -> RequestOutput | None:
        """What the caller gets now, by the request's `output_kind`; a finished request is then forgotten."""
        finished = request.is_finished
        kind = request.params.output_kind
        if kind is RequestOutputKind.FINAL_ONLY and not finished:
            return None
        delta = kind is RequestOutputKind.DELTA
        output = RequestOutput(
            request_id=request.request_id,
            prompt=request.prompt,
            prompt_token_ids=request.prompt_token_ids,
            outputs=[self._completion(sequence, delta) for sequence in request.sequences],
            finished=finished,
            num_cached_tokens=request.num_cached_tokens,
        )
        if finished:
            for sequence in request.sequences:
                del self._outputs[sequence.seq_id]
        return output

    def _completion(self, sequence: Sequence, delta: bool) -> CompletionOutput:
        output = self._outputs[sequence.seq_id]
        first_token = output.num_tokens_sent if delta else 0
        first_char = output.num_chars_sent if delta else 0
        output.num_tokens_sent = sequence.num_output_tokens
        output.num_chars_sent = len(output.text)
        return CompletionOutput(
            index=sequence.index,
            text=output.text[first_char:],
            token_ids=sequence.token_ids[sequence.num_prompt_tokens + first_token :],
            cumulative_logprob=output.cumulative_logprob,
            logprobs=None if output.logprobs is None else output.logprobs[first_token:],
            finish_reason=sequence.status.finish_reason,
            stop_reason=sequence.stop_reason,
        )

    def _logprob(self, entry: TokenLogprob) -> Logprob:
        return Logprob(entry.logprob, entry.rank, self._decoder.decode([entry.token_id], skip_special_tokens=False))
