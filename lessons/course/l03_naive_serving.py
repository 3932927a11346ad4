"""Lesson 3: KV memory before paging, and the three ways in which it was wasted."""

from minivllm.events import types as ev
from minivllm.events.kv_usage import mean
from minivllm.lessons.shown.drawings import FREE, first_fit, longest_run, reservation_bar
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson

LIMIT = 32
"""Maximum number of tokens of a request. Each request reserves this many."""
PROMPT, WANTED = 6, 6
NAMES = ("ada", "bob", "cleo", "dan", "eve")
RESERVED = {"ada": 24, "bob": 16, "cleo": 24, "dan": 16}
"""Slots that each request may need, where servers reserved no more than that."""
ENDED, EVE = ("bob", "dan"), 24
PER_SIGN = 4
MEMORY = {
    "num_blocks": 20,
    "block_size": 4,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 64,
    "max_model_len": LIMIT,
    "enable_prefix_caching": False,
}


@lesson(
    3, "naive-serving", "Naive serving: reserved, wasted, fragmented", minutes=9, pages=22,
    needs=("kv-cache",),
)  # fmt: skip
def run(L: Teacher) -> Script:
    naive = L.engine("contiguous reservations", kv_cache_allocator="contiguous", **MEMORY)
    _ask(naive, "ada")
    slots = naive.num_blocks * naive.block_size

    L.focus("blockmap")
    yield L.say(f"""Before 2023 a server gave each request one **contiguous** range of memory. The
        length of an answer is not known in advance, so the range had to fit the longest text
        allowed, here {LIMIT} tokens. The memory has {slots} **slots** for one token each, drawn in
        blocks of {naive.block_size} (lesson 4). (A batch slot holds a request.)""")
    yield L.predict(
        f"""`ada` has a prompt of {PROMPT} tokens and will write {WANTED}. How many slots does she
        get in the first step? [slot]
        - {PROMPT}: Her prompt would fit. But her answer must follow directly behind it, and another
          request may hold that memory by then.
        - {PROMPT + WANTED}: The server does not know that she will stop after {WANTED} tokens, so
          it reserves for the longest answer.
        - else: It reserves for the longest request that it allows, {LIMIT} tokens.
        = All of them are reserved at once, however many she needs.""",
        before=naive.step,
        answer=lambda: len(naive.table("ada")) * naive.block_size,
    )
    L.check("ada's slots are adjacent", _are_neighbours(naive.table("ada")))
    yield L.predict(
        """The first step is over. What percentage of ada's slots holds a token now? [%]
        - 100: All of these slots are hers, but only those of the prompt have been written.
        - else: Divide the tokens computed so far by the slots that are reserved.""",
        answer=lambda: 100 * naive.usage[-1].used / naive.usage[-1].allocated,
        tolerance=0.15,
        because=lambda: f"{naive.usage[-1].used} of {naive.usage[-1].allocated} slots.",
    )
    first = naive.usage[-1]
    L.check("used, reserved and internal slots add up to all allocated slots", _adds_up(naive))
    yield L.say(
        f"""The rest is wasted in two ways. **Reserved**: {first.reserved} slots that ada will fill
        later (her last token is never stored). Until then no other request can use them. **Internal
        fragmentation**: {first.internal} slots that she will never fill, because her answer is
        shorter than the longest one.""",
        figure=reservation_bar(first, 1),
    )
    for name in NAMES[1:]:
        _ask(naive, name)
    yield L.predict(
        f"""Four more requests like hers arrive: {len(NAMES)} requests of {PROMPT + WANTED} tokens,
        {len(NAMES) * (PROMPT + WANTED)} in all, and {slots} slots. How many requests run after the
        next step? [request]
        - {len(NAMES)}: Their tokens would fit, but their reservations do not.
        - 3: A third would need {LIMIT} adjacent free slots, and fewer are left.
        - 1: Two reservations of {LIMIT} slots fit into {slots}.""",
        before=naive.step,
        answer=lambda: len(naive.fold.running),
        focus="waiting",
        because=lambda: (
            f"cleo needs {LIMIT} adjacent slots, and only"
            f" {naive.num_free * naive.block_size} are free."
        ),
    )
    reason = naive.events_of(ev.RequestDeferred)[-1]
    L.check(
        "the scheduler's reason is that no run of free slots is long enough",
        reason.reason == "no_contiguous_run",
    )
    now = naive.usage[-1]
    L.check(
        f"no request can use the {now.external} free slots",
        now.external == naive.num_free * naive.block_size,
    )
    L.focus("blockmap")
    yield L.say(f"""The third loss is an **unusable remainder**: {now.external} slots are free, and
        a reservation takes {LIMIT}. cleo waits, and dan and eve wait behind her: **head-of-line
        blocking**. If others could overtake her, small requests could make a large one wait
        forever.""")
    yield from _different_sizes(L, slots)
    yield L.predict(
        """Back to the engine: two requests run and three wait. What percentage of the whole memory
        holds a token now? [%]
        - 80: That much is reserved, but most of it is empty.
        - 100: For new requests the memory is full, but only a few slots hold a token.""",
        answer=lambda: 100 * now.used / now.total,
        tolerance=0.25,
        because=lambda: (
            f"{now.used} of {now.total} slots. The **utilization** of the memory is low, and still"
            " three requests wait for it."
        ),
    )
    paged = L.engine("paging", **MEMORY)
    for name in NAMES:
        _ask(paged, name)
    yield L.predict(
        f"""Now the same five requests and the same memory, but the engine allocates small pieces of
        {paged.block_size} slots, anywhere, and only when a token needs one: **paging**. How many
        requests run at once after the first step? [request]
        - 2: Nothing is reserved any more: each request holds only the pieces for its own tokens.
        - else: Each prompt needs 2 pieces, and there are 20.""",
        before=paged.step,
        answer=lambda: len(paged.fold.running),
        focus="slots",
        because=lambda: (
            f"{paged.num_used} pieces are in use, and {paged.num_free} are free for later tokens."
        ),
    )
    naive.run()
    yield L.predict(
        f"""Without paging it took {naive.fold.step} steps to serve all five. How many does it take
        with paging? [step]
        - {naive.fold.step}: There the five ran in turns; here they run together.
        - {naive.fold.step // 2}: More than twice as many run at once.
        = All five run at once, so it takes as many steps as one of them alone: {WANTED}.""",
        before=paged.run,
        answer=lambda: paged.fold.step,
        focus="timelines",
    )
    lost, kept = (mean([usage.waste for usage in engine.usage]) for engine in (naive, paged))
    L.check(
        "both engines wrote the same tokens",
        all(naive.output_tokens(name) == paged.output_tokens(name) for name in NAMES),
    )
    L.check(
        f"on average, {lost:.0%} of the allocated slots were empty without paging, {kept:.0%} with"
        " it",
        kept < lost / 2,
    )
    single, plain = (
        L.engine(f"one request, {name}", kv_cache_allocator=name, **MEMORY)
        for name in ("contiguous", "paged")
    )
    L.show(paged)
    yield L.predict(
        f"""And if ada is the only user? She asks one engine that reserves memory and one with
        paging. How many steps does paging save her? [step]
        - {naive.fold.step - paged.fold.step}: That was saved by running more requests together, and
          she is alone.
        - 1: She gets one token per step either way.
        - else: She gets one token per step either way.
        = Paging makes no step faster. It makes room for more requests, so the gain is throughput
          under load.""",
        before=lambda: [_alone(engine) for engine in (single, plain)],
        answer=lambda: single.fold.step - plain.fold.step,
    )
    yield L.say(
        """The same answers from the same memory, in fewer steps. The paper that introduced paging
        measured servers that used only 20 to 38% of their KV memory for tokens. The next lesson
        shows how paging works.""",
        figure=reservation_bar(first, 1),
        diagram="reserved-and-used",
    )


