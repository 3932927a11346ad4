"""Lesson 5: continuous batching, against batches that wait for their slowest member."""

from minivllm.events import types as ev
from minivllm.lessons.shown.tokens import measured_step_times
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import idle_slots_while_waiting, token_steps
from minivllm.lessons.teacher.script import Script, Teacher, lesson

LONG, SHORT = 12, 3
WISHES = {"ada": LONG, "bob": SHORT, "cleo": SHORT, "dan": SHORT}
TOKENS = sum(WISHES.values())
SEATS, PROMPT = 2, 6
NINE = 9
"""Tokens of a measured step."""
MEASURED = (
    "             steps   tokens/s   first token",
    "static         352         77         3.7 s",
    "continuous     248         93         1.1 s",
)
"""Medians of five runs, the first token of the median request: `minivllm compare --model smollm2
--scenario burst --a static+paged --b continuous+paged --num-threads 1 --seed 1`, and 2 to 5, on a
busy AMD EPYC with two cores. `compare` counts seconds of the engine's own thread. 2026-11-24.
"""
TITLES = {
    "sequential": "one request at a time",
    "static": "static batching",
    "continuous": "continuous batching",
}


@lesson(
    5, "batching", "Static against continuous batching", minutes=8, pages=22,
    needs=("block-tables",),
)  # fmt: skip
def run(L: Teacher) -> Script:
    alone, static = _engine(L, "sequential"), _engine(L, "static")
    yield from _one_after_another(L, alone)
    yield from _static_batches(L, static, alone)
    yield from _a_new_batch_in_every_step(L, static, alone)
    yield from _one_who_arrives_later(L)


def _one_after_another(L: Teacher, alone: LessonEngine) -> Script:
    _all_come(alone)
    L.show(alone)
    L.focus("waiting")
    yield L.say(f"""Four users ask at once. `ada` wants {LONG} tokens; `bob`, `cleo` and `dan` want
        {SHORT} each. The simplest server takes **one after another**: `batching=sequential`. Here
        they wait. How long will they wait, and for what?""")
    yield L.predict(
        f"""Each step writes one token for the request that is being served. After how many steps do
        all {len(WISHES)} users have their answers? [step]
        - {LONG}: That is ada alone. The others are not served while she is.
        - {TOKENS + len(WISHES)}: The step that processes a prompt also writes the first token.
        - else: One token per step, one user at a time: add up what they want.
        = {" + ".join(map(str, WISHES.values()))}. A pass for {NINE} tokens takes only
          {measured_step_times()[NINE]} times as long as for one (SmolLM2 on a CPU): mostly, the
          processor waits for weights. Its **utilization** is low.""",
        before=alone.run,
        answer=lambda: alone.fold.step,
        focus="timelines",
    )
    L.check(
        "the last answer had to wait for all the others",
        token_steps(alone, "dan")[0] == TOKENS - SHORT + 1,
    )


def _static_batches(L: Teacher, static: LessonEngine, alone: LessonEngine) -> Script:
    _all_come(static)
    L.show(static)
    L.focus("slots")
    yield L.say(f"""One pass of the model reads all its weights, for one sequence or for many: most
        of the cost is paid once (lesson 18). So run several sequences in one pass, a **batch**.
        This engine has {SEATS} batch slots (`max_num_seqs`) and uses **static batching**: form a
        batch, run it to its end, form the next.""")
    yield L.predict(
        f"""ada ({LONG} tokens) and bob ({SHORT}) form the first batch. In which step does cleo get
        her first token?
        - {SHORT + 1}: bob's slot is free by then, but a static batch admits nobody before it ends.
        - 1: There are two slots, and two requests came before hers.
        - {LONG}: In that step ada writes her last token.
        = A batch ends with its slowest member, and the next batch begins one step later.""",
        before=lambda: static.run_until(lambda: bool(static.output_tokens("cleo"))),
        answer=lambda: token_steps(static, "cleo")[0],
    )
    deferred = [
        event for event in static.events_of(ev.RequestDeferred) if event.reason == "static_batch"
    ]
    L.check(
        f"a running batch made cleo wait in {len(deferred)} steps, 2 to {LONG}",
        [event.step for event in deferred] == list(range(2, LONG + 1)),
    )
    yield L.predict(
        f"""bob ended after {SHORT} steps, and ada went on to step {LONG}. For how many steps was
        bob's slot empty while cleo waited? [step]
        - 0: After bob's last token, his slot does nothing until ada is done.
        - {SHORT}: {SHORT} is how long bob used the slot; the question is how long it was empty.
        - {LONG}: bob used the slot in the first {SHORT} steps.
        = The length of an answer is not known in advance, so in a static batch some slots always
          wait for the longest one.""",
        answer=lambda: idle_slots_while_waiting(static),
        focus="timelines",
    )
    static.run()
    L.check(
        f"static batches needed {static.fold.step} steps in all", static.fold.step == LONG + SHORT
    )
    yield L.say(f"""{static.fold.step} steps instead of {alone.fold.step}: better, but a slot was
        still idle. And a batch is only a list of sequences (the next lesson shows how they share a
        pass). What would you change, if that list can be made **anew for every step**?""")


