"""Lesson 12: one HTTP request as a list of events, and the metrics that describe a server."""

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import gaps, steps_to_first_token
from minivllm.lessons.teacher.prompts import STORIES
from minivllm.lessons.teacher.script import Script, Teacher, lesson

TEXT = "Count: one ✓, two ✓, three ✓, four"
"""The model goes on in the same way; to the house model, ✓ is three tokens of one byte each."""
WANTED = 6
SLOTS = 2
WISH = 8
CUSTOMERS = 6
BURST_EVERY = 2
RATES = (3, 4, 5)
"""Steps between two arrivals. The lesson looks for the smallest without a growing queue."""


@lesson(
    12, "serving", "Serving: from a curl to events and metrics", minutes=10, pages=23,
    needs=("preemption",),
)  # fmt: skip
def run(L: Teacher) -> Script:
    yield from _one_request(L)
    yield from _a_queue(L)
    yield from _a_user_who_leaves(L)


def _one_request(L: Teacher) -> Script:
    engine = L.engine(
        "one request", num_blocks=32, block_size=8, max_num_seqs=SLOTS, max_num_batched_tokens=64
    )
    L.focus("eventlog")
    yield L.say(f"""A server is a thin layer around the engine. `minivllm serve house` opens port
        8000. In another terminal: `curl localhost:8000/v1/completions --json '{{"prompt": "{TEXT}",
        "max_tokens": {WANTED}, "stream": true}}'`. What happens between the Enter key and the first
        word? We act as the server and call `add_request` ourselves.""")
    engine.add("curl", TEXT, max_tokens=WANTED)
    yield L.say("""The server parses the request, checks it, cuts its prompt into tokens and hands
        it to the engine. **request.arrived** is its first event. All pictures in these lessons were
        drawn from such events. A server's `/metrics` is counted from them, and `minivllm attach`
        draws a remote server from them.""")
    yield L.predict(
        """The HTTP side hands the request over and goes on listening; the engine runs in its own
        thread. If a request arrives in the middle of a step, when can its first tokens be
        scheduled?
        - at once: A step is planned at its beginning, and the model is busy with that plan.
        - in the next step
        - after another request ends: There is a free slot, and the next plan is made soon.
        = A step is never interrupted. The request waits some milliseconds, which is one more reason
          for a token budget.""",
        before=lambda: _arrive_in_a_step(engine),
        answer=lambda: "in the next step" if not engine.scheduled("late") else "at once",
    )
    L.check("curl has its first token", len(engine.output_tokens("curl")) == 1)
    engine.step()
    yield L.predict(
        f"""With `stream: true` each token is sent as soon as it exists. A token event has the
        **text that became visible** with it. curl wants {WANTED} tokens. How many token events will
        it get?
        - 1: That is without streaming: all text at the end.
        - {WANTED + 1}: The end is a separate event, request.finished.
        - {WANTED - 1}: The first token comes from the prefill, and it counts.
        - {WANTED - 2}: A token that shows no text gets an event, too.""",
        before=lambda: engine.run_until(lambda: not engine.is_running("curl")),
        answer=lambda: len(engine.output_tokens("curl")),
        because=lambda: (
            f"{_silent(engine)} A token that ends inside a character (✓ is three bytes), or at the"
            " possible beginning of a stop string, is held back."
        ),
    )
    kinds = [type(event) for event in engine.events if getattr(event, "seq_id", "") == "curl.0"]
    L.check(
        "its events begin with arrived and end with finished",
        (kinds[0], kinds[-1]) == (ev.RequestArrived, ev.RequestFinished),
    )
    L.choose(None)
    L.focus("timelines")
    yield L.say("""Its life, in events: `request.arrived`, `block.allocated`, `request.admitted`,
        `step.scheduled`, `token.sampled` again and again, `block.released`, `request.finished`. The
        times between events are **latencies**. Users feel three of them: until the first token,
        from token to token, and until the end.""")
    yield L.say("""vLLM calls them `vllm:time_to_first_token_seconds` (**TTFT**),
        `vllm:inter_token_latency_seconds` (**ITL**) and `vllm:e2e_request_latency_seconds`. Our
        clock is virtual, so we count steps. TTFT is the time in the queue and the prefill.""")


