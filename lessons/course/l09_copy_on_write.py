"""Lesson 9: sequences with one prompt share even a half-full block, until one writes into it."""

from minivllm.events import types as ev
from minivllm.lessons.shown.drawings import tables_before_and_after
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import DIARY
from minivllm.lessons.teacher.script import Script, Teacher, lesson
from minivllm.text import plural

SIZE = 4
PROMPT = 6
"""A full block and half a block."""
SAMPLES = 3
WISH = 9
LONG = 42
LONG_SAMPLES = 4


@lesson(
    9, "copy-on-write", "Copy-on-write: parallel samples and beams", minutes=9, pages=24,
    needs=("prefix-sharing",),
)  # fmt: skip
def run(L: Teacher) -> Script:
    engine = _engine(L, "three samples")
    yield from _a_fork(L, engine)
    yield from _copies_on_write(L, engine)
    yield from _what_is_copied(L)
    yield from _beams(L)
    yield from _as_in_vllm(L)


def _a_fork(L: Teacher, engine: LessonEngine) -> Script:
    _sample(engine, "ada", PROMPT, SAMPLES)
    L.focus("waiting")
    yield L.say(f"""`ada` wants a choice: **{SAMPLES} answers** to one prompt of {PROMPT} tokens,
        sampled at random (`n={SAMPLES}`, a temperature above 0). The three texts begin alike and
        then diverge. How much work and memory can they share?""")
    yield L.predict(
        f"""The first step processes the prompt. How many tokens go through the model in it? [token]
        - {SAMPLES * PROMPT}: The prompt is the same for all three: its keys and values are computed
          once.
        - 1: That would be a decode. The whole prompt is new.
        - {SAMPLES}: That is how many tokens come out: one for each sample.
        = One sequence processes the prompt. Then it **forks** into three, and each samples its own
          first token.""",
        before=engine.step,
        answer=lambda: engine.scheduled("ada"),
        focus="budget",
    )
    tables = [engine.table(name) for name in _names()]
    L.check(
        f"one prefill gave {SAMPLES} first tokens",
        len(engine.events_of(ev.TokenSampled)) == SAMPLES,
    )
    L.choose(tables[0][1])
    yield L.predict(
        f"""Now there are {SAMPLES} sequences, each with a block table of {len(tables[0])} entries.
        How many blocks of memory do they hold together? [block]
        - {SAMPLES * len(tables[0])}: A fork copies the block table, a list of numbers, no block.
        - {1 + SAMPLES}: Not yet: even the half-full block is shared until one writes into it.
        - 1: The prompt needs two.
        = All tables are {tables[0]}; each of these blocks has {SAMPLES} owners.""",
        answer=lambda: engine.num_used,
    )
    L.check(
        "the half-full block is shared too", engine.fold.blocks[tables[0][1]].ref_cnt == SAMPLES
    )


def _copies_on_write(L: Teacher, engine: LessonEngine) -> Script:
    shared = list(engine.table("ada"))
    L.focus("inspector")
    yield L.say(f"""A prefix hit shares full blocks, and no sequence writes into those. Here the
        last block is half full. In the next step all {SAMPLES} sequences want to write **into the
        same slot of it**, each a different key and value. What would you do?""")
    yield L.predict(
        f"""Before a sequence writes into a block that another sequence owns too, it gets its own
        copy. How many blocks does the next step copy? [block]
        - {SAMPLES}: When the others have moved to their copies, the last one is the only owner: it
          writes in place.
        - 0: Then each would overwrite what the others wrote.
        - 1: {SAMPLES} different tokens need {SAMPLES} places.
        - {SAMPLES * len(shared)}: Only the block that is written is copied; the other is only read.
        = This is **copy-on-write**, as when an operating system forks a process.""",
        before=engine.step,
        answer=lambda: len(engine.events_of(ev.BlockCopied)),
        focus="eventlog",
    )
    tables = [engine.table(name) for name in _names()]
    L.check(
        "the first entry is still the same block for all", len({table[0] for table in tables}) == 1
    )
    L.check(
        "the second entry is a different block for each",
        len({table[1] for table in tables}) == SAMPLES,
    )
    L.choose(None)
    after = dict(zip(_names(), tables, strict=True))
    yield L.say(
        f"""The tables are now {", ".join(map(str, tables))}: {engine.num_used} blocks. Each copy
        has four parts, in this order: take a free block, copy, update the table entry, release the
        old block. In another order, the old block could be allocated again while it is still being
        read.""",
        focus="blockmap",
        figure=tables_before_and_after(dict.fromkeys(_names(), shared), after),
        diagram="copy-on-write",
    )
    yield L.predict(
        f"""They go on until each answer has {WISH} tokens, into a third and a fourth block. How
        many **more** blocks are copied on the way? [block]
        - {SAMPLES - 1}: A new block has only one owner from the start.
        - {SAMPLES}: A new block needs no copy.
        - else: Ask for each block that is written: does another sequence hold it?
        = Each now has its own last block, and the blocks that they still share are full.""",
        before=lambda: engine.run_until(lambda: not engine.is_running("ada")),
        answer=lambda: len(engine.events_of(ev.BlockCopied)) - (SAMPLES - 1),
        focus="timelines",
    )


