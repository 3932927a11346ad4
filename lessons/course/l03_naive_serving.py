"""Lesson 3: memory as it was given out before paging, and the three ways in which it is lost,
measured.
"""

from minivllm.events import types as ev
from minivllm.events.kv_usage import mean
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson

LIMIT = 32
"""Tokens that a request may have: what is reserved for each."""
PROMPT, WANTED = 6, 6
NAMES = ("ada", "bob", "cleo", "dan", "eve")
MEMORY = {
    "num_blocks": 20,
    "block_size": 4,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 64,
    "max_model_len": LIMIT,
    "enable_prefix_caching": False,
}


@lesson(
    3,
    "naive-serving",
    "Naive serving: reserved, wasted, fragmented",
    minutes=9,
    needs=("kv-cache",),
)
def run(L: Teacher) -> Script:
    naive = L.engine("contiguous", kv_cache_allocator="contiguous", **MEMORY)
    _ask(naive, "ada")
    slots = naive.num_blocks * naive.block_size
    reserved = LIMIT // naive.block_size

    yield L.say(
        "Before 2023 a server gave each request one **contiguous** stretch of memory, like a"
        " tensor. Nobody knows how long an answer will be, so it was made for the longest allowed."
        f" Here: {slots} slots, one token each, in blocks of {naive.block_size}; at most {LIMIT}"
        " tokens a request.",
        focus="blockmap",
    )
    yield L.predict(
        f"`ada` has a prompt of {PROMPT} tokens and will write {WANTED}. How many blocks does she"
        " get in the first step?",
        before=naive.step,
        answer=lambda: len(naive.table("ada")),
        unit="block",
        why={
            2: (
                "Her prompt would fit, but her answer must lie right behind it, and somebody else"
                " may be there by then."
            ),
            3: (
                "The server does not know that she will stop there: it must be ready for the"
                " longest."
            ),
            LIMIT: "Those are tokens; a block holds 4.",
        },
        because=f"All {LIMIT} tokens are reserved at once, whatever she needs.",
    )
    L.check("ada's blocks are neighbours", _are_neighbours(naive.table("ada")))
    yield L.predict(
        "The first step is over. What part of ada's slots holds a token by now, in percent?",
        answer=lambda: 100 * naive.usage[-1].used / naive.usage[-1].allocated,
        unit="%",
        tolerance=0.15,
        why={100: "All of them are hers, but only those of the prompt have been written."},
        otherwise="Count tokens that were computed, over slots that were reserved.",
        because=lambda: f"{naive.usage[-1].used} of {naive.usage[-1].allocated} slots.",
    )
    first = naive.usage[-1]
    L.check("used, reserved and internal slots are all that is allocated", _adds_up(naive))
    yield L.say(
        f"The rest is lost in two ways. **Reserved**: {first.reserved} slots that ada will write"
        f" later; until then nobody else may. **Internal fragmentation**: {first.internal} slots"
        " that she will never write, because her answer is shorter than the longest."
    )
    for name in NAMES[1:]:
        _ask(naive, name)
    yield L.predict(
        f"Four more come with the same wish: {len(NAMES)} requests of {PROMPT + WANTED} tokens,"
        f" {len(NAMES) * (PROMPT + WANTED)} in all, and {slots} slots. How many run after the next"
        " step?",
        before=naive.step,
        answer=lambda: len(naive.fold.running),
        focus="waiting",
        unit="request",
        why={
            len(NAMES): "Their tokens would fit; their reservations do not.",
            3: f"A third would need {reserved} free neighbours, and fewer are left.",
            1: f"Two reservations of {reserved} blocks fit into {naive.num_blocks}.",
        },
        because=lambda: (
            f"cleo needs {reserved} neighbouring blocks, and {naive.num_free} are free."
        ),
    )
    reason = naive.events_of(ev.RequestDeferred)[-1]
    L.check(
        "the scheduler's reason is that no run of free blocks is long enough",
        reason.reason == "no_contiguous_run",
    )
    now = naive.usage[-1]
    L.check(
        f"{now.external} free slots are of no use to anybody",
        now.external == naive.num_free * naive.block_size,
    )
    yield L.say(
        f"That is the third loss, **external fragmentation**: {now.external} slots are free, and no"
        " reservation fits into them. Who has waited longest goes first, and the others wait"
        " behind: so a large request is not passed over for ever.",
        focus="blockmap",
    )
    yield L.predict(
        "With two running and three waiting: what part of the whole memory holds a token now, in"
        " percent?",
        answer=lambda: 100 * now.used / now.total,
        unit="%",
        tolerance=0.25,
        why={
            80: "That is what is reserved. Most of it is empty.",
            100: "It is full for whoever wants to come in, and nearly empty for the model.",
        },
        because=lambda: (
            f"{now.used} of {now.total} slots. Three people wait in front of an almost empty"
            " memory."
        ),
    )
    paged = L.engine("paged", **MEMORY)
    for name in NAMES:
        _ask(paged, name)
    yield L.predict(
        "Now the same five requests and the same memory, with blocks given out one by one, only"
        " when a token needs one, anywhere. How many run at once after the first step?",
        before=paged.step,
        answer=lambda: len(paged.fold.running),
        focus="slots",
        unit="request",
        why={2: "Nothing is reserved any more: each holds the blocks of its own tokens."},
        otherwise="Each needs 2 blocks for its prompt, and there are 20.",
        because=lambda: (
            f"{paged.num_used} blocks are in use and {paged.num_free} are free for what is to come."
        ),
    )
    naive.run()
    yield L.predict(
        f"Without paging it took {naive.fold.step} steps until everybody was served. How many does"
        " it take with it?",
        before=paged.run,
        answer=lambda: paged.fold.step,
        focus="timelines",
        unit="step",
        why={
            naive.fold.step: "There the five came in turns; here they run together.",
            naive.fold.step // 2: "More than twice as many run at once.",
        },
        because=f"All five at once: as many steps as one of them needs alone, {WANTED}.",
    )
    lost, kept = (mean([usage.waste for usage in engine.usage]) for engine in (naive, paged))
    L.check(
        "both wrote the same tokens",
        all(naive.output_tokens(name) == paged.output_tokens(name) for name in NAMES),
    )
    L.check(
        f"of what was held {lost:.0%} was empty without paging, {kept:.0%} with it", kept < lost / 2
    )
    yield L.say(
        "The same answers, the same memory, fewer steps. The paper that introduced paging measured"
        " servers that used only 20 to 38% of their KV memory for tokens. The next lesson looks at"
        " how it is done."
    )


def _ask(engine: LessonEngine, name: str) -> None:
    first = 20 + 10 * NAMES.index(name)
    engine.add(name, list(range(first, first + PROMPT)), max_tokens=WANTED)


def _are_neighbours(table: list[int]) -> bool:
    return table == list(range(table[0], table[0] + len(table)))


def _adds_up(engine: LessonEngine) -> bool:
    usage = engine.usage[-1]
    return usage.allocated == engine.num_used * engine.block_size