def _different_sizes(L: Teacher, num_slots: int) -> Script:
    """On paper: this engine's reservations are all equal."""
    full = FREE * num_slots
    for name, size in RESERVED.items():
        full = first_fit(full, name[0], size)
    gaps = full
    for name in ENDED:
        gaps = gaps.replace(name[0], FREE)
    asked = ", ".join(f"{name} {size}" for name, size in RESERVED.items())
    yield L.predict(
        f"""On paper: other servers reserved what each request **may** need, its prompt and its own
        limit. {asked}: all {num_slots} slots. Then {" and ".join(ENDED)} end, and
        {gaps.count(FREE)} slots are free. `eve` needs {EVE}. Does she get them?
        - yes: There are enough free slots, but they are not adjacent.
        - no
        = The longest run of free slots has {longest_run(gaps)}.""",
        answer=lambda: "no" if first_fit(gaps, "e", EVE) is None else "yes",
    )
    L.check(f"the first four reservations filled all {num_slots} slots", FREE not in full)
    yield L.say(
        f"""The memory before and after, {PER_SIGN} slots for each sign. Enough is free in all, and
        no gap is long enough: **external fragmentation**. It happens only if the pieces differ in
        size: of equal ones, any free piece will do.""",
        figure=(full[::PER_SIGN], gaps[::PER_SIGN]),
    )


def _ask(engine: LessonEngine, name: str) -> None:
    engine.add(name, PROMPT, max_tokens=WANTED)


def _alone(engine: LessonEngine) -> None:
    _ask(engine, "ada")
    engine.run()


def _are_neighbours(table: list[int]) -> bool:
    return table == list(range(table[0], table[0] + len(table)))


def _adds_up(engine: LessonEngine) -> bool:
    usage = engine.usage[-1]
    return usage.allocated == engine.num_used * engine.block_size
