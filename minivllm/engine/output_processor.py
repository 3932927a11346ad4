"""`OutputProcessor`: turns sampled tokens into text, log-probabilities and `RequestOutput`s.

Visible text is never taken back. So an unfinished UTF-8 character and a possible start of a stop
string are held back until later tokens complete or exclude them. Unless the caller, a listener or a
stop string needs the text earlier, all tokens are decoded together at the end, which saves time.

Source: vLLM `vllm/v1/engine/output_processor.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Seq
from contextlib import suppress
from dataclasses import dataclass, field, replace

from minivllm import runtime
from minivllm.core.beam_search import Hypothesis
from minivllm.core.request import Request, Sequence
from minivllm.engine.stop_strings import StopCheck, StopStringChecker
from minivllm.errors import RequestFailedError
from minivllm.outputs import (
    CompletionOutput,
    Logprob,
    PromptTokenLogprob,
    RequestOutput,
    SampledToken,
)
from minivllm.sampling_params import RequestOutputKind

_NO_TEXT = StopCheck("")
# Looking up an enum member would cost more than all other work for a request without output.
_DELTA, _FINAL_ONLY = RequestOutputKind.DELTA, RequestOutputKind.FINAL_ONLY


@dataclass(slots=True)
class _SequenceOutput:
    detokenizer: IncrementalDetokenizer
    stop_strings: StopStringChecker | None
    text_may_wait: bool
    """Whether the text is only needed at the end, if no listener watches the engine."""
    text: str = ""
    num_decoded_tokens: int = 0
    """How many output tokens `text` covers; counted only if `text_may_wait`."""
    logprobs: list[dict[int, Logprob]] | None = None
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    cumulative_logprob: float | None = None
    # What the caller has received so far (`RequestOutputKind.DELTA`).
    num_chars_sent: int = 0
    num_tokens_sent: int = 0
    end_sent: bool = False


def _fails_alone(method: Callable) -> Callable:
    """If `method` raises, raise a `RequestFailedError` instead, so that only one request fails."""

    def guarded(*args: object, **kwargs: object) -> object:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            text = "A token of this request could not be turned into text."
            raise RequestFailedError(text) from error

    return guarded


class OutputProcessor:
    """Holds the output of every unfinished request. Its methods may raise `RequestFailedError`."""

    def __init__(self, decoder: runtime.Tokenizer) -> None:
        self.decoder = decoder
        self._outputs: dict[str, _SequenceOutput] = {}
        self._beams_found: dict[str, list[CompletionOutput]] = {}

    def add_sequence(self, sequence: Sequence) -> None:
        params, stop = sequence.request.params, sequence.request.params.stop
        sums_logprobs = sequence.request.num_logprobs is not None
        acts_on_each_token = sums_logprobs or params.use_beam_search or bool(stop)
        checker = StopStringChecker(stop, params.include_stop_str_in_output) if stop else None
        size = sequence.num_prompt_tokens
        self._outputs[sequence.seq_id] = _SequenceOutput(
            detokenizer=IncrementalDetokenizer(self.decoder, params.skip_special_tokens),
            stop_strings=checker,
            text_may_wait=params.output_kind is _FINAL_ONLY and not acts_on_each_token,
            logprobs=[] if params.logprobs is not None else None,
            prompt_logprobs=[None] * size if sequence.wants_prompt_logprobs else None,
            cumulative_logprob=0.0 if sums_logprobs else None,
        )

    def append(self, sequence: Sequence, sampled: SampledToken, watched: bool) -> StopCheck:
        """Process the newest token. `watched`: a listener needs the text now."""
        output = self._outputs[sequence.seq_id]
        if output.text_may_wait and not watched:
            return _NO_TEXT
        return self._append_now(output, sequence, sampled)

    @_fails_alone
    def _append_now(
        self, output: _SequenceOutput, sequence: Sequence, sampled: SampledToken
    ) -> StopCheck:
        if output.text_may_wait:
            self._catch_up(output, sequence, sequence.num_output_tokens - 1)
            output.num_decoded_tokens += 1
        if sampled.logprobs is not None:
            output.cumulative_logprob += sampled.logprobs[sampled.token_id].logprob
        if output.logprobs is not None:
            output.logprobs.append(self._with_texts(sampled.logprobs))
        new = StopCheck(output.detokenizer.append(sampled.token_id))
        if output.stop_strings is not None:
            new = output.stop_strings.feed(new.text, may_stop=_may_stop(sequence))
        output.text += new.text
        return new

    @_fails_alone
    def _catch_up(self, output: _SequenceOutput, sequence: Sequence, num_tokens: int) -> None:
        """Decode all of the first `num_tokens` tokens. If a token has no text, change nothing."""
        if output.num_decoded_tokens < num_tokens:
            detokenizer = output.detokenizer.fork()
            late = sequence.output_token_ids[output.num_decoded_tokens : num_tokens]
            output.text += "".join([detokenizer.append(token_id) for token_id in late])
            output.detokenizer, output.num_decoded_tokens = detokenizer, num_tokens

    @_fails_alone
    def flush(self, sequence: Sequence) -> StopCheck:
        """Release the held-back text of an ended sequence. It can complete a stop string."""
        output = self._outputs[sequence.seq_id]
        done = output.num_decoded_tokens if output.text_may_wait else sequence.num_output_tokens
        waiting = sequence.output_token_ids[done:]
        new = StopCheck(output.detokenizer.finish(waiting))
        output.num_decoded_tokens += len(waiting)
        if output.stop_strings is not None:
            new = output.stop_strings.finish(new.text, may_stop=_may_stop(sequence))
        output.text += new.text
        return new

    @_fails_alone
    def add_prompt_logprobs(self, entry: PromptTokenLogprob) -> None:
        """Store the log-probabilities of one prompt token, unless they are already stored."""
        prompt = self._outputs[entry.seq_id].prompt_logprobs
        if prompt[entry.position] is None:
            prompt[entry.position] = self._with_texts(entry.logprobs)

    def make_outputs(
        self, requests: Iterable[Request], errors: Mapping[Request, RequestFailedError]
    ) -> list[RequestOutput]:
        """Make the outputs of a step, some of them with an error. A request that is silent until it
        finishes is left out until then.
        """
        return [
            self.make_output(request, errors.get(request) if errors else None)
            for request in requests
            if not request.is_silent_until_finished or request.is_finished
        ]

    def make_output(
        self, request: Request, error: RequestFailedError | None = None
    ) -> RequestOutput:
        """Make the current output of a request. Afterwards, forget the request if it has ended."""
        finished, params = request.is_finished, request.params
        delta = params.output_kind is _DELTA
        output = RequestOutput(
            request_id=request.request_id,
            prompt=request.prompt,
            prompt_token_ids=list(request.prompt_token_ids),
            outputs=self._completions(request, delta=delta),
            finished=finished,
            num_cached_tokens=request.num_cached_tokens,
        )
        if params.prompt_logprobs is not None:
            first = self._outputs[request.sequences[0].seq_id]
            output.prompt_logprobs = list(first.prompt_logprobs)
        if error is not None:
            output.error, output.error_type = str(error), type(error)
        if finished:
            for sequence in request.sequences:
                del self._outputs[sequence.seq_id]
        return output

    def _completions(self, request: Request, delta: bool) -> list[CompletionOutput]:
        """Return the request's `n` outputs: all samples, or the best samples or beams."""
        params = request.params
        if (found := self._beams_found.pop(request.request_id, None)) is not None:
            return found
        sequences = request.sequences
        if not params.chooses_best:
            if delta:
                sequences = [sequence for sequence in sequences if self._has_news(sequence)]
            return [self._completion(sequence, sequence.index, delta) for sequence in sequences]
        score = lambda sample: self._outputs[sample.seq_id].cumulative_logprob or 0.0  # noqa: E731
        best = enumerate(sorted(sequences, key=score, reverse=True)[: params.n])
        return [self._completion(sequence, i, delta=False) for i, sequence in best]

    def _has_news(self, sequence: Sequence) -> bool:
        output = self._outputs[sequence.seq_id]
        ended = sequence.is_finished and not output.end_sent
        return ended or sequence.num_output_tokens > output.num_tokens_sent

    def _completion(self, sequence: Sequence, index: int, delta: bool) -> CompletionOutput:
        output = self._outputs[sequence.seq_id]
        output.end_sent = sequence.is_finished
        sent = (output.num_tokens_sent, output.num_chars_sent) if delta else (0, 0)
        first_token, first_char = sent
        text = self.visible_text(sequence)
        output.num_tokens_sent, output.num_chars_sent = sequence.num_output_tokens, len(text)
        return CompletionOutput(
            index=index,
            text=text[first_char:],
            token_ids=sequence.token_ids[sequence.num_prompt_tokens + first_token :],
            cumulative_logprob=output.cumulative_logprob,
            logprobs=None if output.logprobs is None else output.logprobs[first_token:],
            finish_reason=sequence.status.finish_reason,
            stop_reason=sequence.stop_reason,
        )

    def visible_text(self, sequence: Sequence) -> str:
        """Return the text that the caller may see so far."""
        output = self._outputs[sequence.seq_id]
        if output.text_may_wait:
            # If a token cannot be decoded, the request fails when its text is due. A view must not
            # raise for that.
            with suppress(RequestFailedError):
                self._catch_up(output, sequence, sequence.num_output_tokens)
        return output.text

    def _with_texts(self, entries: dict[int, Logprob]) -> dict[int, Logprob]:
        for token_id, entry in entries.items():
            entry.decoded_token = self.decoder.decode([token_id], skip_special_tokens=False)
        return entries

    # ---- beam search ----

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Start the output of `child`, a beam with the same tokens as `parent` so far."""
        output = self._outputs[parent.seq_id]
        self._outputs[child.seq_id] = replace(output, detokenizer=output.detokenizer.fork())

    def forget(self, sequence: Sequence) -> None:
        del self._outputs[sequence.seq_id]

    @_fails_alone
    def append_beam_token(self, beam: Sequence, token_id: int, score: float) -> str:
        """Add a beam's new token and return its text. `score` is the beam's log-probability."""
        output = self._outputs[beam.seq_id]
        text = output.detokenizer.append(token_id)
        output.text += text
        output.cumulative_logprob = score
        return text

    @_fails_alone
    def set_beams_found(self, request: Request, best: list[Hypothesis]) -> list[CompletionOutput]:
        """Store the results of a beam search, best first, as the output of its request."""
        params, found = request.params, []
        for index, beam in enumerate(best[: params.n]):
            text = self.decoder.decode(beam.token_ids, params.skip_special_tokens)
            found.append(CompletionOutput(index, text, beam.token_ids, beam.logprob))
            last, stopped = beam.token_ids[-1], beam.ended_by_token
            found[-1].finish_reason = "stop" if stopped else "length"
            found[-1].stop_reason = last if stopped and last in params.stop_token_ids else None
        self._beams_found[request.request_id] = found
        return found


def _may_stop(sequence: Sequence) -> bool:
    return sequence.num_output_tokens > sequence.request.params.min_tokens


_UNFINISHED = "\ufffd"
_MAX_TOKENS_OF_A_CHARACTER = 4
"""A UTF-8 character has at most four bytes, and a token has at least one byte."""


@dataclass(slots=True)
class IncrementalDetokenizer:
    """Turns the tokens of a growing sequence into text, piece by piece.

    A character may take several tokens, and a token's text can depend on the token before
    (sentencepiece drops a space at the start of a text). So a *window* of the last few tokens is
    decoded, and the window's new text is returned.

    The decoder writes U+FFFD for invalid bytes, and also for a character that the next token may
    complete: exactly one, so only the *last* U+FFFD is held back. The joined pieces always equal
    the text of all tokens decoded at once. Source: vLLM's `detokenizer_utils.py`.
    """

    decoder: runtime.Tokenizer
    skip_special_tokens: bool = True
    _window: list[int] = field(default_factory=list)
    """Tokens that are not fully shown yet, after a few shown tokens as context."""
    _num_shown: int = 0
    """How many characters of the window's text have been returned."""

    def fork(self) -> IncrementalDetokenizer:
        """Return a copy for a sequence with the same tokens so far."""
        return replace(self, _window=list(self._window))

    def append(self, token_id: int) -> str:
        """Return the text that is certain after this token: often one word, sometimes nothing."""
        if self.decoder.is_silent(token_id, self.skip_special_tokens):
            return ""  # a silent token must not be context either
        self._window.append(token_id)
        if self.decoder.is_byte_fallback(token_id):
            # One invalid byte changes the text of the whole run of raw bytes.
            return ""
        text = self.decoder.decode(self._window, self.skip_special_tokens)
        unfinished = text.endswith(_UNFINISHED)
        end = len(text) - unfinished
        shown = text[self._num_shown : end]
        self._num_shown = max(self._num_shown, end)
        # If all text was shown, one token of context is enough. Otherwise, also keep the tokens
        # that can be part of the unfinished character.
        keep = 1 + _MAX_TOKENS_OF_A_CHARACTER if unfinished else 1
        if len(self._window) > keep:
            del self._window[:-keep]
            text = self.decoder.decode(self._window, self.skip_special_tokens)
            self._num_shown = len(text) - unfinished
        return shown

    def finish(self, token_ids: Seq[int] = ()) -> str:
        """Add the last tokens; return the rest of the text. An unfinished character is U+FFFD."""
        text = self.decoder.decode([*self._window, *token_ids], self.skip_special_tokens)
        shown, self._num_shown = text[self._num_shown :], 0
        self._window.clear()
        return shown
