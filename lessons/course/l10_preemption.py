"""Lesson 10: if no block is free, one request gives up all of its blocks; an average hides it."""

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import gaps, token_steps
from minivllm.lessons.teacher.script import Script, Teacher, lesson

SIZE = 4
PEOPLE = ("ada", "bob", "cleo")
PROMPT, WISH = 8, 16
BLOCKS = 12
AMPLE = 24
FULL_NEED = -(-(PROMPT + WISH - 1) // SIZE)
"""Blocks of a complete sequence. The keys and values of its last token are never stored."""


@lesson(
    10, "preemption", "Preemption and tail latency", minutes=9, pages=24,
    needs=("token-budget", "prefix-sharing"),
)  # fmt: skip
def run(L: Teacher) -> Script:
    ample = _engine(L, f"{AMPLE} blocks", AMPLE)
    ample.run()
    engine = _engine(L, f"{BLOCKS} blocks where {3 * FULL_NEED} are needed", BLOCKS)
    yield from _no_block_is_free(L, engine, ample)
    victim = _victims(engine)[0]
    yield from _the_way_back(L, engine, victim)
    yield from _time_and_not_text(L, engine, ample, victim)
    yield from _fewer_slots_or_blocks(L, engine)
    yield from _priorities(L)


def _no_block_is_free(L: Teacher, engine: LessonEngine, ample: LessonEngine) -> Script:
    engine.step()
    L.focus("blockmap")
    yield L.say(f"""Three users send prompts of {PROMPT} tokens and want {WISH} tokens each. At its
        end each request will hold {FULL_NEED} blocks of {SIZE}: {3 * FULL_NEED} in all. There are
        only {BLOCKS}, but the engine has admitted all three. It cannot know how long an answer will
        be, so it overbooks, like an airline. What if all passengers come?""")
    L.check(
        f"with {AMPLE} blocks no request is ever short of one",
        not ample.events_of(ev.RequestPreempted),
    )
    yield L.predict(
        f"""They hold {engine.num_used} blocks now. Each gets one token per step, and all three at
        the same pace. In which step is the last of the {BLOCKS} blocks taken?
        - {1 + SIZE}: Their prompts end at the edge of a block, so step 2 takes three blocks. The
          next three are needed four tokens later.
        - 2: After that step each holds 3.
        - {BLOCKS}: A block lasts for four steps.
        = Every four steps, all three need a new block in the same step.""",
        before=lambda: engine.run_until(lambda: engine.num_free == 0),
        answer=lambda: engine.fold.step,
    )
    L.check("each of them holds four blocks", all(len(engine.table(name)) == 4 for name in PEOPLE))
    engine.run_until(lambda: all(engine.num_tokens(name) == 4 * SIZE + 1 for name in PEOPLE))
    yield L.predict(
        """A few steps later their last blocks are full. In the next step each needs one more block,
        and **none is free**. Which request gives way?
        - none, all wait: A block becomes free when a request ends, and if all wait, none can end.
        - ada: She came first, so she should not wait for later requests.
        - bob: cleo arrived after him, so she is preempted first.
        - cleo
        = This is **preemption**: the newest request leaves the batch and gives up **all** its
          blocks. It cannot run without all its keys and values, so blocks that it kept would help
          no request.""",
        before=engine.step,
        answer=lambda: _victims(engine)[0] if _victims(engine) else "none, all wait",
        focus="eventlog",
    )
    victim = _victims(engine)[0]
    L.check(
        f"{victim} holds no block and waits at the head of the queue",
        engine.fold.waiting[0] == f"{victim}.0",
    )


def _the_way_back(L: Teacher, engine: LessonEngine, victim: str) -> Script:
    written = len(engine.output_tokens(victim))
    yield L.predict(
        f"""{victim} had {PROMPT} prompt tokens and {written} tokens of her answer, which have
        already been sent to her. How many tokens does she have now? [token]
        - 0: She lost keys and values, which can be computed again. The tokens themselves are kept.
        - {PROMPT}: Part of her answer has already been sent. It cannot be taken back.
        = The text stays. `num_computed_tokens` is 0 again, and the rule of lesson 7 does the rest:
          catch up.""",
        answer=lambda: engine.num_tokens(victim),
    )
    L.focus("waiting")
    yield L.say(f"""{victim} is at the head of the waiting queue, with all her tokens. She is
        readmitted only when all {engine.num_tokens(victim)} tokens fit; otherwise she would soon be
        preempted again.""")
    yield L.predict(
        f"""That will be when the others are done. By then they have used her old blocks. How many
        of her tokens go through the model in the step that readmits her? [token]
        - 1: Her cache is gone: none of her blocks kept its hash.
        - {PROMPT}: Her answer so far must be computed as well.
        - {written}: Her prompt must be computed as well.
        = To the engine she is a new request with a long prompt: one prefill, not one pass per
          token. So this **recomputation** is cheap.""",
        before=lambda: engine.run_until(lambda: engine.is_running(victim)),
        answer=lambda: engine.scheduled(victim),
        focus="budget",
    )
    L.check(
        f"{engine.facts.recomputed_tokens} tokens were computed a second time",
        engine.facts.recomputed_tokens > 0,
    )
    engine.run()


def _time_and_not_text(
    L: Teacher, engine: LessonEngine, ample: LessonEngine, victim: str
) -> Script:
    calm = {name: ample.output_tokens(name) for name in PEOPLE}
    yield L.predict(
        f"""Is her answer the same as on an engine with {AMPLE} blocks, where no request was
        preempted?
        - yes
        - no: The next token depends only on the tokens before it, not on when it is computed.
        = A preemption costs time, but it never changes the text.""",
        answer=lambda: "yes" if engine.output_tokens(victim) == calm[victim] else "no",
        focus="finished",
    )
    L.check(
        "the other two answers are the same too",
        all(engine.output_tokens(name) == calm[name] for name in PEOPLE),
    )
    all_gaps = [gap for name in PEOPLE for gap in gaps(engine, name)]
    mean = sum(all_gaps) / len(all_gaps)
    yield L.predict(
        f"""How was it to read along? Between the {WISH} tokens of each user there are {WISH - 1}
        gaps, mostly of one step. The mean of all {len(all_gaps)} gaps is {mean:.2f} steps. How long
        is the longest? [step]
        - 1: {victim} got no token while the others used her blocks.
        - else: {victim} waited until the others had ended.
        = One user in three saw the text freeze, and the mean hardly changed: **tail latency**.""",
        answer=lambda: max(all_gaps),
    )
    L.check(
        f"only {sum(gap > 1 for gap in all_gaps)} of {len(all_gaps)} gaps was longer than a step",
        sum(gap > 1 for gap in all_gaps) == 1,
    )
    yield L.say(
        """So services promise percentiles: "99 of 100 gaps under 50 ms", the p99. A mean hides a
        few bad moments among many good ones, but a user notices the bad ones. vLLM's metrics for
        this: `vllm:inter_token_latency_seconds`, a histogram, and `vllm:num_preemptions_total`.""",
        focus="timelines",
        diagram="preemption",
    )


def _fewer_slots_or_blocks(L: Teacher, engine: LessonEngine) -> Script:
    careful = _engine(L, "two batch slots", BLOCKS, max_num_seqs=2)
    yield L.predict(
        f"""Would it be better to be careful? With only 2 slots, everything fits: 2 × {FULL_NEED} =
        {BLOCKS}. With 3 slots and a preemption, all were done after {engine.fold.step} steps. And
        with 2 slots?
        - earlier: The third request had to wait from the beginning for a whole answer, instead of
          in the middle for part of one.
        - later""",
        before=careful.run,
        answer=lambda: "later" if careful.fold.step > engine.fold.step else "earlier",
        because=lambda: (
            f"After {careful.fold.step} steps, and cleo's first token came in step"
            f" {token_steps(careful, 'cleo')[0]} instead of 1. Some preemption is the price of"
            " using the memory fully."
        ),
    )
    L.check("with two slots no request was preempted", not careful.events_of(ev.RequestPreempted))
    tight = _engine(L, f"{BLOCKS - 2} blocks", BLOCKS - 2)
    yield L.predict(
        f"""And the other way: 3 slots, but {BLOCKS - 2} blocks instead of {BLOCKS}. One request
        alone needs {FULL_NEED} in the end. How many preemptions are there?
        - none: Three slots are full, and even two requests need {2 * FULL_NEED} blocks.
        - one, as before: One victim leaves two, which need {2 * FULL_NEED} blocks in the end.
        - more than one""",
        before=tight.run,
        answer=lambda: (
            "more than one" if tight.fold.counters.num_preemptions > 1 else "one, as before"
        ),
        focus="step_history",
        because=lambda: (
            f"There are {tight.fold.counters.num_preemptions}, and the longest gap is"
            f" {max(gap for name in PEOPLE for gap in gaps(tight, name))} steps."
            " If the counter of preemptions rises: fewer slots, shorter limits, or more memory."
        ),
    )


def _priorities(L: Teacher) -> Script:
    ranked = _engine(L, "with priorities", BLOCKS, 5, scheduling_policy="priority")
    ranked.run_until(lambda: all(ranked.num_tokens(name) == 4 * SIZE + 1 for name in PEOPLE))
    yield L.predict(
        """With `scheduling_policy=priority` each request has a number, and a **low number is
        important**. ada came first, with priority 5; bob and cleo have 0. Who is preempted?
        - ada
        - bob: bob is neither the newest nor the least important.
        - cleo: cleo is the newest, but the numbers count first. The order of arrival decides only
          between equal numbers.
        = The highest number is preempted first, and among equal numbers the newest request.""",
        before=ranked.step,
        answer=lambda: _victims(ranked)[0],
        focus="slots",
    )
    yield L.say("""In the code: `Scheduler._schedule_running` asks for a block, `Scheduler._preempt`
        takes all blocks of a victim, and `choose_victim` in `minivllm/core/admission.py` chooses
        the victim. In vLLM: `vllm/v1/core/sched/scheduler.py`. Its first engine could also copy
        blocks to CPU memory (swapping); today's computes them again.""")
    yield L.say("""Try it: `minivllm demo --scenario memory-pressure`. You have now seen all the
        important scheduling decisions. Next: how one token is chosen, and why nothing that the
        scheduler does can change it.""")


def _victims(engine: LessonEngine) -> list[str]:
    return [event.seq_id.removesuffix(".0") for event in engine.events_of(ev.RequestPreempted)]


def _engine(
    L: Teacher, name: str, num_blocks: int, priority: int = 0, **options: object
) -> LessonEngine:
    """priority: ada's"""
    options = {"max_num_seqs": 3, "max_num_batched_tokens": 32, **options}
    engine = L.engine(name, num_blocks=num_blocks, block_size=SIZE, **options)
    for person in PEOPLE:
        engine.add(person, PROMPT, WISH, priority=priority if person == "ada" else 0)
    return engine
