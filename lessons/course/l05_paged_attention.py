"""Lesson 5: how a kernel reads keys and values through a block table, with the x-ray of a real
decode.
"""

from minivllm.events import types as ev
from minivllm.lessons.shown.recorded import NOTICE, recorded, triton_is_here, xray_next_step
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson

SIZE = 16
PROMPT = [10 + number % 200 for number in range(70)]
MEMORY = {"num_blocks": 12, "block_size": SIZE, "max_num_seqs": 2, "enable_prefix_caching": False}


@lesson(
    5, "paged-attention", "The paged attention kernel, seen from inside", minutes=10,
    needs=("block-tables",), watches_kernels=True,
)  # fmt: skip
def run(L: Teacher) -> Script:
    engine = L.engine(**MEMORY)
    # Two were here before and left one after the other: the free queue is no longer in order, so
    # neither is the next table.
    engine.add("first", PROMPT[:40], max_tokens=2)
    engine.add("second", PROMPT[:20], max_tokens=4)
    engine.run()
    engine.add("ada", PROMPT, max_tokens=8)
    engine.step()
    table, config = list(engine.table("ada")), engine.loaded.config
    is_live = triton_is_here()

    if not is_live:
        yield L.say(NOTICE, focus="blockmap")
    L.check("her blocks are not in the order of their numbers", table != sorted(table))
    yield L.say(
        f"`ada` has read her prompt of {len(PROMPT)} tokens and is about to write. Her new token"
        " must look back at every token before it, and their keys and values lie in the blocks"
        f" {table}: not in order, because those were free. How does a kernel find its way?",
        focus="blockmap",
    )
    watched = "and is watched" if is_live else "(recorded elsewhere)"
    yield L.predict(
        f"In the next step the kernel runs over her queries, keys and values {watched}. In which"
        " order will one of its programs read her blocks?",
        before=lambda: xray_next_step(L, engine),
        answer=lambda: _order(engine, table),
        choices=("in the order of her table", "by block number", "all blocks of the cache"),
        why={
            "by block number": (
                "Numbers say where a block lies, not which tokens are in it. The order of the text"
                " is in the table."
            ),
            "all blocks of the cache": (
                "Other blocks belong to others, or to nobody: nothing in them may be looked at."
            ),
        },
        because=(
            "It loads an entry of the table, then the keys in that block, and so on: one more"
            " look-up is the price of paging."
        ),
    )
    trace = engine.events_of(ev.KernelTraced)[-1]
    programs = trace.programs
    yield L.predict(
        "A kernel runs as many **programs** side by side. This model has"
        f" {config.num_attention_heads} query heads and {config.num_key_value_heads} key/value"
        " heads. How many programs does this kernel run for ada in one layer?",
        answer=lambda: len(programs),
        unit="program",
        why={
            config.num_attention_heads: (
                "Query heads of a group read the same keys: one program serves the group, and the"
                " keys are read once."
            ),
            1: "Heads do not depend on each other, so they can run side by side.",
            config.num_hidden_layers: (
                "Layers come one after the other: each is a launch of its own."
            ),
        },
        because=(
            "One for each key/value head; each serves"
            f" {config.num_attention_heads // config.num_key_value_heads} query heads."
        ),
    )
    last = trace.num_tokens - (len(table) - 1) * SIZE
    yield L.predict(
        f"With the new one ada has {trace.num_tokens} tokens in the cache: {len(table) - 1} full"
        f" blocks of {SIZE}, and a last one. How many slots of the last block does a program read?",
        answer=lambda: programs[0].tiles[-1].reads[-1].num_slots,
        unit="slot",
        why={
            SIZE: (
                "The rest of the block was never written, or belonged to somebody before: it is"
                " masked out."
            )
        },
        otherwise="As many as there are tokens in it.",
        because=(
            f"{trace.num_tokens} − {len(table) - 1} × {SIZE} = {last}. What lies behind is left"
            " alone."
        ),
    )
    L.check(
        f"each program reads exactly {trace.num_tokens} slots",
        all(_num_slots(one) == trace.num_tokens for one in programs),
    )
    tiles = programs[0].tiles
    yield L.predict(
        f"A program takes keys in **tiles** of {_num_slots_of(tiles[0])}, as many as fit into fast"
        f" memory at once. How many tiles are there for {trace.num_tokens} tokens?",
        answer=lambda: len(tiles),
        unit="tile",
        why={
            len(table): "Those are blocks. A tile takes several of them.",
            1: "One tile is full before the last tokens.",
            trace.num_tokens: "A tile holds many keys, so that they are worked on together.",
        },
        because=lambda: f"{' + '.join(str(_num_slots_of(tile)) for tile in tiles)} keys.",
    )
    L.check(
        "a program's running maximum never falls from tile to tile",
        all(map(_maximum_never_falls, programs)),
    )
    yield L.say(
        "Softmax needs the largest score and the sum over **all** keys, but a program sees one tile"
        " at a time. So it keeps a running maximum and a running sum. When a larger score turns up,"
        " what was summed so far is scaled down, and nothing is read twice."
    )
    yield L.predict(
        f"So one new token reads the keys and values of {trace.num_tokens} tokens, in every layer."
        f" One token takes {engine.bytes_per_token:,} bytes in the cache. How many bytes does this"
        " step read of it?",
        answer=lambda: trace.num_tokens * engine.bytes_per_token,
        unit="byte",
        tolerance=0.05,
        why={
            engine.bytes_per_token: (
                "That is what the new token writes. It reads what all of them have written."
            ),
            trace.num_tokens * engine.bytes_per_token // config.num_hidden_layers: (
                "Each layer reads its own."
            ),
        },
        because=(
            "Little is computed with each byte, so the speed of memory sets the pace of decoding:"
            " lesson 12."
        ),
    )
    engine.engine.record_attention_mass(True)
    engine.step()
    mass = engine.events_of(ev.AttentionMass)[-1].mass
    L.check("the shares of all blocks together are 1", abs(sum(mass) - 1) < 1e-3)
    yield L.say(
        "What the reading was for: this is the share of ada's attention that fell on each of her"
        " blocks, over all layers and heads. The values are added up with these weights, and the"
        " sum is what the next layer works with.",
        focus="mass",
    )
    runs = "another one runs the kernel" if is_live else "another one ran the kernel elsewhere"
    yield L.predict(
        "The Triton kernel's slow twin is plain torch: it gathers the blocks into one tensor"
        f" first. The kernel reads blocks where they lie. Now one engine runs the twin, and {runs}."
        " Do both write the same tokens?",
        answer=lambda: _same_tokens(L, is_live),
        choices=("the same", "nearly the same", "different ones"),
        focus="slots",
        why={
            "nearly the same": (
                "Sums in another order may differ in the last digits, but here not in the choice of"
                " a token."
            ),
            "different ones": (
                "Where the numbers lie, and who reads them in which order, is no part of the"
                " question."
            ),
        },
        because="A slow and plainly right twin is how every fast kernel here is tested.",
    )


