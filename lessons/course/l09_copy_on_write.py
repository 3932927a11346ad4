"""Lesson 9: several texts for one prompt share even a half full block, until one of them writes
into it.
"""

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson

SIZE = 4
PROMPT = list(range(40, 46))
"""One full block and half of another."""
SAMPLES = 3
WISH = 9
LONG = 42
LONG_SAMPLES = 4


@lesson(
    9,
    "copy-on-write",
    "Copy-on-write: parallel samples and beams",
    minutes=9,
    needs=("prefix-sharing",),
)
def run(L: Teacher) -> Script:
    engine = _engine(L, "samples")
    _sample(engine, "ada", PROMPT, SAMPLES)
    yield L.say(
        f"`ada` wants to choose: **{SAMPLES} answers** to one prompt of {len(PROMPT)} tokens, drawn"
        f" at random (`n={SAMPLES}`, a temperature above 0). Three texts that begin alike and then"
        " part: how much of the work and of the memory can they share?",
        focus="waiting",
    )
    yield L.predict(
        "The first step works through the prompt. How many tokens go through the model in it?",
        before=engine.step,
        answer=lambda: engine.scheduled("ada"),
        focus="budget",
        unit="token",
        why={
            SAMPLES
            * len(PROMPT): "The prompt is the same for all: its keys and values are computed once.",
            1: "That is a decode. The prompt is new, all of it.",
            SAMPLES: "That is how many tokens come out: one for each sample.",
        },
        because=(
            "One sequence reads the prompt; then it **forks** into three, and each draws a first"
            " token of its own."
        ),
    )
    names = [f"ada.{index}" for index in range(SAMPLES)]
    tables = [engine.table(name) for name in names]
    L.check(
        f"one prefill gave {SAMPLES} first tokens",
        len(engine.events_of(ev.TokenSampled)) == SAMPLES,
    )
    L.choose(tables[0][1])
    yield L.predict(
        f"Now there are {SAMPLES} sequences, with block tables of {len(tables[0])} entries each."
        " How many blocks of memory do they hold together?",
        answer=lambda: engine.num_used,
        unit="block",
        why={
            SAMPLES
            * len(tables[0]): "A fork copies the table, which is a list of numbers, and no block.",
            1 + SAMPLES: (
                "Not yet: even the half full block is shared, as long as nobody writes into it."
            ),
            1: "The prompt needs two.",
        },
        because=f"All tables read {tables[0]}; each of these blocks has {SAMPLES} owners.",
    )
    L.check(
        "the half full block is shared too", engine.fold.blocks[tables[0][1]].ref_cnt == SAMPLES
    )
    yield L.say(
        "A prefix hit shares full blocks, and nobody ever writes into those. Here the last block"
        f" is half full, and in the next step all {SAMPLES} want to write a key and a value **into"
        " the same slot of it**, each a different one. That cannot go well. What would you do?",
        focus="inspector",
    )
    yield L.predict(
        "Who finds that the block it must write has another owner gets a copy first. How many"
        " blocks does the next step copy?",
        before=engine.step,
        answer=lambda: len(engine.events_of(ev.BlockCopied)),
        focus="eventlog",
        unit="block",
        why={
            SAMPLES: (
                "When the others have left for their copies the last one is alone: it writes in"
                " place."
            ),
            0: "Then each would overwrite what the others wrote.",
            1: f"{SAMPLES} different tokens need {SAMPLES} places.",
            SAMPLES
            * len(tables[0]): "Only the block that is written into; the full one is only read.",
        },
        because="This is **copy-on-write**, as when an operating system forks a process.",
    )
    tables = [engine.table(name) for name in names]
    L.check(
        "the first entry is still the same block for all", len({table[0] for table in tables}) == 1
    )
    L.check("the second is another one for each", len({table[1] for table in tables}) == SAMPLES)
    L.choose(None)
    yield L.say(
        f"The tables are now {', '.join(map(str, tables))}: {engine.num_used} blocks. For each"
        " copy, in this order: take a free block, copy, let the table entry point to it, let go of"
        " the old one. In the wrong order somebody else could get the block while you still"
        " read it.",
        focus="blockmap",
    )
    yield L.predict(
        f"They go on until each has {WISH} tokens, into a third and a fourth block. How many"
        " **more** blocks are copied on the way?",
        before=lambda: engine.run_until(lambda: not engine.is_running("ada")),
        answer=lambda: len(engine.events_of(ev.BlockCopied)) - (SAMPLES - 1),
        focus="timelines",
        unit="block",
        why={
            SAMPLES - 1: "A new block is its owner's alone from the start.",
            SAMPLES: "A new block needs no copy.",
        },
        otherwise="Ask of each block that is written: who else holds it?",
        because="Their last blocks are their own now, and what they still share is full.",
    )
    even = _engine(L, "full blocks")
    _sample(even, "bob", list(range(40, 40 + 2 * SIZE)), SAMPLES)
    yield L.predict(
        f"`bob` wants {SAMPLES} answers as well, but his prompt has {2 * SIZE} tokens. How many"
        " blocks are copied for him, from beginning to end?",
        before=even.run,
        answer=lambda: len(even.events_of(ev.BlockCopied)),
        focus="blockmap",
        unit="block",
        why={
            SAMPLES - 1: (
                f"That was a prompt with a half full block. {2 * SIZE} tokens fill two blocks of"
                f" {SIZE} to the brim."
            ),
            SAMPLES: "Nobody writes into a full block.",
        },
        because="Each goes on in a fresh block. A copy is the price of the partial block alone.",
    )
    big = _engine(L, "a long prompt")
    _sample(big, "cleo", list(range(100, 100 + LONG)), LONG_SAMPLES)
    alone = -(-LONG // SIZE)
    yield L.predict(
        f"`cleo` sends {LONG} tokens ({alone} blocks, the last one half full) and wants"
        f" {LONG_SAMPLES} answers. Without sharing: {LONG_SAMPLES * alone} blocks. How many are in"
        " use after two steps?",
        before=lambda: big.step(2),
        answer=lambda: big.num_used,
        focus="blockmap",
        unit="block",
        why={
            alone: "They have written by now, so they no longer share the last one.",
            alone + LONG_SAMPLES: "One of the four keeps the old last block.",
            LONG_SAMPLES * alone: "That is without sharing.",
        },
        because=lambda: (
            f"{alone - 1} full ones shared, and one each. The longer the prompt and the more the"
            " answers, the more it saves."
        ),
    )
    big.run()
    beams = _engine(L, "beams")
    beams.add("dan", PROMPT, max_tokens=12, n=SAMPLES, use_beam_search=True)
    beams.step(3)
    yield L.say(
        f"The hardest customer is **beam search**: keep the {SAMPLES} most probable texts; at each"
        f" step try all their continuations and keep the best {SAMPLES} again. A text with two good"
        " continuations forks, one with none dies. Tables are copied and dropped all the time.",
        focus="slots",
    )
    yield L.predict(
        f"`dan`'s {SAMPLES} beams are under way. After a fork, how many tokens of the common text"
        " must be computed again for the new beam?",
        before=beams.run,
        answer=lambda: _computed_twice(beams, "dan"),
        focus="timelines",
        unit="token",
        why={len(PROMPT): "The new beam's table points to the blocks that hold the prompt."},
        otherwise="The new beam's table points to blocks that hold all of it.",
        because=(
            "None, not even of the half full block: it is copied, not computed. A fork is"
            " bookkeeping."
        ),
    )
    facts = beams.facts.requests["dan"]
    forks, copies = facts.num_sequences - 1, facts.num_copies
    L.check(f"{forks} forks cost {copies} copies, no more than one each", copies <= forks)
    L.check("never more than three beams lived at once", facts.num_together <= SAMPLES)
    yield L.say(
        f"dan's search forked {forks} times, and {facts.num_pruned} beams died on the way; {copies}"
        " blocks were copied. A fork is free where a block has just been filled, and where the"
        " other owner dies before anybody writes. The paper on PagedAttention measured that"
        " sharing saves a beam search 37 to 55 % of its KV memory.",
        focus="finished",
    )
    three = _engine(L, "three requests")
    for index in range(SAMPLES):
        three.add(f"eve{index}", PROMPT, max_tokens=WISH, temperature=1.0, seed=index)
    yield L.predict(
        f"vLLM today goes another way: {SAMPLES} answers are {SAMPLES} requests that share **full**"
        " blocks through the prefix cache. Three such requests come together. How many tokens go"
        " through the model in the first step?",
        before=three.step,
        answer=lambda: sum(three.scheduled(f"eve{index}") for index in range(SAMPLES)),
        focus="budget",
        unit="token",
        why={
            SAMPLES
            * len(
                PROMPT
            ): "The second finds the full block that the first one fills in this very step.",
            len(PROMPT): (
                f"Only full blocks are found; the other {len(PROMPT) - SIZE} tokens are computed by"
                " each."
            ),
        },
        because="A little work twice, and a scheduler with no forks in it: a fair trade.",
    )
    L.check("nothing was copied there", not three.events_of(ev.BlockCopied))
    yield L.say(
        "In the code: `Scheduler.fork` in `minivllm/core/scheduler.py`,"
        " `KVCacheManager._copy_on_write` in `minivllm/core/kv_cache_manager.py`, beams in"
        " `minivllm/engine/beams.py`. In vLLM: `vllm/v1/engine/parallel_sampling.py`; copy-on-write"
        " was in its first engine, V0."
    )
    yield L.say(
        "To play: `minivllm demo --scenario parallel-sampling` and `--scenario beams`. A copy needs"
        " a free block, at a moment that nobody chose. So does every sequence that grows. What if"
        " there is none? That is the next lesson."
    )


def _engine(L: Teacher, name: str) -> LessonEngine:
    return L.engine(
        name, num_blocks=24, block_size=SIZE, max_num_seqs=LONG_SAMPLES, max_num_batched_tokens=48
    )


def _sample(engine: LessonEngine, name: str, prompt: list[int], count: int) -> None:
    engine.add(name, prompt, max_tokens=WISH, n=count, temperature=1.0, seed=7)


def _computed_twice(engine: LessonEngine, request_id: str) -> int:
    """Tokens that went through the model for a request's sequences after its prompt, beyond the one
    that each has newly got.
    """
    given = [
        event
        for event in engine.events_of(ev.StepScheduled)
        if event.seq_id.startswith(f"{request_id}.")
    ]
    return sum(event.num_tokens - 1 for event in given if event.num_computed_tokens > 0)