def _a_queue(L: Teacher) -> Script:
    load = _load(L, "a busy server")
    yield L.predict(
        f"""Now a busy server: {SLOTS} slots, every user wants {WISH} tokens, and a new user arrives
        every {BURST_EVERY} steps, {CUSTOMERS} users in all. The first has a TTFT of 1 step. What is
        the TTFT of the last? [step]
        - 1: Only if a slot were free. There are {SLOTS}, and each user keeps one for {WISH} steps.
        - {WISH}: The queue keeps growing, so the wait is longer than one answer.
        - else: Users arrive every {BURST_EVERY} steps, but a slot becomes free every
          {WISH // SLOTS}. The queue grows.""",
        before=lambda: _customers(load, BURST_EVERY),
        answer=lambda: steps_to_first_token(load, f"p{CUSTOMERS - 1}"),
        tolerance=0.1,
        because=lambda: (
            "The TTFTs in order of arrival: "
            + ", ".join(str(steps_to_first_token(load, f"p{i}")) for i in range(CUSTOMERS))
            + "."
        ),
    )
    yield L.predict(
        f"""And after the text has begun? What is the longest gap between two tokens of the **last**
        user? [step]
        - {SLOTS}: Two requests in one batch get a token each in every step.
        - else: A running request gets a token in every step, however long the queue is.
        = Overload shows in TTFT, preemption in ITL. Monitor both: either one alone hides half the
          problems.""",
        answer=lambda: max(gaps(load, f"p{CUSTOMERS - 1}")),
    )
    L.check(
        "no running request ever missed a step",
        {gap for i in range(CUSTOMERS) for gap in gaps(load, f"p{i}")} == {1},
    )
    engines = {every: _load(L, f"an arrival every {every} steps") for every in RATES}
    L.show(load)
    yield L.predict(
        f"""{SLOTS} slots, {WISH} steps for each user, and a new user every N steps. What is the
        smallest N for which the queue does **not** grow? [step]
        - {WISH}: That is for one slot. Here there are {SLOTS}.
        - {BURST_EVERY}: We have just seen that queue grow.
        - {WISH * SLOTS}: More slots serve more users, not fewer.
        - else: In {WISH} steps, {SLOTS} users are served.
        = Users in the system = arrivals per step × steps that each stays (**Little's law**), and
          the system has {SLOTS} slots.""",
        before=lambda: [_customers(engine, every) for every, engine in engines.items()],
        answer=lambda: _sustainable(engines),
        focus="waiting",
    )
    calm = engines[WISH // SLOTS]
    L.check(
        "at that rate the last user got the first token in the next step",
        steps_to_first_token(calm, f"p{CUSTOMERS - 1}") == 1,
    )


def _a_user_who_leaves(L: Teacher) -> Script:
    gone = L.engine(
        "a closed browser", num_blocks=16, block_size=4, max_num_seqs=SLOTS,
        max_num_batched_tokens=32,
    )  # fmt: skip
    for name in ("ada", "bob", "cleo"):
        gone.add(name, 7, max_tokens=WISH)
    gone.step(3)
    held = gone.num_used
    L.focus("slots")
    yield L.say(f"""Users also leave. ada and bob are being answered ({held} blocks); cleo waits for
        a slot. Now **ada closes her browser**, and the server sees it.""")
    yield L.predict(
        f"""It calls `abort_request`. How many blocks are in use right after that? [block]
        - {held}: ada's blocks are released at once: her request needs no keys and values any more.
        - 0: bob still has his.
        = The blocks are free at once, not when her answer would have ended. A server that misses
          this computes tokens that no user reads.""",
        before=lambda: gone.engine.abort_request("ada"),
        answer=lambda: gone.num_used,
        focus="blockmap",
    )
    gone.step()
    L.check("cleo has ada's slot in the very next step", gone.is_running("cleo"))
    gone.run()
    counters = gone.fold.counters
    L.focus("finished")
    yield L.say(f"""All requests have ended. `vllm:num_requests_running` is 0 now: a **gauge**, the
        present state. `vllm:request_success_total` is {counters.finished_requests} (and
        {counters.aborted_requests} aborted): a **counter**, which only goes up. A monitor that
        reads every 15 seconds misses what a gauge did in between; the difference of two counter
        values misses nothing.""")
    yield L.predict(
        f"""`vllm:prompt_tokens_total` counts prompt tokens, `vllm:generation_tokens_total` counts
        sampled ones. There were three prompts of 7 tokens. ada left after 3 tokens; bob and cleo
        got 8 each. What is the second counter? [token]
        - {3 * WISH}: ada left early.
        - {2 * WISH}: ada's tokens were work as well.
        - {3 * 7}: That is the first counter.
        - else: Add up the tokens sampled for each user, ada too.
        = Its rate, in tokens per second, is the server's **throughput**.""",
        answer=lambda: gone.fold.counters.generation_tokens,
    )
    L.check("the counter of prompt tokens is 21", gone.fold.counters.prompt_tokens == 21)
    yield L.say("""Times go into **histograms**: counts of how many were under 10 ms, under 25 ms,
        and so on. Counts from all servers can be added and give a p99 of the whole; means and
        ready-made p99 values cannot be added. All metrics have vLLM's names, so its charts (for
        Grafana) work with both.""")
    yield L.say("""In the code: `EngineThread` in `minivllm/engine/engine_thread.py` is the loop
        that takes in requests between two steps; events are in `minivllm/events/types/`. In vLLM:
        `vllm/v1/engine/async_llm.py` and `core.py` (a separate process),
        `vllm/v1/metrics/loggers.py`. Next: what one step costs, and why.""")


def _arrive_in_a_step(engine: LessonEngine) -> None:
    """Add a second request between the plan of a step and its end."""
    engine.phase()
    engine.add("late", TEXT, max_tokens=WANTED)
    while engine.engine.next_phase != "schedule":
        engine.phase()


def _silent(engine: LessonEngine) -> str:
    """Say how many of curl's tokens made no text visible when they were sampled."""
    sampled = [event for event in engine.events_of(ev.TokenSampled) if event.seq_id == "curl.0"]
    count = sum(not event.text for event in sampled)
    return f"{count} of them showed no text." if count else "Here each showed its text at once."


def _load(L: Teacher, name: str) -> LessonEngine:
    return L.engine(
        name, num_blocks=32, block_size=4, max_num_seqs=SLOTS, enable_prefix_caching=False
    )


def _customers(engine: LessonEngine, every: int) -> None:
    for number, story in zip(range(CUSTOMERS), STORIES.values(), strict=False):
        engine.add(f"p{number}", engine.tokens(story, 6), max_tokens=WISH)
        for _ in range(every):
            if engine.busy:
                engine.step()
    engine.run()


def _sustainable(engines: dict[int, LessonEngine]) -> int:
    """The smallest number of steps between arrivals at which the last user waits for no slot."""
    last = f"p{CUSTOMERS - 1}"
    return min(
        every for every, engine in engines.items() if steps_to_first_token(engine, last) == 1
    )