def _a_new_batch_in_every_step(L: Teacher, static: LessonEngine, alone: LessonEngine) -> Script:
    live = _engine(L, "continuous")
    _all_come(live)
    L.focus("slots")
    yield L.say("""Form a new batch in every step! A sequence that has ended leaves, and a waiting
        one takes its slot in the next step. That is **continuous batching**, from the Orca paper of
        2022. Every serving engine uses it now. The same four users, the same two slots.""")
    yield L.predict(
        f"""In which step does cleo get her first token this time?
        - {LONG + 1}: That was the static batch. Now she does not have to wait for ada.
        - {SHORT}: In that step bob writes his last token; his slot is free afterwards.
        = bob left, cleo took his slot in the next step, and ada was not delayed.""",
        before=lambda: live.run_until(lambda: bool(live.output_tokens("cleo"))),
        answer=lambda: token_steps(live, "cleo")[0],
    )
    L.check(
        "ada got a token in each of these steps",
        token_steps(live, "ada") == list(range(1, live.fold.step + 1)),
    )
    yield L.predict(
        f"""One slot serves ada; the other serves bob, cleo and dan in turn. In which step is the
        last of the {TOKENS} tokens written?
        - {static.fold.step}: That was the static batch.
        - {TOKENS // SEATS}: That would need two full slots until the end. The short answers end
          earlier, and ada's tokens come one by one.
        - {3 * SHORT}: By then bob, cleo and dan are done, but ada is not.
        = Now only ada's own {LONG} tokens are the limit; the other answers ran beside hers.""",
        before=live.run,
        answer=lambda: live.fold.step,
        focus="timelines",
    )
    L.check("no slot was empty while a request waited", idle_slots_while_waiting(live) == 0)
    alone_tokens = {name: alone.output_tokens(name) for name in WISHES}
    L.check(
        "all four users got the same tokens in all three ways", _same(alone_tokens, static, live)
    )
    yield L.say(
        f"""Sequential {alone.fold.step}, static {static.fold.step}, continuous {live.fold.step}
        steps: the same tokens in less time is a higher **throughput**. No text changed, because
        your batch-mates decide when your token is computed, never which token it is. Only the
        scheduler made the difference: the model computed the same tokens in fewer passes.""",
        focus="finished",
        diagram="batching",
    )


def _one_who_arrives_later(L: Teacher) -> Script:
    late = _engine(L, "static", ", late arrival")
    late.add("ada", PROMPT, max_tokens=LONG)
    late.step()
    late.add("bob", PROMPT, max_tokens=SHORT)
    L.focus("slots")
    yield L.say(f"""Now a more realistic case: users do not arrive together. Static batching again.
        `ada` came alone, wants {LONG} tokens, and has had one step. Now `bob` arrives, and **one
        slot is free**.""")
    yield L.predict(
        f"""In which step does bob get his first token?
        - 2: The slot is free, but the batch was formed without him.
        - {LONG}: In that step ada writes her last token.
        = A slot was free the whole time, but a static batch admits no request until it ends. A
          continuous engine would have admitted bob in step 2.""",
        before=lambda: late.run_until(lambda: bool(late.output_tokens("bob"))),
        answer=lambda: token_steps(late, "bob")[0],
    )
    fair = _engine(L, "continuous", ", late arrival")
    fair.add("ada", PROMPT, max_tokens=LONG)
    fair.step()
    fair.add("bob", PROMPT, max_tokens=SHORT)
    fair.step()
    L.check(
        "the continuous engine gave bob his first token in step 2", token_steps(fair, "bob") == [2]
    )
    L.focus("eventlog")
    yield L.say("""Old servers had a workaround: before a batch starts, wait briefly for more
        requests (`batch_delay`, `batch_size`). This fills the batch, but it delays the first
        request. With continuous batching there is no such trade-off, and vLLM has none.""")
    yield L.say("""In the code: `Scheduler.schedule` in `minivllm/core/scheduler.py` makes the batch
        of one step: running sequences first, then waiting ones. The old ways are a small gate in
        front of it, `AdmissionPolicy.hold` in `minivllm/core/admission.py`. In vLLM:
        `vllm/v1/core/sched/scheduler.py`.""")
    yield L.say(
        """Measured in seconds, with `minivllm compare`: 30% fewer steps give 1.2 times the
        throughput, because a full step takes longer than a half-empty one. The first token comes
        3.3 times sooner. One question is open: in a step, some sequences have a whole prompt to
        process, others one token. How can they share a pass? The next lesson shows it.""",
        figure=MEASURED,
    )


def _engine(L: Teacher, batching: str, suffix: str = "") -> LessonEngine:
    return L.engine(
        TITLES[batching] + suffix, num_blocks=24, block_size=4, max_num_seqs=SEATS,
        batching=batching, enable_prefix_caching=False,
    )  # fmt: skip


def _all_come(engine: LessonEngine) -> None:
    for name, wish in WISHES.items():
        engine.add(name, PROMPT, max_tokens=wish)


def _same(tokens: dict[str, list[int]], *engines: LessonEngine) -> bool:
    return all(engine.output_tokens(name) == tokens[name] for engine in engines for name in tokens)
