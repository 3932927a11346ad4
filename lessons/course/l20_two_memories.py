"""Lesson 20: a second memory for evicted blocks, loads that wait, and a deadlock."""

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson

SIZE, BLOCKS, HOST = 4, 10, 32
PROMPT, BUDGET, ANSWER = 24, 8, 4
NEEDED = PROMPT // SIZE
LOST = 2 * NEEDED - BLOCKS
"""Blocks of the first prompt that the second one needs."""
SLOW = 0.002
"""GB/s of the link: so slow that a load takes some steps of the virtual clock."""
FEW, LONG, SHORT = 7, 16, 12
"""vLLM's pull request 57104: 7 blocks, and two prompts of 4 and 3 blocks."""
LINK, BLOCK_MB, BLOCK_MS = 25, 2, 1
"""PCIe 4.0 x16 in GB/s, a block of 16 tokens of Llama 3 8B in bfloat16, and the time in which a
large GPU computes it: all in round numbers.
"""


@lesson(
    20, "two-memories", "Two memories: blocks that come back", minutes=9, pages=25,
    needs=("prefix-sharing", "preemption"), track="more",
)  # fmt: skip
def run(L: Teacher) -> Script:
    plain = _engine(L, "one memory", BLOCKS, BUDGET)
    yield from _forgotten(L, plain)
    tiered = _engine(L, "two memories", BLOCKS, BUDGET, HOST)
    yield from _rescued(L, tiered)
    yield from _a_load(L, tiered, plain)
    yield from _worth_it(L)
    yield from _deadlock(L)
    yield L.say("""In the code: `minivllm/kv_transfer/host_tier.py` has the lookup and the cursor,
        `minivllm/kv_transfer/connector.py` the loads. In vLLM:
        `vllm/v1/simple_kv_offload/manager.py`, with the same option, `--kv-transfer-config`.""")
    yield L.say("""Try it: `minivllm demo --scenario two-memories`, and the Blocks screen (2). Then
        `minivllm compare --scenario agents --a evict --b offload` counts what it saves.""")


def _forgotten(L: Teacher, engine: LessonEngine) -> Script:
    _ask(engine, gil=PROMPT)
    L.focus("blockmap")
    yield L.say(f"""A pool of {BLOCKS} blocks. gil's prompt has {PROMPT} tokens, which are {NEEDED}
        blocks. He has his answer, and his blocks are free, but still in the prefix cache. Now hana
        comes with a prompt as long as his. After her, gil comes back with the same beginning, as
        every chat does.""")
    yield L.predict(
        f"""How many of his {PROMPT} prompt tokens go through the model again? [token]
        - 0: hana needed {NEEDED} blocks, and {BLOCKS - NEEDED} had never been used.
        - 1: That would be so if all of his blocks were still cached.
        - {PROMPT}: The prefix cache still has the beginning of his prompt.
        = hana took the {BLOCKS - NEEDED} empty blocks, and {LOST} of his. What was **evicted** must
          be computed again. With a thousand chats, that is nearly everything.""",
        before=lambda: (_ask(engine, hana=PROMPT), _ask(engine, answer=ANSWER, gil2=PROMPT)),
        answer=lambda: _num_computed(engine, "gil2"),
    )


def _rescued(L: Teacher, engine: LessonEngine) -> Script:
    _ask(engine, gil=PROMPT)
    L.focus("hostmap")
    yield L.say(f"""A GPU's memory is small, and that of its **host** is large. The second engine has
        a **host tier**: {HOST} blocks of ordinary memory, under the same hashes. gil has asked once.
        (On a CPU, both memories are the same RAM, and only the virtual clock models how long a copy
        takes.)""")
    yield L.predict(
        f"""He is done, and his {NEEDED} blocks are free. How many of them has the host? [block]
        - {NEEDED}: That is the eager way. This tier is lazy.
        - else: No block of his is in danger yet.
        = A copy takes bandwidth, so the tier is lazy: a **cursor** looks at the front of the free
          queue, and copies only what the next two steps may reuse. There, the empty blocks are
          first.""",
        answer=lambda: _num_saved(engine),
    )
    yield L.predict(
        f"""hana comes again, and her steps have a budget of {BUDGET} tokens. How many of gil's
        blocks are copied to the host? [block]
        - {LOST}: Those are evicted. The cursor cannot know where her prompt ends.
        - {NEEDED}: The beginning of his prompt is at the end of the free queue.
        - 0: {LOST} of them are evicted now.
        = Two steps of {BUDGET} tokens reuse {2 * BUDGET // SIZE} blocks at most. {LOST} of the
          copies were needed: these blocks are **rescued**. `█` is a copy that only the host has.""",
        before=lambda: _ask(engine, hana=PROMPT),
        answer=lambda: _num_saved(engine),
    )
    saved = {event.hash for event in engine.events_of(ev.KVStore)}
    L.check(
        "each block was copied before it was evicted",
        {event.hash for event in engine.events_of(ev.BlockEvicted)} <= saved,
    )


