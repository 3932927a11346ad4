"""`minivllm demo`: a scenario on the real engine, in the dashboard or as lines of text.

The chat model is used if it is on this machine, else the house model, which needs no download.

The engine runs in its own thread. It must stop before the recording is closed, because the engine's
last events are written while the thread ends, even after an early quit, Ctrl-C or an error in the
engine.
"""

import argparse
import sys
import textwrap
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial

from minivllm import runtime
from minivllm.cli.dashboard import add_dashboard_options
from minivllm.cli.loading import build_engine, load_engine
from minivllm.cli.options import Parser, add_engine_options, engine_config, seconds
from minivllm.cli.recording import Record, add_record_option, recording
from minivllm.cli.serving.demo_report import ProgressLines, print_demo_report, report_json
from minivllm.cli.serving.engine_control import EngineThreadControl, StopClock
from minivllm.cli.starting import Built, Starting
from minivllm.cli.terminal import note, print_json, terminal_attached
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.engine.engine_thread import EngineThread
from minivllm.errors import InvariantError
from minivllm.events.recording.log import LogWriter
from minivllm.lessons.scenarios.facts import RunFacts
from minivllm.lessons.scenarios.figures import figures_of
from minivllm.lessons.scenarios.house import HOUSE_MODEL, QUICK, for_the_house_model
from minivllm.lessons.scenarios.player import ScenarioPlayer
from minivllm.lessons.scenarios.scenarios import SCENARIOS, Scenario
from minivllm.lessons.scenarios.stories import tell as tell_story
from minivllm.runtime.progress import Progress
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.start import Started
from minivllm.tui.state.model import MODELS
from minivllm.tui.tour import NEXT, Tour

CHAT_MODEL = "smollm2"
SECONDS_PER_STEP_WATCHED = 0.1
"""Minimum time per step in the dashboard: a run with a tiny model would end too soon."""
SECONDS_AT_A_FIRST = 1.0
FIRSTS = ("prefix_cache_hits", "evicted_blocks", "num_preemptions", "finished_requests")
"""Counters; with `--slow`, the run stops for a moment when one is no longer 0. As in vLLM, a resumed
request that finds its own blocks again is not counted as a hit."""


