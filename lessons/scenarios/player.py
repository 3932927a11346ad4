"""`ScenarioPlayer`: sends a scenario's requests to an engine, each at its step.

Call `before_step` before every step, for example as `EngineThread(before_step=...)`. An idle engine
takes no steps, so if all earlier requests have ended, the next request is sent early.
"""

from __future__ import annotations

from collections import deque

from minivllm.engine.engine import LLMEngine
from minivllm.events.types import Event
from minivllm.lessons.scenarios.scenario import Scenario, ScenarioRequest


class ScenarioPlayer:
    def __init__(self, scenario: Scenario, engine: LLMEngine) -> None:
        self._engine = engine
        self._waves = deque(scenario.waves)
        self._wave: deque[ScenarioRequest] = deque()
        self._step = 0
        self._wave_began = 0
        self._unsubscribe = engine.subscribe(self._note_step)

    @property
    def over(self) -> bool:
        return not self._wave and not self._waves and not self._engine.has_unfinished_requests()

    def before_step(self) -> None:
        """Send the requests that are due. May be called several times between two steps."""
        idle = not self._engine.has_unfinished_requests()
        if idle and not self._wave and self._waves:
            self._wave.extend(self._waves.popleft())
            self._wave_began = self._step
        while self._wave and (idle or self._step - self._wave_began >= self._wave[0].after_steps):
            send(self._engine, self._wave.popleft())
            idle = False
        if self.over:
            self._unsubscribe()

    def _note_step(self, event: Event) -> None:
        self._step = event.step


def send(engine: LLMEngine, request: ScenarioRequest) -> None:
    """Add a request to an engine."""
    prompt = {"prompt_token_ids": request.prompt_token_ids}
    if messages := list(request.messages):
        # Show the user the question without the chat template.
        token_ids = engine.tokenizer.apply_chat_template(messages)
        prompt = {"prompt_token_ids": token_ids, "prompt": messages[-1]["content"]}
    engine.add_request(request.request_id, prompt, request.params)