def _a_load(L: Teacher, engine: LessonEngine, plain: LessonEngine) -> Script:
    yield L.say("""gil comes back, and ada right behind him. The lookup has two tiers now: first the
        prefix cache, as in lesson 8, then the host, for the blocks that follow. His request gets
        blocks, and their content is copied into them, while the model does something else.""")
    yield L.predict(
        """His load has begun. Until it ends, gil waits. How many blocks does he own
        meanwhile? [block]
        - 0: The copy needs a place to go to.
        - else: He has hits, blocks that are being loaded, and nothing else to wait for later.
        = He owns a slot and blocks for **all** of his tokens, although he cannot run. His slot says
          LOADING.""",
        before=lambda: _ask(engine, answer=ANSWER, steps=1, gil2=PROMPT, ada=SHORT),
        answer=lambda: len(engine.table("gil2")),
        focus="slots",
    )
    yield L.predict(
        """Who has tokens in this step?
        - ada
        - gil: His keys and values are not there yet.
        - nobody: A copy does not need the model, so others may use it.
        = Usually nobody passes the head of the queue. But gil has all that he needs, so ada takes
          nothing from him. `w` on gil says so.""",
        answer=lambda: "ada" if engine.scheduled("ada") else "nobody",
        focus="waiting",
    )
    yield L.predict(
        f"""The load ends, and gil joins the batch. How many of his {PROMPT} prompt tokens go
        through the model now? [token]
        - 0: The model must see the last token, to write the next one.
        - {LOST * SIZE}: That was without a second memory.
        - {PROMPT}: Nothing that was loaded is computed again.
        = Only the last one, as with a full hit in lesson 8.""",
        before=lambda: engine.run_until(lambda: engine.is_running("gil2")),
        answer=lambda: engine.scheduled("gil2"),
        focus="budget",
    )
    engine.run()
    L.check(
        "gil's answer is that of the engine with one memory",
        engine.output_tokens("gil2") == plain.output_tokens("gil2"),
    )


def _worth_it(L: Teacher) -> Script:
    yield L.predict(
        f"""Is a copy worth it? A block of 16 tokens of Llama 3 8B has {BLOCK_MB} MB, the link to
        the host makes {LINK} GB in a second, and a large GPU computes 16 tokens in about {BLOCK_MS}
        ms. How many times as fast as computing is the copy?
        - {LINK}: That is the link's speed. Divide the block's size by it.
        - 1: A block takes {1000 * BLOCK_MB / LINK:g} microseconds.
        - else: {BLOCK_MB} MB over {LINK} GB/s are {1000 * BLOCK_MB / LINK:g} microseconds.
        = And it leaves the GPU's arithmetic to others. Over a network, or from a disk, it can be
          otherwise.""",
        answer=lambda: BLOCK_MS * LINK / BLOCK_MB,
        tolerance=0.1,
    )


def _deadlock(L: Teacher) -> Script:
    engine = _engine(L, f"{FEW} blocks", FEW, 8 * SIZE, HOST)
    for prompt in ({"gil": LONG}, {"hana": SHORT}, {"cleo": FEW * SIZE - 1}):
        _ask(engine, **prompt)
    _ask(engine, answer=ANSWER, steps=1, gil2=LONG, hana2=SHORT)
    L.focus("blockmap")
    yield L.say(f"""A load that waits owns memory, and this is where engines got stuck. {FEW} blocks;
        gil loads {LONG // SIZE} and hana {SHORT // SIZE}. Each will need one more block for the next
        tokens, and none is free. A release of vLLM sent a loaded request back to the queue, where
        it had to find a free block like everybody else.""")
    yield L.predict(
        """Both loads end. If each of the two waits, with its blocks, until one more block is free:
        who runs next?
        - gil: He needs a block, and only hana can free one.
        - hana: She needs a block, and only gil can free one.
        - nobody
        = A **deadlock**: each holds what the other waits for, and nobody is in the batch who could
          be preempted. vLLM's pull request 57104 fixed it.""",
        answer=lambda: "nobody" if not (engine.num_free or engine.fold.running) else "gil",
    )
    yield L.predict(
        """Here, a loaded request owns blocks for all of its tokens, and joins the batch whatever
        the queue waits for. So gil runs, and a step later he needs a fifth block. What happens?
        - gil waits, and keeps his blocks: That would be the deadlock.
        - hana gives up her load: She is not in the batch, so she is never a victim.
        - gil is preempted
        = A running request can be preempted, and a preemption frees blocks. So hana runs, and gil
          loads again after her.""",
        before=lambda: engine.run_until(lambda: bool(engine.events_of(ev.RequestPreempted))),
        answer=lambda: f"{engine.events_of(ev.RequestPreempted)[0].seq_id[:-3]} is preempted",
        focus="eventlog",
    )
    engine.run()
    L.check("both have their answers", not engine.busy)


def _engine(L: Teacher, name: str, blocks: int, budget: int, host: int = 0) -> LessonEngine:
    extra = {"num_cpu_blocks": host, "gigabytes_per_second": SLOW}
    tier = {"kv_connector": "SimpleCPUOffloadConnector", "kv_connector_extra_config": extra}
    return L.engine(
        name, num_blocks=blocks, max_num_batched_tokens=budget, max_num_seqs=4,
        kv_transfer_config=tier if host else None,
    )  # fmt: skip


def _ask(engine: LessonEngine, *, answer: int = 1, steps: int = 0, **prompts: int) -> None:
    """Add users with prompts of these lengths. steps: take so many; otherwise until all is done"""
    for name, length in prompts.items():
        engine.add(name, length, max_tokens=answer)
    engine.step(steps) if steps else engine.run()


def _num_computed(engine: LessonEngine, name: str) -> int:
    """Tokens of the prompt that went through the model."""
    items = [e for e in engine.events_of(ev.StepScheduled) if e.seq_id == f"{name}.0"]
    return sum(item.num_tokens for item in items if item.num_computed_tokens < PROMPT)


def _num_saved(engine: LessonEngine) -> int:
    return engine.fold.counters.stored_blocks
