"""Lesson 4: blocks and block tables: memory that need not lie together."""

from minivllm.lessons.teacher.script import Script, Teacher, lesson

SIZE = 4
PROMPT = 6
WISH = 10
"""Tokens: enough to need a fourth block."""


@lesson(4, "block-tables", "Blocks and block tables", minutes=9, needs=("naive-serving",))
def run(L: Teacher) -> Script:
    engine = L.engine(
        num_blocks=12,
        block_size=SIZE,
        max_num_batched_tokens=64,
        max_num_seqs=3,
        enable_prefix_caching=False,
    )
    engine.add("ada", list(range(20, 20 + PROMPT)), max_tokens=WISH)

    yield L.say(
        f"Paging cuts the KV cache into **blocks** of the same size, here of {SIZE} tokens. A"
        " request holds a list of block numbers, its **block table**: entry 0 says where its first"
        " tokens lie, entry 1 the next, and so on. Operating systems do the same with pages.",
        focus="blockmap",
    )
    yield L.predict(
        f"`ada` comes with a prompt of {PROMPT} tokens. How many blocks does the first step give"
        " her?",
        before=engine.step,
        answer=lambda: len(engine.table("ada")),
        unit="block",
        why={
            1: f"One block holds only {SIZE} tokens.",
            PROMPT: f"A block is not a token: it holds {SIZE}.",
            3: "The room for her answer is not reserved: it is given out when it is needed.",
        },
        because="Memory is given out in whole blocks, for the tokens that there are.",
    )
    L.check(f"ada holds {len(engine.table('ada'))} blocks", len(engine.table("ada")) == 2)
    L.choose(engine.table("ada")[1])
    yield L.say(
        f"Her second block is half full: {PROMPT - SIZE} tokens of {SIZE}. Those free slots are all"
        f" the waste that paging leaves, at most {SIZE - 1} slots a sequence, however long it is.",
        focus="inspector",
    )
    engine.add("bob", list(range(60, 60 + PROMPT)), max_tokens=WISH)
    L.choose(None)
    first_two = list(engine.table("ada"))
    yield L.predict(
        f"`bob` comes too, with as many tokens, and both write on. ada's table is {first_two}. Once"
        " her second block is full she needs a third. Where will it lie?",
        before=lambda: engine.run_until(lambda: len(engine.table("ada")) == 3),
        answer=lambda: (
            "somewhere else"
            if engine.table("ada")[2] != first_two[1] + 1
            else "right behind the second"
        ),
        choices=("right behind the second", "somewhere else", "bob is moved to make room"),
        focus="blockmap",
        why={
            "right behind the second": (
                "bob has taken that block meanwhile. It does not matter: the table says where to"
                " look."
            ),
            "bob is moved to make room": (
                "Nothing is ever moved. The table says where to look, so any free block will do."
            ),
        },
        because=lambda: (
            f"Her table is {engine.table('ada')} now: her tokens are in order, her blocks need"
            " not be."
        ),
    )
    table = engine.table("ada")
    L.check(
        "bob's blocks lie in between",
        any(table[1] < block < table[2] for block in engine.table("bob")),
    )
    start = engine.fold.step
    yield L.predict(
        "ada writes one token a step, and its keys and values are stored in the step after. The"
        " first slot of her third block was filled in this step. In how many more steps does she"
        " need a fourth block?",
        before=lambda: engine.run_until(lambda: len(engine.table("ada")) == 4),
        answer=lambda: engine.fold.step - start,
        focus="blockmap",
        unit="step",
        why={
            SIZE - 1: (
                f"Those {SIZE - 1} steps fill the slots that are left. The step after them finds"
                " the block full."
            ),
            1: "Her third block still has room.",
            2: (
                "Her second block began half full, with the end of her prompt. This one began with"
                f" {SIZE} free slots."
            ),
        },
        because="A new block is taken at the moment when a token has no slot.",
    )
    table = list(engine.table("ada"))
    position = 3 * SIZE
    slot = table[position // SIZE] * SIZE + position % SIZE
    yield L.say(
        f"To find token number p, divide: entry p ÷ {SIZE} of the table names the block, the"
        " remainder is the place inside. All slots are numbered through, so **slot = block × block"
        " size + remainder**. The list of slots that a step writes is its `slot mapping`."
    )
    yield L.predict(
        f"Her token number {position}, counted from 0, was written just now. Her table is {table}."
        " In which slot does it lie?",
        answer=lambda: slot,
        why={
            position: "That is its place in her text. Where it lies is what the table is for.",
            table[3]: f"That is its block. Each block has {SIZE} slots.",
        },
        otherwise=(
            f"Entry {position // SIZE} of the table, times {SIZE}, plus the remainder"
            f" {position % SIZE}."
        ),
        because=(
            f"Entry {position // SIZE} is block {table[3]}: {table[3]} × {SIZE} +"
            f" {position % SIZE}."
        ),
    )
    engine.run_until(lambda: not (engine.is_running("ada") or engine.is_running("bob")))
    yield L.say(
        "Both have ended. Their blocks went back to the **free queue**, each sequence's last block"
        " first: look at the order. The next request takes from its front, wherever those blocks"
        " lie.",
        focus="freequeue",
    )
    queue = list(engine.fold.free_queue)
    engine.add("cleo", list(range(100, 110)), max_tokens=4)
    yield L.predict(
        f"The queue begins with {', '.join(map(str, queue[:4]))}. `cleo` has a prompt of 10 tokens."
        " How many blocks are left in the queue after her first step?",
        before=engine.step,
        answer=lambda: engine.num_free,
        unit="block",
        why={
            len(queue) - 10: "Ten tokens are not ten blocks.",
            len(queue) - 2: "Two blocks hold 8 tokens; the other two need a third.",
            len(queue): "A waiting request holds nothing, but she has run.",
        },
        because=lambda: f"She took {engine.table('cleo')}, from the front.",
    )
    L.check("cleo got the front of the queue", engine.table("cleo") == queue[:3])
    engine.run()
    worst = max(usage.internal for usage in engine.usage)
    L.check(f"never more than {worst} slots were given out for nothing", worst <= 2 * (SIZE - 1))
    yield L.predict(
        "What would smaller blocks, of one token each, change?",
        answer=lambda: _with_blocks_of_one(L),
        choices=("no waste, longer tables", "more waste", "other answers"),
        why={
            "more waste": (
                "The waste is what the last block has left, so it shrinks with the block."
            ),
            "other answers": "Where a token lies does not change what it is.",
        },
        because=(
            "Tables grow and the kernel jumps at every token; vLLM's default is 16. How a kernel"
            " reads through a table is the next lesson."
        ),
    )


def _with_blocks_of_one(L: Teacher) -> str:
    """The same prompt in blocks of one token and of four."""
    tables, waste, texts = [], [], []
    for size in (1, SIZE):
        engine = L.engine(
            f"blocks of {size}", num_blocks=48 // size, block_size=size, enable_prefix_caching=False
        )
        engine.add("ada", list(range(20, 20 + PROMPT)), max_tokens=8)
        engine.step()
        tables.append(len(engine.table("ada")))
        engine.run()
        waste.append(max(usage.internal for usage in engine.usage))
        texts.append(engine.output_tokens("ada"))
    if texts[0] != texts[1]:
        return "other answers"
    return "no waste, longer tables" if waste[0] == 0 and tables[0] > tables[1] else "more waste"
