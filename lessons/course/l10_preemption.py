"""Lesson 10: when no block is free, somebody gives up all of theirs; and why an average does not
show it.
"""

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
"""Blocks of one who has written everything: the last token is never stored."""


@lesson(
    10,
    "preemption",
    "Preemption and tail latency",
    minutes=9,
    needs=("token-budget", "prefix-sharing"),
)
def run(L: Teacher) -> Script:
    ample = _engine(L, "ample", AMPLE)
    ample.run()
    L.check(
        f"with {AMPLE} blocks nobody was ever short of one",
        not ample.events_of(ev.RequestPreempted),
    )
    calm = {name: ample.output_tokens(name) for name in PEOPLE}

    engine = _engine(L, "scarce", BLOCKS)
    engine.step()
    yield L.say(
        f"Three people, prompts of {PROMPT} tokens, {WISH} tokens wanted each. At its end each will"
        f" hold {FULL_NEED} blocks of {SIZE}: {3 * FULL_NEED} in all. There are {BLOCKS}, and the"
        " engine has let all three in: nobody knows how long an answer will be, so it overbooks,"
        " like an airline. What if all passengers come?",
        focus="blockmap",
    )
    yield L.predict(
        f"They hold {engine.num_used} blocks now. Each writes a token a step, all in time with each"
        f" other. In which step is the last of the {BLOCKS} blocks taken?",
        before=lambda: engine.run_until(lambda: engine.num_free == 0),
        answer=lambda: engine.fold.step,
        why={
            1 + SIZE: (
                "Their prompts end at the edge of a block, so step 2 takes three blocks, and the"
                " next three are due after four more tokens."
            ),
            2: "Then each holds 3.",
            BLOCKS: "Each block lasts for four steps.",
        },
        because="All three need a new block in the same step, every four steps.",
    )
    L.check("each of them holds four blocks", all(len(engine.table(name)) == 4 for name in PEOPLE))
    engine.run_until(lambda: all(engine.num_tokens(name) == 4 * SIZE + 1 for name in PEOPLE))
    yield L.predict(
        "A few steps later their last blocks are full. In the next step each needs one more and"
        " **none is free**. Who gives way?",
        before=engine.step,
        answer=lambda: _victims(engine)[0] if _victims(engine) else "nobody: all wait",
        choices=("nobody: all wait", *PEOPLE),
        focus="eventlog",
        why={
            "nobody: all wait": (
                "For whom? A block comes free when somebody ends, and nobody could end."
            ),
            "ada": "Who came first should not wait for later ones.",
            "bob": "Not as long as somebody newer runs.",
        },
        because=(
            "This is **preemption**: the newest leaves the batch and gives up **all** her blocks. A"
            " part of a text's keys and values is of no use."
        ),
    )
    victim = _victims(engine)[0]
    L.check(
        f"{victim} holds no block and waits at the head of the queue",
        engine.fold.waiting[0] == f"{victim}.0",
    )
    written = len(engine.output_tokens(victim))
    yield L.predict(
        f"{victim} had {PROMPT} prompt tokens and {written} of her answer, which people have read"
        " already. How many tokens is she left with?",
        answer=lambda: engine.num_tokens(victim),
        unit="token",
        why={
            0: (
                "She lost keys and values, which can be computed again. A token that was said stays"
                " said."
            ),
            PROMPT: "Her answer was sent to a person already. It cannot be taken back.",
        },
        because=(
            "The text stays. `num_computed_tokens` went to 0, and the rule of lesson 7 will do the"
            " rest: catch up."
        ),
    )
    yield L.say(
        f"{victim} stands at the head of the waiting queue, with all her tokens. She is let in"
        " again when there is room for all of them: who came in with less would be out again"
        " soon.",
        focus="waiting",
    )
    yield L.predict(
        "That is when the others are done. Her old blocks were given to them meanwhile. How many"
        " tokens will go through the model for her in the step in which she is back?",
        before=lambda: engine.run_until(lambda: engine.is_running(victim)),
        answer=lambda: engine.scheduled(victim),
        focus="budget",
        unit="token",
        why={
            1: "Her cache is gone: no block of hers kept its name.",
            PROMPT: "Her answer so far has to be computed, too.",
            written: "And her prompt.",
        },
        because=(
            "To the engine she is a newcomer with a long prompt: one prefill, not one pass for each"
            " token. That is why computing again is cheap."
        ),
    )
    L.check(
        f"{engine.facts.recomputed_tokens} tokens were computed for the second time",
        engine.facts.recomputed_tokens > 0,
    )
    engine.run()
    yield L.predict(
        f"Is her answer the same as on an engine with {AMPLE} blocks, where nobody was preempted?",
        answer=lambda: "yes" if engine.output_tokens(victim) == calm[victim] else "no",
        choices=("yes", "no"),
        focus="finished",
        why={
            "no": (
                "The same tokens before it, the same next token: when it is computed does not"
                " matter."
            )
        },
        because="A preemption costs time and never a word.",
    )
    L.check(
        "so are the other two", all(engine.output_tokens(name) == calm[name] for name in PEOPLE)
    )
    all_gaps = [gap for name in PEOPLE for gap in gaps(engine, name)]
    mean = sum(all_gaps) / len(all_gaps)
    yield L.predict(
        f"How was it to read along? Between the {WISH} tokens of each there are {WISH - 1} gaps,"
        f" mostly of one step. The mean of all {len(all_gaps)} gaps is {mean:.2f} steps. How long"
        " is the longest?",
        answer=lambda: max(all_gaps),
        unit="step",
        why={1: "She stood still while the others used her blocks."},
        otherwise="She waited until the others had ended.",
        because=(
            "One reader in three saw the text freeze, and the mean hardly noticed. This is **tail"
            " latency**."
        ),
    )
    L.check(
        f"only {sum(gap > 1 for gap in all_gaps)} of {len(all_gaps)} gaps was longer than a step",
        sum(gap > 1 for gap in all_gaps) == 1,
    )
    yield L.say(
        'So services promise percentiles: "99 of 100 gaps under 50 ms", p99. A mean adds up many'
        " good moments and few bad ones; a person meets the bad one. vLLM's metrics for it:"
        " `vllm:inter_token_latency_seconds`, a histogram, and `vllm:num_preemptions_total`.",
        focus="timelines",
    )
    careful = _engine(L, "two slots", BLOCKS, max_num_seqs=2)
    yield L.predict(
        f"Would care be better? Only 2 slots, so that all fits: 2 × {FULL_NEED} = {BLOCKS}. With 3"
        f" slots and a preemption all were done after {engine.fold.step} steps. And with 2?",
        before=careful.run,
        answer=lambda: "later" if careful.fold.step > engine.fold.step else "earlier",
        choices=("earlier", "later"),
        focus="timelines",
        why={
            "earlier": (
                "The third had to wait from the beginning, for a whole answer, instead of in the"
                " middle for a part of one."
            )
        },
        because=lambda: (
            f"After {careful.fold.step} steps, and cleo's first token came in step"
            f" {token_steps(careful, 'cleo')[0]} instead of 1. Some preemption is the price of full"
            " memory."
        ),
    )
    L.check("with two slots nobody was preempted", not careful.events_of(ev.RequestPreempted))
    tight = _engine(L, "tight", BLOCKS - 2)
    yield L.predict(
        f"And the other way: 3 slots, {BLOCKS - 2} blocks instead of {BLOCKS}. How many preemptions"
        " now, instead of one?",
        before=tight.run,
        answer=lambda: tight.fold.counters.num_preemptions,
        focus="step_history",
        why={1: "Two blocks fewer, and one victim is not enough."},
        otherwise=(
            "Fewer blocks, more victims. Each preempted one must wait until all of its tokens fit."
        ),
        because=lambda: (
            f"The longest gap is {max(gap for name in PEOPLE for gap in gaps(tight, name))} steps."
            " When the counter climbs: fewer slots, shorter limits, or more memory."
        ),
    )
    ranked = _engine(L, "priorities", BLOCKS, {"ada": 5}, scheduling_policy="priority")
    ranked.run_until(lambda: all(ranked.num_tokens(name) == 4 * SIZE + 1 for name in PEOPLE))
    yield L.predict(
        "With `scheduling_policy=priority` a request brings a number, and a **low number is"
        " important**. ada came first, with priority 5; bob and cleo have 0. Who is preempted?",
        before=ranked.step,
        answer=lambda: _victims(ranked)[0],
        choices=PEOPLE,
        focus="slots",
        why={
            "cleo": (
                "cleo is the newest, but the numbers count first: who came when is asked only"
                " between equal ones."
            ),
            "bob": "bob is neither the newest nor the least important.",
        },
        because="The highest number goes first, and of equal ones the newest.",
    )
    yield L.say(
        "In the code: `Scheduler._schedule_running` asks for a block, `Scheduler._preempt` takes"
        " them all, `choose_victim` in `minivllm/core/request_queue.py` names the victim. In vLLM:"
        " `vllm/v1/core/sched/scheduler.py`; its first engine could also copy blocks to the CPU's"
        " memory (swapping), today's computes again."
    )
    yield L.say(
        "To play: `minivllm demo --scenario memory-pressure`. All the decisions that matter have"
        " had their lesson now. Next: what is between them and the person who waits, with a `curl`"
        " in a terminal."
    )


def _victims(engine: LessonEngine) -> list[str]:
    """Who was preempted, in order."""
    return [event.seq_id.removesuffix(".0") for event in engine.events_of(ev.RequestPreempted)]


def _engine(
    L: Teacher,
    name: str,
    num_blocks: int,
    priorities: dict[str, int] | None = None,
    **options: object,
) -> LessonEngine:
    """Three people who come together."""
    engine = L.engine(
        name,
        num_blocks=num_blocks,
        block_size=SIZE,
        **{"max_num_seqs": 3, "max_num_batched_tokens": 32, **options},
    )
    for number, person in enumerate(PEOPLE):
        first = 20 + 40 * number
        engine.add(
            person,
            list(range(first, first + PROMPT)),
            WISH,
            priority=(priorities or {}).get(person, 0),
        )
    return engine
