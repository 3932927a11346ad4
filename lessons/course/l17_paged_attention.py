"""Lesson 17: how a kernel reads keys and values through a block table, traced in a real decode."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from minivllm.events import types as ev
from minivllm.lessons.shown.recorded import NOTICE, recorded, triton_is_here, xray_next_step
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import DIARY
from minivllm.lessons.teacher.script import Say, Script, Teacher, lesson

SIZE = 16
PROMPT = 70
MEMORY = {"num_blocks": 12, "block_size": SIZE, "max_num_seqs": 2, "enable_prefix_caching": False}


@lesson(
    17, "paged-attention", "The paged attention kernel, seen from inside", minutes=10, pages=17,
    needs=("block-tables",), track="kernels",
)  # fmt: skip
def run(L: Teacher) -> Script:
    engine = L.engine("blocks out of order", **MEMORY)
    # Two earlier requests ended one after the other. So the free queue is no longer in order, and
    # neither is the next block table.
    prompt = engine.tokens(DIARY, PROMPT)
    engine.add("first", prompt[:40], max_tokens=2)
    engine.add("second", prompt[:20], max_tokens=4)
    engine.run()
    engine.add("ada", prompt, max_tokens=8)
    engine.step()
    table, config = list(engine.table("ada")), engine.loaded.config
    is_live = triton_is_here()

    if not is_live:
        yield L.say(NOTICE, focus="blockmap")
    L.focus("blockmap")
    yield L.say(f"""The prompt of `ada`, {PROMPT} tokens, has been processed. Her next token must
        look back at every token before it. Their keys and values are in the blocks {table}, out of
        order, because these blocks were free. A **kernel** is a function that runs on the GPU. How
        does the attention kernel find them?""")
    L.check("her blocks are not in the order of their numbers", table != sorted(table))
    traced = "" if is_live else " (recorded on another machine)"
    yield L.predict(
        f"""We now trace the attention kernel for ada's next token{traced}. It is written in Triton,
        a language for GPU kernels. In what order does it read her blocks?
        - in the order of her table
        - by block number: A block's number is its place in memory. Only the table has the order of
          the text.
        - all blocks of the cache: The other blocks are free or belong to other requests, so the
          kernel must not read them.
        = It first loads some entries of the table, then the keys in those blocks. This extra lookup
          is the price of paging.""",
        before=lambda: _trace(L, engine),
        answer=lambda: _order(engine, table),
    )
    trace = engine.events_of(ev.KernelTraced)[-1]
    programs = trace.programs
    yield L.predict(
        f"""A kernel runs as many **programs** in parallel: copies of one function. Here
        {config.num_attention_heads} query heads share {config.num_key_value_heads} key/value heads.
        No key may be loaded twice, so query heads that share keys share a program. How many
        programs run for ada in one layer? [program]
        - {config.num_attention_heads}: Then each query head of a group would load the same keys
          again.
        - 1: Heads are independent of each other, so they can run in parallel.
        - {config.num_hidden_layers}: Layers run one after the other, and each launches the kernel
          again.
        = One for each key/value head; each serves
          {config.num_attention_heads // config.num_key_value_heads} query heads.""",
        answer=lambda: len(programs),
    )
    last = trace.num_tokens - (len(table) - 1) * SIZE
    yield L.predict(
        f"""With the new token, ada has {trace.num_tokens} tokens in the cache: {len(table) - 1}
        full blocks of {SIZE} and a last block. How many slots of the last block does a program
        read? [slot]
        - {SIZE}: The other slots were never written, or hold data of an earlier request: they are
          masked out.
        - else: A program reads one slot for each token in the block.
        = {trace.num_tokens} − {len(table) - 1} × {SIZE} = {last}. The slots after them are not
          read.""",
        answer=lambda: programs[0].tiles[-1].reads[-1].num_slots,
    )
    L.check(
        f"each program reads exactly {trace.num_tokens} slots",
        all(_num_slots(program) == trace.num_tokens for program in programs),
    )
    tiles = programs[0].tiles
    yield L.predict(
        f"""A program loads keys in **tiles** of {_num_slots_of(tiles[0])}: a fixed number of keys
        that it loads at once. How many tiles does it need for {trace.num_tokens} tokens? [tile]
        - {len(table)}: That is the number of blocks. A tile takes several blocks.
        - 1: The first tile has no room for the last tokens.
        - {trace.num_tokens}: A tile holds many keys, so that they are processed together.""",
        answer=lambda: len(tiles),
        because=lambda: f"{' + '.join(str(_num_slots_of(tile)) for tile in tiles)} keys.",
    )
    L.focus("xray")
    yield L.say("""Softmax needs the largest score and the sum over **all** keys, but a program sees
        one tile at a time. So it keeps a running maximum and a running sum. When a larger score
        appears, it scales down the sum that it has so far. This is **online softmax**: nothing is
        read twice.""")
    L.check(
        "a program's running maximum never falls from tile to tile",
        all(map(_maximum_never_falls, programs)),
    )
    yield _two_tiles(L, trace)
    yield L.predict(
        f"""So one new token reads the keys and values of {trace.num_tokens} tokens, in every layer.
        One token takes {engine.bytes_per_token:,} bytes in the cache, all layers together. How many
        bytes of the cache does this step read? [byte]
        - {engine.bytes_per_token}: That is what the new token writes. It reads what all tokens have
          written.
        - {trace.num_tokens * engine.bytes_per_token // config.num_hidden_layers}: That is one
          layer. Every layer reads its own keys and values.
        - {trace.num_tokens * engine.bytes_per_token * config.num_hidden_layers}: The
          {engine.bytes_per_token:,} bytes already count all layers.
        = The kernel computes little with each byte, so memory limits decoding: see lesson 18.""",
        answer=lambda: trace.num_tokens * engine.bytes_per_token,
        tolerance=0.05,
    )
    engine.engine.record_attention_mass(True)
    engine.step()
    mass = engine.events_of(ev.AttentionMass)[-1].mass
    L.check("the shares of all blocks add up to 1", abs(sum(mass) - 1) < 1e-3)
    L.focus("mass")
    yield L.say("""This is how much of ada's attention went to each of her blocks, averaged over
        layers and heads. Inside each head, these weights (one per token) multiply the values, and
        the layer continues with the sum.""")
    runs = "another one runs the kernel" if is_live else "another machine ran the kernel"
    yield L.predict(
        f"""The Triton kernel has a **reference implementation** in plain torch. It is slow: it
        first gathers the blocks into one tensor, while the kernel reads them in place. Now one
        engine runs the reference, and {runs}. Do both write the same tokens?
        - the same
        - nearly the same: Sums in a different order can differ in the last digits, but here this
          does not change the choice of a token.
        - different ones: Both compute the same formula. Only place and order of the reads differ.
        = Every fast kernel here is tested against a slow reference that is obviously correct.""",
        answer=lambda: _same_tokens(L, is_live),
        focus="slots",
    )


