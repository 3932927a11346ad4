"""Lesson 6: a batch whose members come and go at every step, against batches that wait for their
slowest member.
"""

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import idle_slots_while_waiting, token_steps
from minivllm.lessons.teacher.script import Script, Teacher, lesson

LONG, SHORT = 12, 3
WISHES = {"ada": LONG, "bob": SHORT, "cleo": SHORT, "dan": SHORT}
TOKENS = sum(WISHES.values())
SEATS = 2


@lesson(6, "batching", "Static against continuous batching", minutes=8, needs=("block-tables",))
def run(L: Teacher) -> Script:
    alone = _engine(L, "sequential")
    _all_come(alone)
    yield L.say(
        f"Four people ask at once. `ada` wants {LONG} tokens; `bob`, `cleo` and `dan` want {SHORT}"
        " each. The simplest server takes **one after another**: `batching=sequential`. Here they"
        " wait. How long will they wait, and for what?",
        focus="waiting",
    )
    yield L.predict(
        f"Each step writes one token for whoever is served. How many steps until all {len(WISHES)}"
        " have their answers?",
        before=alone.run,
        answer=lambda: alone.fold.step,
        focus="timelines",
        unit="step",
        why={
            LONG: "That is ada alone. The others are not served while she is.",
            TOKENS + len(WISHES): "The step that reads a prompt writes the first token too.",
        },
        otherwise="One token a step, one person at a time: add up what they want.",
        because="Their wishes added up. One sequence at a time leaves most of a processor idle.",
    )
    alone_tokens = {name: alone.output_tokens(name) for name in WISHES}
    L.check(
        "the last answer waited for all others", token_steps(alone, "dan")[0] == TOKENS - SHORT + 1
    )
    static = _engine(L, "static")
    _all_come(static)
    yield L.say(
        "A pass of the model reads all its weights, for one sequence or for many: most of the cost"
        " is paid once (lesson 12). So serve several in one pass, a **batch**. This engine has"
        f" {SEATS} slots and batches as servers long did: form a batch, run it to its end, form the"
        " next. That is **static batching**.",
        focus="slots",
    )
    yield L.predict(
        f"ada ({LONG} tokens) and bob ({SHORT}) form the first batch. In which step does cleo get"
        " her first token?",
        before=lambda: static.run_until(lambda: bool(static.output_tokens("cleo"))),
        answer=lambda: token_steps(static, "cleo")[0],
        why={
            SHORT + 1: (
                "bob's slot is free then, but a static batch takes in nobody before it is over."
            ),
            1: "There are two slots, and two came before her.",
            LONG: "In that step ada writes her last token.",
        },
        because="The batch ends with its slowest member, and the next one begins a step later.",
    )
    deferred = [
        event for event in static.events_of(ev.RequestDeferred) if event.reason == "static_batch"
    ]
    L.check(
        f"cleo was put off {len(deferred)} times because a static batch was running",
        len(deferred) == LONG - 1,
    )
    yield L.predict(
        f"bob ended after {SHORT} steps, and ada went on to step {LONG}. For how many steps did"
        " bob's slot stand empty while cleo was waiting?",
        answer=lambda: idle_slots_while_waiting(static),
        focus="timelines",
        unit="step",
        why={
            0: "Look at bob's row: after his end it does nothing until ada is done.",
            SHORT: "For so long he used it.",
            LONG: "He used it at first.",
        },
        because=(
            "Nobody knows how long an answer will be, so in a static batch some slots always wait"
            " for the longest."
        ),
    )
    static.run()
    L.check(
        f"static batches needed {static.fold.step} steps in all", static.fold.step == LONG + SHORT
    )
    yield L.say(
        f"In all, {static.fold.step} steps instead of {alone.fold.step}. Better, and still"
        " wasteful. What would you change? Remember that a batch is nothing but a list of"
        " sequences that go through the model together, and that the list is made **anew for every"
        " step**."
    )
    live = _engine(L, "continuous")
    _all_come(live)
    yield L.say(
        "So make it anew for every step! Who has ended leaves; who waits takes the free slot in the"
        " very next step. That is **continuous batching**, from the Orca paper of 2022, and every"
        " serving engine does it now. The same four people, the same two slots.",
        focus="slots",
    )
    yield L.predict(
        "In which step does cleo get her first token this time?",
        before=lambda: live.run_until(lambda: bool(live.output_tokens("cleo"))),
        answer=lambda: token_steps(live, "cleo")[0],
        focus="slots",
        why={
            LONG + 1: "That was the static batch. Now she need not wait for ada.",
            SHORT: "In that step bob writes his last token; his slot is free afterwards.",
        },
        because="bob left, she came in the step after, and ada noticed nothing.",
    )
    L.check(
        "ada got a token in each of these steps",
        token_steps(live, "ada") == list(range(1, live.fold.step + 1)),
    )
    yield L.predict(
        "One slot serves ada, the other bob, cleo and dan in turn. In which step is the last of"
        f" the {TOKENS} tokens written?",
        before=live.run,
        answer=lambda: live.fold.step,
        focus="timelines",
        why={
            static.fold.step: "That was the static batch.",
            TOKENS // SEATS: (
                "That would need both slots full to the end. The short ones are done earlier, and"
                " ada's tokens come one by one."
            ),
            3 * SHORT: "Then bob, cleo and dan are done.",
        },
        because=f"ada's own {LONG} tokens are the limit now; the others fitted beside her.",
    )
    L.check("no slot was empty while somebody waited", idle_slots_while_waiting(live) == 0)
    L.check("all four got the same tokens in all three ways", _same(alone_tokens, static, live))
    yield L.say(
        f"Sequential {alone.fold.step}, static {static.fold.step}, continuous {live.fold.step}"
        " steps. And nobody's text changed: who sits beside you decides when your token is"
        " computed, never which token it is. The decision was all in the scheduler; the model did"
        " the same work.",
        focus="finished",
    )
    late = _engine(L, "static")
    late.add("ada", _prompt(0), max_tokens=LONG)
    late.step()
    late.add("bob", _prompt(1), max_tokens=SHORT)
    yield L.say(
        "Now a case that is more like life: people do not come together. Static batching again."
        " `ada` came alone and has had one step; now `bob` comes, and **one slot is free**.",
        focus="slots",
    )
    yield L.predict(
        "In which step does bob get his first token?",
        before=lambda: late.run_until(lambda: bool(late.output_tokens("bob"))),
        answer=lambda: token_steps(late, "bob")[0],
        why={
            2: "The slot is free, but the batch was formed without him.",
            LONG: "In that step ada writes her last token.",
        },
        because=(
            "Beside an empty seat he waited for a stranger's whole answer. A continuous engine"
            " would have taken him in step 2."
        ),
    )
    fair = _engine(L, "continuous")
    fair.add("ada", _prompt(0), max_tokens=LONG)
    fair.step()
    fair.add("bob", _prompt(1), max_tokens=SHORT)
    fair.step()
    L.check(
        "the continuous engine gave bob his first token in step 2", token_steps(fair, "bob") == [2]
    )
    yield L.say(
        "Old servers had a trick against that: wait a little for company before a batch starts"
        " (`batch_delay`, `batch_size`). It fills the batch and makes the first one wait: a choice"
        " between two harms. With continuous batching there is nothing to choose.",
        focus="eventlog",
    )
    yield L.say(
        "In the code: `Scheduler.schedule` in `minivllm/core/scheduler.py` makes the list for one"
        " step, running sequences first, then waiting ones. The old ways are one small gate before"
        " it, `AdmissionPolicy.hold` in `minivllm/core/admission.py`. In vLLM:"
        " `vllm/v1/core/sched/scheduler.py`."
    )
    yield L.say(
        "Measure it with real time on your machine: `minivllm compare` runs the same requests"
        " through these engines. And one thing was kept quiet: the first step of a newcomer reads a"
        " whole prompt. What that does to those who run already is the next lesson."
    )


def _engine(L: Teacher, batching: str) -> LessonEngine:
    return L.engine(
        batching,
        num_blocks=24,
        block_size=4,
        max_num_seqs=SEATS,
        batching=batching,
        enable_prefix_caching=False,
    )


def _prompt(number: int) -> list[int]:
    return list(range(20 + 40 * number, 26 + 40 * number))


def _all_come(engine: LessonEngine) -> None:
    for number, (name, wish) in enumerate(WISHES.items()):
        engine.add(name, _prompt(number), max_tokens=wish)


def _same(tokens: dict[str, list[int]], *engines: LessonEngine) -> bool:
    return all(engine.output_tokens(name) == tokens[name] for engine in engines for name in tokens)