def add_arguments(parser: Parser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    fill = partial(textwrap.fill, width=79, subsequent_indent=" " * 20)
    about = (fill(s.teaches, initial_indent=f"  {name:<16}  ") for name, s in SCENARIOS.items())
    parser.epilog = "\n".join(["scenarios:", *about])
    parser.add("--scenario NAME", "see below", choices=SCENARIOS, default="shared-prefix")
    parser.add("--headless", "print plain lines instead of opening the dashboard")
    parser.add("--json", "print one line of JSON; all messages go to standard error")
    add_record_option(parser)
    usual = f"{SECONDS_PER_STEP_WATCHED} in the dashboard, else 0"
    slow = "minimum duration of a step; with it, the run pauses at the first hit, eviction,"
    parser.add("--slow SECONDS", f"{slow} preemption and end (default: {usual})", type=seconds)
    add_dashboard_options(parser)
    of_the_scenario = {
        name: "the scenario's" for scenario in SCENARIOS.values() for name in scenario.options
    }
    model = f"{CHAT_MODEL} if it is here, else {HOUSE_MODEL}"
    add_engine_options(parser, of_the_scenario | {"check_invariants": True, "model": model})


def run(args: argparse.Namespace) -> int:
    if not hasattr(args, "model"):
        args.model = _model_of_this_machine()
    return play(args, SCENARIOS[args.scenario])


def play(args: argparse.Namespace, scenario: Scenario, tour: Tour | None = None) -> int:
    """Run any scenario. `args` has the options of the command, and a `model`."""
    is_house = args.model == HOUSE_MODEL
    if is_house:
        scenario = for_the_house_model(scenario)
    quick = QUICK if is_house else {}
    config = engine_config(args, {**scenario.options, **quick, "check_invariants": True})
    headless = args.headless or not terminal_attached()
    slow = args.slow if args.slow is not None else 0.0 if headless else SECONDS_PER_STEP_WATCHED
    with recording(args.record) as record:
        demo = _Demo(scenario, slow, record)
        interrupt, saved = None, ""
        try:
            if headless:
                demo.run_headless(load_engine(config))
            else:
                demo.stops_at = FIRSTS if args.slow else ()
                saved = demo.run_in_dashboard(args, config, tour)
        except KeyboardInterrupt as pressed:
            interrupt = pressed
        if demo.thread is not None:
            error = demo.thread.ended.exception()
            if error is None or isinstance(error, InvariantError):  # a violation is a result, too
                stream = sys.stderr if args.json else sys.stdout
                print_demo_report(scenario, demo.facts, is_over=demo.is_over, stream=stream)
                if args.json:
                    print_json(report_json(scenario, demo.facts))
            if not headless:
                other = "burst" if scenario.name == "memory-pressure" else "memory-pressure"
                usual = f"Next: minivllm lesson (6 minutes), or minivllm demo --scenario {other}"
                note(f"{saved}\n{NEXT if tour and tour.is_over else usual}".lstrip())
            interrupt = error or interrupt
        if interrupt is not None:
            raise interrupt
    return 0


def _model_of_this_machine() -> str:
    """Return the chat model if it is here, else the house model. Never uses the network."""
    if runtime.ModelStore().smollm2_if_here() is not None:
        return CHAT_MODEL
    fetch = f"For a chat model: minivllm model fetch {CHAT_MODEL}"
    note(f"The answers are by house, the tiny model that comes with minivllm. {fetch}")
    return HOUSE_MODEL


class _Demo:
    """One run of a scenario. `_load` gives it an engine, and with it `thread`, `facts`, `_player`.

    `facts` is updated in the engine's thread. Other threads may read it only after its end.
    """

    def __init__(self, scenario: Scenario, seconds_per_step: float, record: Record) -> None:
        self._scenario, self._seconds_per_step, self._record = scenario, seconds_per_step, record
        self.thread: EngineThread | None = None
        self.is_over = False
        """Whether all requests, of the scenario and of the user, had ended at the last check."""
        self.stops_at = ()
        self._num_firsts = self._num_ended_when_over = 0
        self._on_over = lambda: None

    def _load(self, engine: LLMEngine) -> LogWriter | None:
        """Prepare the run on an engine; return what records it."""
        header = engine.log_header()
        self.facts = RunFacts(header)
        engine.subscribe(self.facts.apply)
        self._player = ScenarioPlayer(self._scenario, engine)
        writer, slow = self._record(header, engine.subscribe), self._seconds_per_step
        self.thread = EngineThread(engine, before_step=self._before_step, seconds_per_step=slow)
        return writer

    def run_headless(self, engine: LLMEngine) -> None:
        """Print the decisions line by line; Ctrl-C ends the run."""
        self._load(engine)
        engine.subscribe(ProgressLines(self.facts.fold).apply)
        over: Future[None] = Future()
        self._on_over = lambda: over.set_result(None)
        self.thread.start()
        try:
            wait((over, self.thread.ended), return_when=FIRST_COMPLETED)
        finally:
            self.thread.stop()
            wait((self.thread.ended,))

    def run_in_dashboard(
        self, args: argparse.Namespace, config: EngineConfig, tour: Tour | None
    ) -> str:
        """Show the dashboard until the user leaves; return what was saved then, in a sentence."""

        def build(progress: Progress) -> Built:
            engine = build_engine(config, progress, clock := StopClock())
            writer = self._load(engine)
            source = InProcessSource(self.facts.fold.header, codec=MODELS)
            engine.subscribe(source.put)
            scenario, facts = self._scenario, self.facts
            self._on_over = lambda: starting.app.show_summary(
                tell_story(scenario, facts), facts.fold.step, figures_of(scenario, facts)
            )
            control = EngineThreadControl(self.thread, clock)
            return Started(source, control, writer, tour=tour), self.thread

        starting = Starting(build)
        self.thread = starting.run(args, config.model, watch=self._scenario.watch)
        return starting.app.context.saved

    def _before_step(self, engine: LLMEngine) -> None:
        counters = self.facts.fold.counters
        firsts = sum(getattr(counters, name) > 0 for name in self.stops_at)
        if firsts > self._num_firsts:  # so that it can be read
            self._num_firsts = firsts
            time.sleep(SECONDS_AT_A_FIRST)
        self._player.before_step()
        self.is_over = self._player.over
        num_ended = counters.finished_requests + counters.aborted_requests
        # When requests that the user added have ended, the summary is shown again with them.
        if self.is_over and num_ended != self._num_ended_when_over:
            self._num_ended_when_over = num_ended
            self._on_over()
