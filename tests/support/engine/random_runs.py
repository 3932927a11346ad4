"""Short random runs of the real scheduler, for property tests of the dashboard."""

from collections.abc import Callable
from types import SimpleNamespace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from minivllm.tui.context import Context
from minivllm.tui.draw.selection import Target
from minivllm.tui.state.model import DashboardModel

RUNS = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""`stage` and `ask` are classes, so all examples may share them."""

_REQUEST = st.tuples(
    st.integers(1, 40),  # words of the prompt
    st.integers(1, 24),  # words of the answer
    st.integers(0, 12),  # the step before which it arrives
    st.integers(1, 3),  # samples
    st.booleans(),  # shares its beginning with others
)


@st.composite
def _options(draw: st.DrawFn) -> dict[str, object]:
    return {
        "num_blocks": draw(st.integers(30, 40)),  # 30 hold the largest request
        "block_size": 4,
        "max_num_seqs": draw(st.integers(3, 5)),
        "max_num_batched_tokens": draw(st.integers(5, 48)),
        "enable_prefix_caching": draw(st.booleans()),
    }


def run_of(stage: Callable, ask: Callable, requests: list[tuple], options: dict[str, object]):
    asks = []
    for number, (prompt, answer, arrives, samples, alike) in enumerate(requests):
        words = " ".join(f"{'same' if alike else number}w{word}" for word in range(prompt))
        said = " ".join(f"a{word}" for word in range(answer))
        asks.append(ask(f"r{number}", words, said, arrives, answer + 1, samples=samples))
    return stage(asks, **options).run(120)


def folded(stage) -> DashboardModel:
    """Apply all events of the stage to a new dashboard model."""
    model = DashboardModel(stage.header)
    for event in stage.events:
        model.apply(event)
    return model


def context_with(*targets: Target) -> Context:
    """A context where these targets were selected in order; it has no recording."""
    context = Context(transport=None)
    for target in targets:
        context.selection.choose(target)
    return context


def standing_at(model: DashboardModel) -> Context:
    """A context whose transport shows this moment."""
    recording = type("NoEvents", (list,), {"head": model, "header": model.header})()
    source = SimpleNamespace(status=SimpleNamespace(state="live", text=""))
    transport = SimpleNamespace(
        view=model, state="live", position=0, speed=1.0, steps_behind=0, quiet_seconds=0.0,
        recording=recording, source=source, event_here=lambda: None, is_over=False,
    )  # fmt: skip
    return Context(transport)


REQUESTS = st.lists(_REQUEST, min_size=1, max_size=7)
OPTIONS = _options()
