"""The paths in docs/inside/architecture.md are those that a request and an event really take."""

import re
import sys
from collections.abc import Callable, Sequence

from support.engine.engine_fakes import WatchedEngine
from support.model.needs import cpu_ops
from support.tool_modules import TOOLS, load_tool

from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams
from minivllm.tui.context import Context
from minivllm.tui.panels import picture
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.state.model import MODELS
from minivllm.tui.time.transport import Transport

ROOT = TOOLS.parent
PAGE = (ROOT / "docs/inside/architecture.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def path_of(title: str) -> list[str]:
    """`module:Class.function` of each row of a section's table."""
    rows = re.findall(r"^\| \d+ \|.*?\(\.\./\.\./(\S+)\.py#(\S+)\)", section(title), re.MULTILINE)
    modules = ((f"minivllm/{file.removeprefix('minivllm/')}", name) for file, name in rows)
    return [f"{file.replace('/', '.')}:{name}" for file, name in modules]


def functions_called(work: Callable[[], object]) -> list[str]:
    """`module:qualified name` of each minivllm function entered, in order."""
    called = []

    def note(frame, kind, _):
        if kind == "call" and (module := frame.f_globals.get("__name__", "")).startswith(
            "minivllm"
        ):
            called.append(f"{module}:{frame.f_code.co_qualname}")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return called


def first_missing(path: Sequence[str], called: list[str]) -> str | None:
    """The first function that does not occur in `called` after the one before it."""
    assert path
    calls = iter(called)
    return next((step for step in path if not any(call == step for call in calls)), None)


def calls_of_a_request(**options: object) -> list[str]:
    llm, params = LLM(**options), SamplingParams(temperature=0, max_tokens=2)
    return functions_called(lambda: llm.generate("hello", params, use_tqdm=False))


def files_of(called: list[str]) -> set[str]:
    return {call.partition(":")[0].partition(".")[2].replace(".", "/") for call in called}


def test_a_request_takes_the_listed_path_and_enters_the_listed_files():
    called = calls_of_a_request(
        model="tiny-random", attention_backend="torch", linear_backend="torch",
        custom_ops=["none"], num_gpu_blocks_override=64,
    )  # fmt: skip
    assert first_missing(path_of("How a request travels"), called) is None
    ((number, listed),) = re.findall(r"enters (\d+) files, .*?order: (.*?\))\.", PAGE)
    assert set(re.findall(r"`(\S+)\.py`", listed)) == files_of(called)
    assert int(number) == len(files_of(called))


def test_with_the_cpu_kernels_a_request_enters_as_many_files_as_readers_are_told():
    cpu_ops()  # or skip
    (number,) = re.findall(r"enters (\d+) files too", PAGE)
    assert int(number) == len(files_of(calls_of_a_request(model="house")))


def test_an_event_takes_the_listed_path():
    watched = WatchedEngine()
    source = InProcessSource(watched.engine.log_header(), codec=MODELS)
    watched.engine.subscribe(source.put)
    transport = Transport(source)

    def work() -> None:
        watched.add("ada", [1, 2, 3])
        watched.step()
        transport.tick(0.0, 1.0)
        picture("slots", Context(transport), 80, 10)

    assert first_missing(path_of("How an event travels"), functions_called(work)) is None
    source.close()


def test_the_lines_that_a_prompt_needs_are_those_that_readers_are_told():
    sz = load_tool("sz.py")
    needed = sz.by_room(sz.lines_of_generate())
    table, readme = section("How much code a prompt needs"), (ROOT / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)`.* \| ([\d,]+) \|", table, re.MULTILINE)
    assert {room for room, _ in rows} == needed.keys()
    (told,) = re.findall(r"`LLM.generate` needs \[([\d,]+) lines\]", readme)
    numbers = [int(lines.replace(",", "")) for lines in (told, *dict(rows).values())]
    for total in (numbers[0], sum(numbers[1:])):
        assert abs(total - needed.total()) <= 300
