"""`Starting`: builds an engine while the dashboard is open, in the thread that then runs it.

torch keeps a pool of worker threads for each thread that uses it, so one thread does both.

    dashboard's thread    first frame  ->  begin()           ...  draws `text`  ->  draws the engine
    engine's thread                         build(progress): torch, model  ->  thread.run()
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread

from minivllm import __version__, tui
from minivllm.cli.dashboard import make_app, run_app
from minivllm.cli.terminal import forget_typed_keys
from minivllm.engine.engine_thread import EngineThread
from minivllm.events.types import LogHeader
from minivllm.runtime.progress import Progress
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.start import Started
from minivllm.tui.state.model import MODELS, DashboardModel

Built = tuple[Started, EngineThread | None]
"""What the dashboard gets, and a thread that is not started; a lesson runs its engine without one.
"""


class Starting:
    """Implements `minivllm.tui.start.Start`. `build` runs in the engine's thread."""

    def __init__(self, build: Callable[[Progress], Built]) -> None:
        self.started: Future[Started] = Future()
        self.text = ""
        self.app: tui.DashboardApp
        """The dashboard, before `build` is called."""
        self.result: str | None = None
        """What `run_app` has returned."""
        self._build = build
        self._engine_thread: EngineThread | None = None
        self._thread = Thread(target=self._main, name="minivllm-engine", daemon=True)

    # ---- the dashboard's thread ----

    def begin(self) -> None:
        self._thread.start()

    def run(self, args: argparse.Namespace, model: str, **options: object) -> EngineThread | None:
        """Show the dashboard, then wait until the engine has stopped, and return its thread.

        If the user leaves during the start, the process ends here, because an import or a download
        cannot be interrupted. Raises the error of the start, but not the engine's.
        """
        self.app = make_app(args, nothing_yet(model), start=self, **options)
        status = 0
        try:
            self.result = run_app(self.app)
        except SystemExit as exit_:
            status = exit_.code
        finally:
            if self._engine_thread is not None:
                self._engine_thread.stop()
                wait((self._engine_thread.ended,))
        if not self.started.done():
            forget_typed_keys()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        if status:
            raise SystemExit(status)
        self.started.result()
        return self._engine_thread

    # ---- the engine's thread ----

    def _main(self) -> None:
        try:
            started, thread = self._build(self._report)
        except BaseException as error:
            self.started.set_exception(error)
            return
        gc.freeze()  # see `run_app`
        self._engine_thread = thread
        self.started.set_result(started)
        if thread is not None:
            thread.run()

    def _report(self, sentence: str) -> None:
        self.text = sentence


def nothing_yet(model: str) -> InProcessSource[DashboardModel]:
    """Return a source without events, to be drawn until the engine's own source is there."""
    sizes = ("num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
    header = LogHeader(
        engine=__version__, model=model, clock="monotonic", wall=0.0, mono=0.0,
        scheduling_policy="fcfs", enable_prefix_caching=False, **dict.fromkeys(sizes, 1),
    )  # fmt: skip
    return InProcessSource(header, codec=MODELS)
