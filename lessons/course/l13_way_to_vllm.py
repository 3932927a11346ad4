"""Lesson 13: what carries over to vLLM by name, what is only here, and what vLLM has more."""

from dataclasses import fields, replace
from importlib import import_module

from minivllm.config import EngineConfig
from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson

ONLY_HERE = ("kv_cache_allocator", "batching", "batch_delay", "batch_size", "check_invariants")
"""Options that vLLM has not; every other one is an argument of its engine or a field of one of its
config classes.
"""
SIZE = 16
MEMORY_BLOCKS = 40
PROMPT = 100
GUESSES = 3
HEADS, GPUS = 8, 4


@lesson(13, "way-to-vllm", "The way to vLLM", minutes=10, needs=("serving", "kernel-ladder"))
def run(L: Teacher) -> Script:
    names = [field.name for field in fields(EngineConfig)]
    L.check("every option that is told to be only here exists", set(ONLY_HERE) <= set(names))
    probe = L.engine("probe", num_blocks=4, block_size=SIZE)
    per_block = probe.bytes_per_token * SIZE
    engine = L.engine(
        "sized from memory",
        num_blocks=None,
        block_size=SIZE,
        kv_cache_memory_bytes=MEMORY_BLOCKS * per_block + per_block // 2,
        max_num_seqs=8,
        max_num_batched_tokens=1024,
        enable_prefix_caching=False,
    )
    yield L.say(
        "You know the engine now: blocks and tables, a scheduler that catches up, a cache that"
        " forgets last what was used last. Nearly all of it is vLLM's design, under **vLLM's"
        " names**. This last lesson is about what you can take with you, and what you will meet"
        " there that was not here.",
        focus="blockmap",
    )
    yield L.predict(
        f"Options first. `EngineConfig` has {len(names)} of them. How many are our own, unknown to"
        " vLLM?",
        answer=lambda: len(set(names) & set(ONLY_HERE)),
        unit="option",
        tolerance=0.2,
        why={
            0: (
                "To compare with what was before, we had to keep the old ways: vLLM has no static"
                " batching."
            )
        },
        otherwise="Think of the lessons: what did we switch on only to see how it was before?",
        because=(
            f"{', '.join(f'`{name}`' for name in ONLY_HERE)}: the old ways, and a watchman. The"
            " others are vLLM's."
        ),
    )
    from minivllm import LLM, SamplingParams

    L.check(
        "there are LLM.generate, LLM.chat and LLM.beam_search",
        all(hasattr(LLM, it) for it in ("generate", "chat", "beam_search")),
    )
    L.check(
        "SamplingParams knows n, temperature, top_p, max_tokens, stop and seed",
        bool(SamplingParams(n=2, temperature=0.5, top_p=0.9, max_tokens=4, stop=["."], seed=1)),
    )
    yield L.say(
        "So a script moves by its import: `from minivllm import LLM, SamplingParams` becomes `from"
        " vllm import LLM, SamplingParams`. `minivllm serve` becomes `vllm serve`, with the same"
        " routes under `/v1`, the same option names, the same metrics."
    )
    yield L.predict(
        "Memory. Both engines get bytes for the KV cache, cut them into blocks, and so know how"
        f" many may run. Here a block of {SIZE} tokens takes {per_block:,} bytes, and the cache may"
        f" take {MEMORY_BLOCKS} and a half of that. 8 people send {PROMPT} tokens each. How many"
        " run after the first step?",
        before=lambda: _eight_come(engine),
        answer=lambda: len(engine.fold.running),
        unit="sequence",
        why={
            MEMORY_BLOCKS * SIZE // PROMPT: (
                f"Whole blocks: {PROMPT} tokens take {-(-PROMPT // SIZE)}."
            ),
            MEMORY_BLOCKS: "That many blocks, not people.",
            8: "There are slots for all, but not blocks.",
        },
        otherwise=f"{MEMORY_BLOCKS} whole blocks, {-(-PROMPT // SIZE)} for each.",
        because=(
            'vLLM prints this when it starts: "Maximum concurrency for ... tokens per request". Now'
            " you can check it."
        ),
    )
    L.check(
        f"the half block is left alone: the cache has {engine.num_blocks} blocks",
        engine.num_blocks == MEMORY_BLOCKS,
    )
    yield L.predict(
        "Reading vLLM's source. You want to see in which order it evicts cached blocks. Where do"
        " you look?",
        answer=lambda: _source("minivllm.core.block_pool"),
        choices=(
            "vllm/v1/core/block_pool.py",
            "vllm/v1/core/sched/scheduler.py",
            "vllm/v1/worker/gpu_model_runner.py",
        ),
        why={
            "vllm/v1/core/sched/scheduler.py": (
                "The scheduler asks for blocks. Which one it gets is the pool's decision: the order"
                " of the free queue."
            ),
            "vllm/v1/worker/gpu_model_runner.py": (
                "The runner carries out plans: it is told which blocks to use."
            ),
        },
        because=(
            "Every file here that has a model in vLLM names it at its top, after `Source:`. Read"
            " ours first, then theirs beside it."
        ),
    )
    L.check(
        "our scheduler names vLLM's",
        _source("minivllm.core.scheduler") == "vllm/v1/core/sched/scheduler.py",
    )
    small = L.engine("events", num_blocks=6, block_size=4, max_num_seqs=1)
    yield L.say(
        "vLLM tells of decisions too, but less: its KV events (`vllm/distributed/kv_events.py`) are"
        " for routers that send a prompt to the server which remembers its beginning."
        " `BlockStored`: this content can be found here now. `BlockRemoved`: no longer.",
        focus="eventlog",
    )
    yield L.predict(
        "Our `block.hashed` says what BlockStored says. Three of ours sound like an end. Which one"
        " must become `BlockRemoved`?",
        before=lambda: _use_up(small),
        answer=lambda: _true_follower(small),
        choices=("block.released", "block.freed", "block.evicted"),
        why={
            "block.released": (
                "One owner has let go. Others may hold it, and its contents can be found all the"
                " same."
            ),
            "block.freed": (
                "**Free is not evict** (lesson 8): it can still be found. The router would forget"
                " too early."
            ),
        },
        because=(
            "Tried on a real run: a follower that forgets on this event alone knows exactly what"
            " the cache knows."
        ),
    )
    spec = L.engine("four behind", num_blocks=16, block_size=4, max_num_seqs=2)
    spec.add("first", list(range(30, 42)), max_tokens=1)
    spec.run()
    spec.add("ada", list(range(30, 42 + 1 + GUESSES)), max_tokens=2)
    yield L.say(
        "Now what vLLM has more, and where it would plug in. **Speculative decoding**: a small"
        " model guesses some tokens, and the large one checks them all in one pass. Weights are"
        " read once for all of them (lesson 12). What would the scheduler have to learn?",
        focus="budget",
    )
    yield L.predict(
        f"Nothing: its rule is to catch up. A sequence has one new token and {GUESSES} guesses"
        " behind what is computed. `ada` here is as far behind. How many tokens is she given?",
        before=spec.step,
        answer=lambda: spec.scheduled("ada"),
        focus="budget",
        unit="token",
        why={
            1: "That is a decode without guesses.",
            GUESSES: "The new token itself goes through, too.",
        },
        because=(
            "In vLLM `num_tokens` is called `num_tokens_with_spec` at this place. Wrong guesses are"
            " taken back afterwards."
        ),
    )
    L.check(
        "everything before was computed already", spec.facts.requests["ada"].num_cached_tokens == 12
    )
    config = engine.loaded.config
    yield L.say(
        "**Many GPUs.** Tensor parallelism gives each GPU some of the heads: of this model's"
        f" {config.num_key_value_heads} key heads, its share of every block. The block tables are"
        " the same for all, so there is one scheduler still. Pipeline parallelism gives each some"
        " of the layers; data parallelism copies the whole engine.",
        focus="blockmap",
    )
    whole, part = (_block_bytes(engine, heads) for heads in (HEADS, HEADS // GPUS))
    yield L.predict(
        f"Give this model {HEADS} key heads, and a block takes {whole:,} bytes. Now put it on"
        f" {GPUS} GPUs with tensor parallelism. How many bytes does a block take on each?",
        answer=lambda: part,
        unit="byte",
        why={
            whole: "Each GPU keeps the keys of its own heads only.",
            whole // HEADS: f"{HEADS} heads over {GPUS} GPUs are {HEADS // GPUS} heads each.",
        },
        otherwise=f"Each GPU keeps {HEADS // GPUS} of the {HEADS} heads.",
        because=(
            "So the same memory on each holds four times the tokens: more GPUs are also more KV"
            " cache."
        ),
    )
    yield L.say(
        "**Other memories**: models with sliding windows or with states instead of keys need blocks"
        " of several kinds (`kv_cache_coordinator.py`); KV connectors move blocks to CPU memory, to"
        " disk, or from a server that only prefills to one that only decodes. It is all about"
        " blocks with names, which you know."
    )
    yield L.say(
        "**Other models**: over a hundred architectures, weights in 8 and 4 bits, LoRA adapters,"
        " pictures and sound, answers forced into a grammar. **Speed**: compiled models,"
        " FlashAttention, a scheduler that plans the next step while this one runs"
        " (`async_scheduler.py`). None of it changes what a step is."
    )
    yield L.predict(
        "And what is the same? Start both without options, on the same machine. How many tokens"
        " does a block hold by default, here and there?",
        answer=lambda: EngineConfig().block_size,
        unit="token",
        why={
            4: "That was for these lessons, so that something happens.",
            1: "Then tables would be as long as texts.",
            256: "Then much of a last block would be empty.",
        },
        otherwise="Large enough for a kernel, small enough to waste little.",
        because=(
            "On most GPUs it is vLLM's default as well; some attention kernels want larger ones."
        ),
    )
    yield L.say(
        "A first evening with vLLM: `vllm serve` with a small model, `minivllm attach --vllm"
        " http://localhost:8000` beside it, and these lessons' questions: is it waiting or running?"
        " How full is the cache? Who was preempted? Then open `vllm/v1/core/sched/scheduler.py`."
        " You have read it before.",
        focus="step_history",
    )


def _eight_come(engine: LessonEngine) -> None:
    for number in range(8):
        engine.add(
            f"p{number}", [20 + (number + index) % 200 for index in range(PROMPT)], max_tokens=4
        )
    engine.step()


def _source(module: str) -> str:
    """The file of vLLM that a module of ours names first."""
    return import_module(module).__doc__.partition("Source: vLLM `")[2].partition("`")[0]


def _use_up(engine: LessonEngine) -> None:
    """Two texts that are remembered, and a third that needs some of their blocks."""
    for first, length in ((30, 8), (60, 8), (90, 12)):
        engine.add(f"text {first}", list(range(first, first + length)), max_tokens=1)
        engine.run()


def _true_follower(engine: LessonEngine) -> str:
    """The event on which one must forget a content, to know at the end exactly what the cache
    knows.
    """
    truth = {block.hash for block in engine.fold.blocks if block.hash is not None}
    right = []
    for name, kind in (
        ("block.released", ev.BlockReleased),
        ("block.freed", ev.BlockFreed),
        ("block.evicted", ev.BlockEvicted),
    ):
        known: dict[int, str] = {}
        for event in engine.events:
            if isinstance(event, ev.BlockHashed):
                known[event.block_id] = event.hash
            elif isinstance(event, kind):
                known.pop(event.block_id, None)
        if set(known.values()) == truth:
            right.append(name)
    return " and ".join(right)


def _block_bytes(engine: LessonEngine, kv_heads: int) -> int:
    """What a block of the engine's model would take, had it so many key heads."""
    from minivllm.runtime.kv_cache import KVCacheSpec

    config = replace(engine.loaded.config, num_key_value_heads=kv_heads)
    return KVCacheSpec.of(config, SIZE, engine.loaded.dtype).bytes_per_block
