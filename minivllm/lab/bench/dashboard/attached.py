"""How much a dashboard slows the engine's steps, in the same process and in another process.

Each round decodes equal batches without a dashboard and with each kind of dashboard, in random
order. The result is the median ratio. For a dashboard in the same process, the engine runs in its
own thread, as in `minivllm live`. For one in another process, the engine writes a recording, and
`minivllm attach` follows the file. A run times many steps at once, because the dashboard draws only a
few frames a second.
"""

import asyncio
import statistics
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

from minivllm.clock import MonotonicClock
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.lab.bench.dashboard.terminal import COLUMNS, ROWS, DashboardProcess
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, WorkloadSpec, make_requests
from minivllm.sampling_params import SamplingParams
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.state.model import MODELS

if TYPE_CHECKING:
    from textual.pilot import Pilot

Watched = Literal["nobody", "in_process", "another_process"]
WAYS: tuple[Watched, ...] = ("nobody", "in_process", "another_process")
_WARM_UP_STEPS = 8


class StepTimer:
    def __init__(self, engine: LLMEngine, num_steps: int, folder: Path) -> None:
        self._engine = engine
        self._num_steps = num_steps
        self._folder = folder
        self._clock = MonotonicClock()
        self._num_batches = 0

    def seconds_per_step(self, watched: Watched) -> float:
        """Return the mean seconds of `num_steps` decode steps of one batch."""
        self._num_batches += 1
        match watched:
            case "nobody":
                return self._in_a_thread()
            case "in_process":
                return self._in_process()
            case "another_process":
                return self._another_process()

    def _in_process(self) -> float:
        from minivllm.tui.app import FRAMES_PER_SECOND, DashboardApp

        engine = self._engine
        source = InProcessSource(engine.log_header(), codec=MODELS, state=engine.inspect())
        app = DashboardApp(source)
        unsubscribe = engine.subscribe(source.put)
        seconds = 0.0

        async def script(pilot: "Pilot") -> None:
            nonlocal seconds
            await pilot.pause(2 / FRAMES_PER_SECOND)
            seconds = await asyncio.to_thread(self._decode)
            app.exit()

        try:
            app.run(headless=True, size=(COLUMNS, ROWS), auto_pilot=script)
        finally:
            unsubscribe()
        return seconds

    def _another_process(self) -> float:
        log = self._folder / f"{self._num_batches}.jsonl"
        with ExitStack() as stack:
            writer = stack.enter_context(
                LogWriter(log, self._engine.log_header(), self._engine.inspect())
            )
            stack.callback(self._engine.subscribe(writer.write))
            dashboard = stack.enter_context(DashboardProcess("attach", str(log)))
            dashboard.wait_for("LIVE")
            return self._in_a_thread()

    def _in_a_thread(self) -> float:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._decode).result()

    def _decode(self) -> float:
        engine = self._engine
        # A few more tokens than timed steps, so that no sequence ends during the timing.
        num_tokens = _WARM_UP_STEPS + self._num_steps + 2
        spec = WorkloadSpec(
            "attached", MAX_NUM_SEQS, prompt_len=(16, 16), output_len=(num_tokens, num_tokens)
        )
        requests = make_requests(spec, 0, self._num_batches, engine.tokenizer.vocab_size)
        for number, request in enumerate(requests):
            params = SamplingParams(temperature=0, max_tokens=request.max_tokens, ignore_eos=True)
            prompt = {"prompt_token_ids": request.prompt_token_ids}
            engine.add_request(f"{self._num_batches}-{number}", prompt, params)
        for _ in range(_WARM_UP_STEPS):
            engine.step()
        started = self._clock.now()
        for _ in range(self._num_steps):
            engine.step()
        seconds = self._clock.now() - started
        while engine.has_unfinished_requests():
            engine.step()
        return seconds / self._num_steps


def time_rounds(
    timer: StepTimer, num_rounds: int, ways: tuple[Watched, ...] = WAYS
) -> list[dict[Watched, float]]:
    """Return for each round: way of watching -> seconds per step."""
    order = Random(0)
    return [
        {watched: timer.seconds_per_step(watched) for watched in order.sample(ways, len(ways))}
        for _ in range(num_rounds)
    ]


def slowdowns(rounds: list[dict[Watched, float]], watched: Watched) -> list[float]:
    """Return the slowdown in each round, compared with no dashboard: 0.01 is 1 %."""
    return [times[watched] / times["nobody"] - 1 for times in rounds]


def median_slowdown(rounds: list[dict[Watched, float]], watched: Watched) -> float:
    """A value under 0 is noise."""
    return statistics.median(slowdowns(rounds, watched))