def _trace(L: Teacher, engine: LessonEngine) -> None:
    """Run the traced step, but keep the x-ray, which has the answers, for later."""
    xray_next_step(L, engine)
    L.focus("blockmap")


class Merge(NamedTuple):
    """How the softmax of a query head goes on when tile 2 has a larger score."""

    head: int
    old_max: float
    old_sum: float
    new_max: float
    new_sum: float

    @property
    def kept(self) -> float:
        """What the old sum counts for, relative to the new maximum."""
        return self.old_sum * math.exp(self.old_max - self.new_max)

    @property
    def added(self) -> float:
        """What tile 2 adds, of the digits that are shown."""
        return round(self.new_sum, 2) - round(self.kept, 2)

    @property
    def smaller_share(self) -> float:
        """The share of the tile that matters less in the new sum."""
        return min(self.kept, self.new_sum - self.kept) / self.new_sum


def _merges(program: ev.TracedProgram) -> Iterator[Merge]:
    first, second = program.tiles[:2]
    states = zip(
        first.running_max, first.running_sum, second.running_max, second.running_sum, strict=True
    )
    for at, (old_max, old_sum, new_max, new_sum) in enumerate(states):
        if new_max > old_max:
            head = program.kv_head * len(first.running_max) + at
            yield Merge(head, old_max, old_sum, new_max, new_sum)


def _two_tiles(L: Teacher, trace: ev.KernelTraced) -> Say:
    """For the head where both tiles matter most in the new sum."""
    merges = [merge for program in trace.programs for merge in _merges(program)]
    merge = max(merges, key=lambda merge: merge.smaller_share)
    return L.say(
        f"Query head {merge.head} meets a larger score in tile 2: {merge.new_max:.2f}, and before"
        f" {merge.old_max:.2f}. Its sum of {merge.old_sum:.2f} was relative to"
        f" {merge.old_max:.2f}, so it is scaled by e to the power of the difference. Then tile 2"
        " adds its own weights:",
        figure=(
            f"after tile 1   max {merge.old_max:.2f}  sum {merge.old_sum:.2f}",
            f"scaled         {merge.old_sum:.2f} · e^({merge.old_max:.2f} - {merge.new_max:.2f})"
            f" = {merge.kept:.2f}",
            f"after tile 2   {merge.kept:.2f} + {merge.added:.2f} = {merge.new_sum:.2f}",
        ),
    )


def _order(engine: LessonEngine, table: list[int]) -> str:
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
    texts = []
    for backend in ("torch", "triton") if is_live else ("torch",):
        engine = L.engine(backend, attention_backend=backend, **MEMORY)
        engine.add("ada", engine.tokens(DIARY, 20), max_tokens=4)
        engine.run()
        texts.append(engine.output_tokens("ada"))
    if not is_live:
        texts.append(recorded().tokens)
    if texts[0] == texts[1]:
        return "the same"
    return "nearly the same" if texts[0][0] == texts[1][0] else "different ones"
