"""`OwnSide`: one of our engines in a benchmark that compares engines of ours, greedy, in turns."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.events.state import EngineState
from minivllm.lab.bench.throughput.workloads import BenchRequest
from minivllm.lab.common.report import positive_int
from minivllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

if TYPE_CHECKING:
    from minivllm.runtime.loader import LoadedModel


class OwnSide:
    """One of our engines as a `BenchEngine`; with a form, all its outputs have it."""

    def __init__(
        self,
        name: str,
        config: EngineConfig,
        model: LoadedModel,
        form: StructuredOutputsParams | None = None,
    ) -> None:
        self.name = name
        self._engine = LLMEngine.from_model(config, model)
        self._form = form

    @property
    def state(self) -> EngineState:
        return self._engine.inspect()

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        """Run all requests, and return the output tokens of each. Raises `BenchError` if one fails.

        Without a form, every output has `max_tokens` tokens; a form says where an output may end.
        """
        for number, request in enumerate(requests):
            params = SamplingParams(
                temperature=0.0,
                max_tokens=request.max_tokens,
                ignore_eos=self._form is None,
                structured_outputs=self._form,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
            prompt = {"prompt_token_ids": request.prompt_token_ids}
            self._engine.add_request(str(number), prompt, params)
        tokens: dict[str, list[int]] = {}
        while self._engine.has_unfinished_requests():
            for output in self._engine.step():
                if output.error is not None:
                    raise BenchError(f"A request of {self.name} failed: {output.error}")
                tokens[output.request_id] = output.outputs[0].token_ids
        return [tokens[str(number)] for number in range(len(requests))]


def median_ratio(ours: Iterable[float], theirs: Iterable[float]) -> float:
    """Return the median of the rounds' own ratios."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def add_draft_arguments(parser: argparse.ArgumentParser, *, repeated: str, drafts: str) -> None:
    """Add the options of rounds, output length and drafts.

    repeated: what runs in a round; drafts: what is drafted
    """
    parser.add_argument(
        "--rounds",
        type=positive_int,
        default=5,
        help=f"how often {repeated} (default: %(default)s)",
    )
    parser.add_argument(
        "--output-len",
        type=positive_int,
        default=120,
        metavar="N",
        help="tokens that each request writes (default: %(default)s)",
    )
    parser.add_argument(
        "--num-speculative-tokens",
        type=positive_int,
        default=8,
        metavar="N",
        help=f"most {drafts} of a sequence in one step (default: %(default)s)",
    )
