"""Token counts of an answer, for its `usage` field and for the log."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from fastapi import Request

from minivllm.outputs import RequestOutput
from minivllm.server.protocol.base import PromptTokensDetails, StreamOptions, Usage


class TokenCount(NamedTuple):
    num_prompt: int
    num_output: int
    num_cached: int
    """Number of prompt tokens that were found in the prefix cache."""

    @classmethod
    def of(cls, outputs: Iterable[RequestOutput]) -> "TokenCount":
        """Count the tokens in the last outputs of an answer's requests."""
        return cls(
            sum(len(output.prompt_token_ids) for output in outputs),
            sum(len(completion.token_ids) for output in outputs for completion in output.outputs),
            sum(output.num_cached_tokens for output in outputs),
        )

    def note_in(self, request: Request) -> None:
        fields: dict[str, Any] = request.scope["state"]["log"]
        fields |= {
            "prompt_tokens": self.num_prompt,
            "completion_tokens": self.num_output,
            "cached_tokens": self.num_cached,
        }

    def to_usage(self) -> Usage:
        return Usage(
            prompt_tokens=self.num_prompt,
            completion_tokens=self.num_output,
            total_tokens=self.num_prompt + self.num_output,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=self.num_cached),
        )


class StreamCount:
    def __init__(self, options: StreamOptions | None) -> None:
        self.include_usage = bool(options and options.include_usage)
        self._continuous = self.include_usage and bool(options and options.continuous_usage_stats)
        self._prompts: dict[str, tuple[int, int]] = {}
        self._num_output = 0

    def add(self, output: RequestOutput) -> None:
        self._prompts[output.request_id] = (len(output.prompt_token_ids), output.num_cached_tokens)
        self._num_output += sum(len(completion.token_ids) for completion in output.outputs)

    @property
    def count(self) -> TokenCount:
        prompts = self._prompts.values()
        return TokenCount(
            sum(tokens for tokens, _ in prompts),
            self._num_output,
            sum(cached for _, cached in prompts),
        )

    @property
    def usage_so_far(self) -> Usage | None:
        """Usage for a chunk before the end; None unless the client wants usage in every chunk."""
        return self.count.to_usage() if self._continuous else None
