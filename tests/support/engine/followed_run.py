"""`FollowedRun`: requests on a real model, all events, and a fold compared after every phase."""

from collections.abc import Mapping

from minivllm import SamplingParams
from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events.fold import Fold
from minivllm.events.types import Event
from minivllm.runtime.loader import LoadedModel


class FollowedRun:
    """The virtual clock stands still within a step: a request arrives when its event says."""

    def __init__(self, model: LoadedModel, listens: bool = True, **options: object) -> None:
        given = {
            "model": model.name, "dtype": "float32", "device": "cpu", "max_model_len": 128,
            "attention_backend": "torch", "block_size": 8, "num_gpu_blocks_override": 64,
        }  # fmt: skip
        config = EngineConfig(**{**given, "check_invariants": True, **options})
        self.engine = LLMEngine.from_model(config, model, clock=VirtualClock())
        self.events: list[Event] = []
        self.header = self.engine.log_header()
        self.fold = Fold(self.header)
        self.outputs: dict[str, list[list[int]]] = {}
        """Request -> the tokens of each of its answers."""
        self._listens = listens
        if listens:
            self.engine.subscribe(self.events.append)
            self.engine.subscribe(self.fold.apply)

    def add(self, name: str, prompt: list[int], params: Mapping[str, object]) -> None:
        sampling = SamplingParams(**{"max_tokens": 6, "ignore_eos": True, **params})
        self.engine.add_request(name, {"prompt_token_ids": prompt}, sampling)

    def step(self) -> None:
        outputs = None
        while outputs is None:
            outputs = self.engine.step_phase()
            if self._listens:
                assert self.fold.state == self.engine.inspect()
        for output in outputs:
            self.outputs[output.request_id] = [sample.token_ids for sample in output.outputs]

    def finish(self) -> "FollowedRun":
        while self.engine.has_unfinished_requests():
            self.step()
        return self

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]