def _what_is_copied(L: Teacher) -> Script:
    even = _engine(L, "a prompt of full blocks")
    _sample(even, "bob", 2 * SIZE, SAMPLES)
    yield L.predict(
        f"""`bob` wants {SAMPLES} answers as well, but his prompt has {2 * SIZE} tokens. How many
        blocks are copied for him, from beginning to end? [block]
        - {SAMPLES - 1}: That was a prompt with a half-full block. {2 * SIZE} tokens fill exactly
          two blocks of {SIZE}.
        - {SAMPLES}: No sequence writes into a full block.
        = Each answer continues in a new block. Only a partial block has to be copied.""",
        before=even.run,
        answer=lambda: len(even.events_of(ev.BlockCopied)),
        focus="blockmap",
    )
    big = _engine(L, "a long prompt")
    _sample(big, "cleo", LONG, LONG_SAMPLES)
    alone = -(-LONG // SIZE)
    yield L.predict(
        f"""`cleo` sends {LONG} tokens ({alone} blocks, the last one half full) and wants
        {LONG_SAMPLES} answers. Without sharing, that takes {LONG_SAMPLES * alone} blocks. How many
        are in use after two steps? [block]
        - {alone}: They have written by now, so they no longer share the last block.
        - {alone + LONG_SAMPLES}: One of the four keeps the old last block.
        - {LONG_SAMPLES * alone}: That is without sharing.""",
        before=lambda: big.step(2),
        answer=lambda: big.num_used,
        because=lambda: (
            f"{alone - 1} full blocks are shared, and each answer has one of its own. Longer"
            " prompts and more answers save more."
        ),
    )
    big.run()


def _beams(L: Teacher) -> Script:
    beams = _engine(L, "beam search")
    beams.add("dan", beams.tokens(DIARY, PROMPT), max_tokens=12, n=SAMPLES, use_beam_search=True)
    beams.step(3)
    L.focus("slots")
    yield L.say(f"""The hardest case is **beam search**: keep the {SAMPLES} most probable texts; in
        each step try all their continuations, and keep the best {SAMPLES} again. A text with two
        good continuations forks; one with none is pruned. Tables are copied and released all the
        time.""")
    yield L.predict(
        f"""`dan`'s {SAMPLES} beams are running. After a fork, how many tokens of the common text
        must be computed again for the new beam? [token]
        - {PROMPT}: The new beam's table points to the blocks that hold the prompt.
        - else: The new beam's table points to blocks that hold all of it.
        = A fork changes only tables. The half-full block is copied at the first write, and not
          computed again.""",
        before=beams.run,
        answer=lambda: _computed_twice(beams, "dan"),
        focus="timelines",
    )
    facts = beams.facts.requests["dan"]
    forks, copies = facts.num_sequences - 1, facts.num_copies
    L.check(f"{forks} forks cost {copies} copies, at most one each", copies <= forks)
    L.check("there were never more than three beams at once", facts.num_together <= SAMPLES)
    L.focus("finished")
    yield L.say(f"""dan's search made {plural(forks, "fork")}, pruned
        {plural(facts.num_pruned, "beam")} and copied {plural(copies, "block")}. A fork needs no
        copy if its last block is full, or if the other owners are pruned before a write. The
        PagedAttention paper measured what sharing saves a beam search: 37 to 55 % of KV memory
        (Alpaca), 44 to 66 % (ShareGPT).""")


def _as_in_vllm(L: Teacher) -> Script:
    three = _engine(L, "three requests")
    for index in range(SAMPLES):
        three.add(f"eve{index}", PROMPT, WISH, temperature=1.0, seed=index)
    yield L.predict(
        f"""vLLM today does it differently: {SAMPLES} answers are {SAMPLES} requests that share
        **full** blocks through the prefix cache, already in the step that fills a block. Three such
        requests arrive together, each with a prompt of {PROMPT} tokens; blocks have {SIZE}. How
        many tokens go through the model in the first step? [token]
        - {SAMPLES * PROMPT}: The second request finds the full block that the first one fills in
          this very step.
        - {PROMPT}: Only full blocks are shared; each request computes the other {PROMPT - SIZE}
          tokens itself.
        = A little work is done twice, but the scheduler needs no forks: a fair trade.""",
        before=three.step,
        answer=lambda: sum(three.scheduled(f"eve{index}") for index in range(SAMPLES)),
        focus="budget",
    )
    L.check("no block was copied there", not three.events_of(ev.BlockCopied))
    yield L.say("""In the code: `Scheduler.fork` in `minivllm/core/scheduler.py`,
        `KVCacheManager._copy_on_write` in `minivllm/core/kv_cache_manager.py`, beams in
        `minivllm/engine/beams.py`. In vLLM: `vllm/v1/engine/parallel_sampling.py`; its first
        engine, V0, had copy-on-write.""")
    yield L.say("""Try it: `minivllm demo --scenario parallel-sampling` and `--scenario beams`. A
        copy needs a free block, at a moment that cannot be planned. So does every sequence that
        grows. What if no block is free? That is the next lesson.""")


def _engine(L: Teacher, name: str) -> LessonEngine:
    return L.engine(
        name, num_blocks=24, block_size=SIZE, max_num_seqs=LONG_SAMPLES, max_num_batched_tokens=48
    )


def _sample(engine: LessonEngine, name: str, length: int, count: int) -> None:
    engine.add(name, length, WISH, n=count, temperature=1.0, seed=7)


def _names() -> list[str]:
    return [f"ada.{index}" for index in range(SAMPLES)]


def _computed_twice(engine: LessonEngine, request_id: str) -> int:
    """Tokens computed after the prompt, beyond the one new token per sequence and step."""
    given = [event for event in engine.events_of(ev.StepScheduled) if event.num_computed_tokens]
    own = f"{request_id}."
    return sum(event.num_tokens - 1 for event in given if event.seq_id.startswith(own))
