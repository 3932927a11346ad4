"""Lesson 11: one request over HTTP, as the events that it becomes; and the few numbers that tell
how a server does.
"""

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import gaps, steps_to_first_token
from minivllm.lessons.teacher.script import Script, Teacher, lesson

TEXT = "The sea is salty because"
WANTED = 6
SLOTS = 2
WISH = 8
CUSTOMERS = 6
BURST_EVERY = 2
RATES = (3, 4, 5)
"""Intervals that are tried, to find the shortest at which the queue does not grow."""


@lesson(
    11, "serving", "Serving: from a curl to events and metrics", minutes=10, needs=("preemption",)
)
def run(L: Teacher) -> Script:
    engine = L.engine(
        "one request", num_blocks=32, block_size=8, max_num_seqs=SLOTS, max_num_batched_tokens=64
    )
    yield L.say(
        "A server is a thin thing around the engine. `minivllm serve smollm2` opens port 8000, and"
        " in another terminal: "
        f'`curl localhost:8000/v1/completions --json \'{{"prompt": "{TEXT}", "max_tokens":'
        f' {WANTED}, "stream": true}}\'`. '
        "What happens between the Enter key and the first word? We play the server and call"
        " `add_request` ourselves.",
        focus="eventlog",
    )
    engine.add("curl", TEXT, max_tokens=WANTED)
    yield L.say(
        "Parsed, checked, cut into tokens, handed to the engine: **request.arrived** is its first"
        " event. Everything that you have seen in these lessons was drawn from such events. A"
        " server's `/metrics` is counted from the same ones, and so is what `minivllm attach` draws"
        " of a server that runs elsewhere."
    )
    yield L.predict(
        "The HTTP side hands it over and goes on listening; the engine runs in a thread of its own."
        " When a request comes in the middle of a step, when can it get its first tokens of work?",
        before=lambda: _arrive_in_a_step(engine),
        answer=lambda: "in the next step" if not engine.scheduled("late") else "at once",
        choices=("at once", "in the next step", "when another has ended"),
        why={
            "at once": (
                "The plan of a step is made at its beginning, and the model is busy with it."
            ),
            "when another has ended": "There is a free slot, and the next plan is soon made.",
        },
        because=(
            "A step is never interrupted. Some milliseconds of waiting: that is one reason for a"
            " token budget."
        ),
    )
    L.check("curl has its first token", len(engine.output_tokens("curl")) == 1)
    engine.step()
    yield L.predict(
        "With `stream: true` each token is sent as soon as there is one. A token event carries the"
        f" **text that became visible** by it. curl wants {WANTED} tokens. How many token events"
        " will it get?",
        before=lambda: engine.run_until(lambda: not engine.is_running("curl")),
        answer=lambda: len(engine.output_tokens("curl")),
        why={
            1: "That is without streaming: all at the end.",
            WANTED + 1: "The end is an event of its own, request.finished.",
            WANTED - 1: "The first token comes from the prefill, and counts.",
        },
        because=lambda: (
            f"{_silent(engine, 'curl')} of them showed no text: a piece of a character, or what"
            " might begin a stop string, is held back."
        ),
    )
    kinds = [type(event) for event in engine.events if getattr(event, "seq_id", "") == "curl.0"]
    L.check(
        "its events begin with arrived and end with finished",
        (kinds[0], kinds[-1]) == (ev.RequestArrived, ev.RequestFinished),
    )
    L.choose(None)
    yield L.say(
        "Its life, in events: `request.arrived`, `block.allocated`, `request.admitted`,"
        " `step.scheduled`, `token.sampled` again and again, `block.released`, `request.finished`."
        " Between two of them lie the times that a person feels. Three matter: until the first"
        " token, from token to token, until the end.",
        focus="timelines",
    )
    yield L.say(
        "vLLM calls them `vllm:time_to_first_token_seconds` (**TTFT**),"
        " `vllm:inter_token_latency_seconds` (**ITL**) and `vllm:e2e_request_latency_seconds`. Our"
        " clock is virtual, so we count them in steps. TTFT has two parts: the queue, and the"
        " prefill."
    )
    load = _load(L, "a busy day")
    yield L.predict(
        f"Now a busy day: {SLOTS} slots, everybody wants {WISH} tokens, and every {BURST_EVERY}"
        f" steps somebody new comes, {CUSTOMERS} people in all. The first has a TTFT of 1 step. And"
        " the last?",
        before=lambda: _customers(load, BURST_EVERY),
        answer=lambda: steps_to_first_token(load, f"p{CUSTOMERS - 1}"),
        focus="timelines",
        unit="step",
        tolerance=0.1,
        why={
            1: f"Only if a slot were free: {SLOTS} slots, each busy for {WISH} steps a person.",
            WISH: "The queue grows all the time, so it is more than one turn.",
        },
        otherwise=(
            f"People come every {BURST_EVERY} steps; a slot comes free every {WISH // SLOTS}. The"
            " queue grows."
        ),
        because=lambda: (
            "TTFT of one after the other: "
            + ", ".join(str(steps_to_first_token(load, f"p{i}")) for i in range(CUSTOMERS))
            + "."
        ),
    )
    yield L.predict(
        "And how did it feel once the text had begun? What is the longest gap between two tokens of"
        " the **last** person?",
        answer=lambda: max(gaps(load, f"p{CUSTOMERS - 1}")),
        unit="step",
        why={SLOTS: "Two in one batch get a token each in every step."},
        otherwise="Whoever has a slot gets a token in every step, however long the queue is.",
        because=(
            "Overload shows in TTFT, preemption in ITL. Who looks at one of them alone sees half."
        ),
    )
    L.check(
        "nobody who had a slot ever missed a step",
        {gap for i in range(CUSTOMERS) for gap in gaps(load, f"p{i}")} == {1},
    )
    engines = {every: _load(L, f"one every {every}") for every in RATES}
    L.show(load)
    yield L.predict(
        f"{SLOTS} slots, {WISH} steps for each person. Every how many steps may somebody come so"
        " that the queue does **not** grow?",
        before=lambda: _all_rates(engines),
        answer=lambda: _sustainable(engines),
        focus="waiting",
        unit="step",
        why={
            WISH: f"That is for one slot. Here are {SLOTS}.",
            BURST_EVERY: "We have just seen that queue.",
            WISH * SLOTS: "More slots serve more people, not fewer.",
        },
        otherwise=f"In {WISH} steps {SLOTS} people are served.",
        because=(
            "People in the house = arrivals per step × steps each stays (**Little's law**), and"
            f" the house has {SLOTS} slots."
        ),
    )
    calm = engines[WISH // SLOTS]
    L.check(
        "at that rate the last one got the first token in the next step",
        steps_to_first_token(calm, f"p{CUSTOMERS - 1}") == 1,
    )
    gone = L.engine(
        "a closed browser",
        num_blocks=16,
        block_size=4,
        max_num_seqs=SLOTS,
        max_num_batched_tokens=32,
    )
    for number, name in enumerate(("ada", "bob", "cleo")):
        gone.add(name, list(range(20 + 30 * number, 27 + 30 * number)), max_tokens=WISH)
    gone.step(3)
    held = gone.num_used
    yield L.say(
        f"People also leave. ada and bob are being answered ({held} blocks), cleo waits for a slot."
        " Now **ada closes her browser**. The server notices that nobody reads any more.",
        focus="slots",
    )
    yield L.predict(
        "It calls `abort_request`. How many blocks are in use right after that, before any further"
        " step?",
        before=lambda: gone.engine.abort_request("ada"),
        answer=lambda: gone.num_used,
        focus="blockmap",
        unit="block",
        why={held: "ada's are let go at once: nobody needs them.", 0: "bob still has his."},
        because=(
            "At once, not when her answer would have ended. A server that misses this computes for"
            " nobody."
        ),
    )
    gone.step()
    L.check("cleo has ada's slot in the very next step", gone.is_running("cleo"))
    gone.run()
    counters = gone.fold.counters
    yield L.say(
        "Over. `vllm:num_requests_running` is 0 now, a **gauge**: how things stand."
        f" `vllm:request_success_total` says {counters.finished_requests} (and"
        f" {counters.aborted_requests} aborted), a **counter**: it only climbs. A scrape every 15"
        " seconds misses whatever a gauge did in between; a counter's difference misses nothing.",
        focus="finished",
    )
    yield L.predict(
        "`vllm:prompt_tokens_total` counts prompts, `vllm:generation_tokens_total` what was"
        " sampled. Three prompts of 7 tokens. ada left after 3 tokens; bob and cleo got 8 each."
        " What does the second one say?",
        answer=lambda: gone.fold.counters.generation_tokens,
        unit="token",
        why={
            3 * WISH: "ada left early.",
            2 * WISH: "What was written for ada was work all the same.",
            3 * 7: "That is the first one.",
        },
        otherwise="Add up what was sampled for each, ada too.",
        because="A rate of it, tokens per second, is what a server's capacity is measured in.",
    )
    L.check("and prompt_tokens says 21", gone.fold.counters.prompt_tokens == 21)
    yield L.say(
        "Times go into **histograms**: counts of how many were under 10 ms, 25 ms, and so on. From"
        " those anybody can compute a p99 of all servers together; a mean or a ready-made p99 could"
        " not be added up. Their names, like all the others, are vLLM's, so its Grafana board works"
        " with both."
    )
    yield L.say(
        "In the code: `EngineThread` in `minivllm/engine/engine_thread.py` is the loop that takes"
        " in requests between two steps; events are in `minivllm/events/types/`. In vLLM:"
        " `vllm/v1/engine/async_llm.py` and `core.py` (a process of its own),"
        " `vllm/v1/metrics/loggers.py`. Next: what one step costs, and why."
    )


def _arrive_in_a_step(engine: LessonEngine) -> None:
    """A second request between the plan of a step and its end."""
    engine.phase()
    engine.add("late", TEXT, max_tokens=WANTED)
    while engine.engine.next_phase != "schedule":
        engine.phase()


def _silent(engine: LessonEngine, request_id: str) -> int:
    """Tokens that showed no text of their own when they came."""
    return sum(
        not event.text
        for event in engine.events_of(ev.TokenSampled)
        if event.seq_id == f"{request_id}.0"
    )


def _load(L: Teacher, name: str) -> LessonEngine:
    return L.engine(
        name, num_blocks=32, block_size=4, max_num_seqs=SLOTS, enable_prefix_caching=False
    )


def _customers(engine: LessonEngine, every: int) -> None:
    """One request every so many steps, until all are served."""
    for number in range(CUSTOMERS):
        engine.add(f"p{number}", list(range(20 + 20 * number, 26 + 20 * number)), max_tokens=WISH)
        for _ in range(every):
            if engine.busy:
                engine.step()
    engine.run()


def _all_rates(engines: dict[int, LessonEngine]) -> None:
    for every, engine in engines.items():
        _customers(engine, every)


def _sustainable(engines: dict[int, LessonEngine]) -> int:
    """The shortest interval at which the last one waits no longer than the first."""
    last = f"p{CUSTOMERS - 1}"
    return min(
        every for every, engine in engines.items() if steps_to_first_token(engine, last) == 1
    )
