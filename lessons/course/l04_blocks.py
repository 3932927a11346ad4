"""Lesson 4: blocks and block tables, so that a sequence's memory can be scattered."""

from minivllm.lessons.shown.drawings import table_and_pool
from minivllm.lessons.teacher.script import Script, Teacher, lesson

SIZE = 4
PROMPT = 6
WISH = 10
"""Tokens of an answer: enough to need a fourth block."""


@lesson(4, "block-tables", "Blocks and block tables", minutes=9, pages=17, needs=("naive-serving",))
def run(L: Teacher) -> Script:
    engine = L.engine(
        f"blocks of {SIZE} tokens", num_blocks=12, block_size=SIZE, max_num_batched_tokens=64,
        max_num_seqs=3, enable_prefix_caching=False,
    )  # fmt: skip
    engine.add("ada", PROMPT, max_tokens=WISH)

    L.focus("blockmap")
    yield L.say(f"""Paging cuts the KV cache into **physical blocks** of equal size, here {SIZE}
        tokens. A request numbers its own blocks 0, 1, 2, and so on: its **logical blocks**. Its
        **block table** maps them: entry 0 is the physical block with its first tokens. An operating
        system's **page table** does the same for memory pages.""")
    yield L.predict(
        f"""`ada` arrives with a prompt of {PROMPT} tokens. How many blocks does the first step give
        her? [block]
        - 1: One block holds only {SIZE} tokens.
        - {PROMPT}: A block is not a token: it holds {SIZE}.
        - 3: Nothing is reserved for her answer: a block is allocated when a token needs one.
        = Memory is allocated in whole blocks, and only for tokens that exist.""",
        before=engine.step,
        answer=lambda: len(engine.table("ada")),
    )
    L.check(f"ada holds {len(engine.table('ada'))} blocks", len(engine.table("ada")) == 2)
    L.choose(engine.table("ada")[1])
    L.focus("inspector")
    yield L.say(f"""Her second block is half full: it holds {PROMPT - SIZE} of {SIZE} tokens. Such
        free slots are the only waste that paging leaves, at most {SIZE - 1} slots per sequence,
        whatever its length.""")
    engine.add("bob", PROMPT, max_tokens=WISH)
    L.choose(None)
    first_two = list(engine.table("ada"))
    yield L.predict(
        f"""`bob` arrives with a prompt of the same length, and both write on. ada's table is
        {first_two}. When her second block is full she needs a third. Where will it be?
        - directly after the second: bob has taken that block in the meantime. This does not matter,
          because the table says where each block is.
        - somewhere else
        - bob is moved to make room: Blocks are never moved. The table says where each block is, so
          any free block will do.""",
        before=lambda: engine.run_until(lambda: len(engine.table("ada")) == 3),
        answer=lambda: (
            "somewhere else"
            if engine.table("ada")[2] != first_two[1] + 1
            else "directly after the second"
        ),
        focus="blockmap",
        because=lambda: (
            f"Her table is {engine.table('ada')} now: her tokens are in order, but her blocks do"
            " not have to be."
        ),
    )
    table = engine.table("ada")
    L.check(
        "bob's blocks are in between",
        any(table[1] < block < table[2] for block in engine.table("bob")),
    )
    start = engine.fold.step
    yield L.predict(
        f"""ada gets one token per step; its keys and values are stored in the next step. This step
        filled the first slot of her third block. In how many more steps does she need a fourth
        block? [step]
        - {SIZE - 1}: Those {SIZE - 1} steps fill the remaining slots. The step after them finds the
          block full.
        - 1: Her third block still has room.
        - 2: Her second block began half full, with the end of her prompt. The third one began with
          {SIZE} free slots.
        = A sequence takes a new block only when a token has no slot left.""",
        before=lambda: engine.run_until(lambda: len(engine.table("ada")) == 4),
        answer=lambda: engine.fold.step - start,
    )
    table = list(engine.table("ada"))
    position = 3 * SIZE
    slot = table[position // SIZE] * SIZE + position % SIZE
    yield L.say(
        f"""To find token p, divide it by {SIZE}: the quotient is the entry of the table that holds
        its block, and the remainder is its place in that block. All slots of the cache are
        numbered, so **slot = block × block size + remainder**. The slots that a step writes are its
        `slot mapping`.""",
        figure=table_and_pool(engine, "ada"),
        diagram="block-table",
    )
    yield L.predict(
        f"""Her token number {position}, counted from 0, was just written. Her table is {table}.
        Which slot holds it?
        - {position}: That is its position in her text. The table gives its position in memory.
        - {table[3]}: That is its block. Each block has {SIZE} slots.
        - else: Entry {position // SIZE} of the table, times {SIZE}, plus the remainder
          {position % SIZE}.
        = Entry {position // SIZE} is block {table[3]}: {table[3]} × {SIZE} + {position % SIZE}.""",
        answer=lambda: slot,
    )
    engine.run_until(lambda: not (engine.is_running("ada") or engine.is_running("bob")))
    L.focus("freequeue")
    yield L.say("""Both requests have ended. Their blocks went back to the **free queue**, from the
        last to the first. They joined the front as one list, so a sequence's last block is reused
        first: see the panel Free queue. The next request takes blocks from the front. (Blocks kept
        for a later prompt go to the end: lesson 8.)""")
    queue = list(engine.fold.free_queue)
    engine.add("cleo", 10, max_tokens=4)
    yield L.predict(
        f"""The queue begins with {", ".join(map(str, queue[:4]))}. `cleo` has a prompt of 10
        tokens. How many blocks are left in the queue after her first step? [block]
        - {len(queue) - 10}: That would be ten blocks, one for each token. A block holds {SIZE} tokens.
        - {len(queue) - 2}: Two blocks hold 8 tokens; the other two tokens need a third block.
        - {len(queue)}: A waiting request holds no blocks, but cleo has run.""",
        before=engine.step,
        answer=lambda: engine.num_free,
        because=lambda: (
            f"She took {engine.table('cleo')}, from the front: {len(queue)} - 3 = {engine.num_free}."
        ),
    )
    L.check("cleo got the blocks at the front of the queue", engine.table("cleo") == queue[:3])
    engine.run()
    worst = max(usage.internal for usage in engine.usage)
    L.check(f"never more than {worst} allocated slots were wasted", worst <= 2 * (SIZE - 1))
    yield L.predict(
        """What would change with smaller blocks, of one token each?
        - no waste, longer tables
        - more waste: The waste is the empty part of the last block, which shrinks with it.
        - other answers: Where a token is stored does not change what is computed.
        = The tables grow, and the kernel, the code that computes attention, must look up every
          token. vLLM's default is 16. Lesson 17 shows how a kernel reads through a table.""",
        answer=lambda: _with_blocks_of_one(L),
    )


def _with_blocks_of_one(L: Teacher) -> str:
    tables, waste, texts = [], [], []
    for size in (1, SIZE):
        engine = L.engine(
            f"blocks of {size}", num_blocks=48 // size, block_size=size, enable_prefix_caching=False
        )
        engine.add("ada", PROMPT, max_tokens=8)
        engine.step()
        tables.append(len(engine.table("ada")))
        engine.run()
        waste.append(max(usage.internal for usage in engine.usage))
        texts.append(engine.output_tokens("ada"))
    if texts[0] != texts[1]:
        return "other answers"
    return "no waste, longer tables" if waste[0] == 0 and tables[0] > tables[1] else "more waste"