def _order(engine: LessonEngine, table: list[int]) -> str:
    """What the programs' reads show."""
    trace = engine.events_of(ev.KernelTraced)[-1]
    orders = [
        [read.block_id for tile in program.tiles for read in tile.reads]
        for program in trace.programs
    ]
    if all(order == table for order in orders):
        return "in the order of her table"
    return (
        "by block number"
        if all(order == sorted(table) for order in orders)
        else "all blocks of the cache"
    )


def _num_slots(program: ev.TracedProgram) -> int:
    return sum(map(_num_slots_of, program.tiles))


def _num_slots_of(tile: ev.TracedTile) -> int:
    return sum(read.num_slots for read in tile.reads)


def _maximum_never_falls(program: ev.TracedProgram) -> bool:
    by_head = zip(*(tile.running_max for tile in program.tiles), strict=True)
    return all(list(maxima) == sorted(maxima) for maxima in by_head)


def _same_tokens(L: Teacher, is_live: bool) -> str:
    """The first tokens with both ways to attend."""
    texts = []
    for backend in ("torch", "triton") if is_live else ("torch",):
        engine = L.engine(backend, attention_backend=backend, **MEMORY)
        engine.add("ada", PROMPT[:20], max_tokens=4)
        engine.run()
        texts.append(engine.output_tokens("ada"))
    if not is_live:
        texts.append(recorded().tokens)
    if texts[0] == texts[1]:
        return "the same"
    return "nearly the same" if texts[0][0] == texts[1][0] else "different ones"
