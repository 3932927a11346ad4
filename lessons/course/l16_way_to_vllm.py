"""Lesson 16: what carries over to vLLM, what is only here, and what vLLM has in addition."""

from dataclasses import fields, replace
from importlib import import_module

from minivllm import LLM, SamplingParams, runtime
from minivllm.config import EngineConfig
from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import DIARY, STORIES
from minivllm.lessons.teacher.script import Script, Teacher, lesson

ONLY_HERE = ("kv_cache_allocator", "batching", "batch_delay", "batch_size", "check_invariants")
"""Options that vLLM does not have. The others are arguments of its engine or fields of a config."""
ASKED = ("max_num_seqs", "enable_prefix_caching", "max_num_batched_tokens", "batching")
GPU, MODEL, ALLOWED = 24, 16, 0.9
"""Gigabytes of a GPU and of a model of 8 billion weights in bfloat16; and the share to use."""
CHAT = 300
SIZE = 16
MEMORY_BLOCKS = 40
PROMPT = 100
COMPUTED, LEFT = 12, 4
HEADS, GPUS = 8, 4


@lesson(
    16, "way-to-vllm", "The way to vLLM: what carries over", minutes=10, pages=26,
    needs=("serving", "grammar"),
)  # fmt: skip
def run(L: Teacher) -> Script:
    per_block = L.engine("probe", num_blocks=4, block_size=SIZE).bytes_per_token * SIZE
    engine = L.engine(
        "a KV cache sized in bytes", num_blocks=None, block_size=SIZE,
        kv_cache_memory_bytes=MEMORY_BLOCKS * per_block + per_block // 2, max_num_seqs=8,
        max_num_batched_tokens=1024, enable_prefix_caching=False,
    )  # fmt: skip
    yield from _the_same_names(L)
    yield from _the_same_memory(L, engine, per_block)
    yield from _the_same_files_and_events(L)
    yield from _what_vllm_adds(L, engine)
    yield from _the_same_default(L)


def _the_same_names(L: Teacher) -> Script:
    names = [field.name for field in fields(EngineConfig)]
    L.focus("blockmap")
    yield L.say("""You know the engine now: blocks and tables, a scheduler that catches up, an LRU
        prefix cache. Nearly all of it is vLLM's design, under **vLLM's names**. This lesson ends
        the main track: what carries over to vLLM, and what you will meet there that is not here.
        Two lessons about kernels follow, for those who want them.""")
    L.check("every option that is listed as only here exists", set(ONLY_HERE) <= set(names))
    yield L.predict(
        f"""Options first. `EngineConfig` has {len(names)} options, and {len(ONLY_HERE)} of them are
        not vLLM's. Which of these is one of the {len(ONLY_HERE)}?
        - max_num_seqs: That is the number of batch slots, in vLLM as here.
        - enable_prefix_caching: vLLM has the same prefix cache, and can turn it off.
        - max_num_batched_tokens: That is the token budget, in vLLM as here.
        - batching
        = {", ".join(f"`{name}`" for name in ONLY_HERE)}: the old ways, to compare with, and a
          self-check.""",
        answer=lambda: next(name for name in ASKED if name in ONLY_HERE),
    )
    L.check(
        "there are LLM.generate, LLM.chat and LLM.beam_search",
        all(hasattr(LLM, it) for it in ("generate", "chat", "beam_search")),
    )
    L.check(
        "SamplingParams has n, temperature, top_p, max_tokens, stop and seed",
        bool(SamplingParams(n=2, temperature=0.5, top_p=0.9, max_tokens=4, stop=["."], seed=1)),
    )
    yield L.say("""So a script changes only its import: `from minivllm import LLM, SamplingParams`
        becomes `from vllm import LLM, SamplingParams`. `minivllm serve` becomes `vllm serve`, with
        the same routes under `/v1`, the same option names and the same metrics.""")


def _the_same_memory(L: Teacher, engine: LessonEngine, per_block: int) -> Script:
    yield L.predict(
        f"""A GPU has {GPU} GB. The weights of the model take {MODEL} GB, and
        `gpu_memory_utilization` is {ALLOWED}: the engine may use that share of the GPU. How many GB
        are left for the results of a step and the KV cache?
        - {ALLOWED * GPU}: Some articles say that it is the share for the KV cache. It is the share
          for **everything**, and the weights come first.
        - {GPU - MODEL}: Only {ALLOWED:.0%} of the {GPU} GB may be used.
        - {ALLOWED * (GPU - MODEL)}: It is a share of the whole GPU, not of what is left.
        - else: {ALLOWED} times {GPU} GB, minus the weights.
        = What is left is cut into blocks when the engine starts.""",
        answer=lambda: ALLOWED * GPU - MODEL,
        tolerance=0.02,
    )
    yield L.predict(
        f"""A block of {SIZE} tokens takes {per_block:,} bytes here, and the cache gets room for
        {MEMORY_BLOCKS} and a half of them. 8 users send {PROMPT} tokens each. How many run after
        the first step? [sequence]
        - {MEMORY_BLOCKS * SIZE // PROMPT}: Only whole blocks count: {PROMPT} tokens take
          {-(-PROMPT // SIZE)}.
        - {MEMORY_BLOCKS}: That is the number of blocks, not of users.
        - 8: There are slots for all, but not blocks.
        - else: {MEMORY_BLOCKS} whole blocks, {-(-PROMPT // SIZE)} for each.
        = When vLLM starts, it prints how many requests of the greatest length would fit ("Maximum
          concurrency"). Now you can check it.""",
        before=lambda: _eight_come(engine),
        answer=lambda: len(engine.fold.running),
    )
    L.check(
        f"the half block is not used: the cache has {engine.num_blocks} blocks",
        engine.num_blocks == MEMORY_BLOCKS,
    )


def _the_same_files_and_events(L: Teacher) -> Script:
    yield L.predict(
        """You read vLLM's source and want to know in which order it evicts cached blocks. Where do
        you look?
        - vllm/v1/core/block_pool.py
        - vllm/v1/core/sched/scheduler.py: The scheduler asks for blocks. The pool decides which
          ones it gets: the order of the free queue.
        - vllm/v1/worker/gpu_model_runner.py: The runner carries out a plan, which already has the
          blocks to use.
        = Every file here that follows a file of vLLM names it in its docstring, after `Source:`.
          Read ours first, then vLLM's beside it.""",
        answer=lambda: _source("minivllm.core.block_pool"),
    )
    L.check(
        "our scheduler names vLLM's",
        _source("minivllm.core.scheduler") == "vllm/v1/core/sched/scheduler.py",
    )
    small = L.engine("KV events", num_blocks=6, block_size=4, max_num_seqs=1)
    L.focus("eventlog")
    yield L.say("""vLLM reports decisions too, but fewer. Its KV events
        (`vllm/distributed/kv_events.py`) are for routers, which send a prompt to the server that
        has its beginning in the cache. `BlockStored`: this content can be found here now.
        `BlockRemoved`: no longer.""")
    yield L.predict(
        """Our `block.hashed` says what BlockStored says. Three of our events sound like an end.
        Which one must become `BlockRemoved`?
        - block.released: One owner has released it. Others may hold it, and it can still be found.
        - block.freed: **Free is not evicted** (lesson 8): it can still be found. The router would
          forget it too early.
        - block.evicted
        = Checked on a real run: a router that forgets a block on this event, and on no other, knows
          exactly what the cache holds.""",
        before=lambda: _use_up(small),
        answer=lambda: _true_follower(small),
    )


def _what_vllm_adds(L: Teacher, engine: LessonEngine) -> Script:
    remote = L.engine("a prompt computed elsewhere", num_blocks=16, block_size=4, max_num_seqs=2)
    remote.add("first", remote.tokens(STORIES["ada"], COMPUTED), max_tokens=1)
    remote.run()
    remote.add("ada", COMPUTED + LEFT, max_tokens=2)
    L.focus("budget")
    yield L.say("""Now what vLLM has that minivllm does not, and where it would fit in.
        **Disaggregated prefill**: some servers only compute prompts, and a KV connector moves the
        blocks to others, which only decode. Then a short answer never waits for a long prompt. What
        would the scheduler have to learn?""")
    yield L.predict(
        f"""Little: its rule is to catch up. `ada` has a prompt of {COMPUTED + LEFT} tokens, and the
        blocks of the first {COMPUTED} are here already. How many tokens does she get? [token]
        - {COMPUTED + LEFT}: {COMPUTED} of them need not be computed again.
        - 1: That is a decode, but her prompt is not complete yet.
        = For the scheduler, blocks from another server are like a prefix cache hit
          (`get_num_new_matched_tokens` in vLLM).""",
        before=remote.step,
        answer=lambda: remote.scheduled("ada"),
    )
    L.check(
        "her first tokens were found, not computed",
        remote.facts.requests["ada"].num_cached_tokens == COMPUTED,
    )
    config = engine.loaded.config
    L.focus("blockmap")
    yield L.say(f"""**Many GPUs.** Tensor parallelism gives each GPU some of the heads: of this
        model's {config.num_key_value_heads} key heads, each GPU stores its share in every block.
        The block tables are the same on all, so there is still one scheduler. Pipeline parallelism
        gives each GPU some of the layers; data parallelism copies the whole engine.""")
    whole, part = (_block_bytes(engine, heads) for heads in (HEADS, HEADS // GPUS))
    yield L.predict(
        f"""If this model had {HEADS} key heads, a block would take {whole:,} bytes. Now put it on
        {GPUS} GPUs with tensor parallelism. How many bytes does a block take on each? [byte]
        - {whole}: Each GPU stores only the keys and values of its own heads.
        - {whole // HEADS}: {HEADS} heads over {GPUS} GPUs are {HEADS // GPUS} heads each.
        - else: Each GPU stores {HEADS // GPUS} of the {HEADS} heads.
        = So the same memory on each GPU holds four times the tokens: more GPUs also give more KV
          cache.""",
        answer=lambda: part,
    )
    yield L.say("""**Other kinds of memory.** Models with sliding windows, or with states instead of
        keys, need several kinds of blocks (`kv_cache_coordinator.py`). KV connectors also move
        blocks to CPU memory and to disk. All of it uses blocks with hashes, which you know.""")
    yield L.say("""**Other models**: hundreds of architectures, more formats of weights, LoRA (small
        additions to the weights, one for each customer), images and sound. **Speed**: models
        compiled to fewer kernels, a scheduler that plans the next step while this one runs
        (`async_scheduler.py`). None of it changes what a step is.""")


def _the_same_default(L: Teacher) -> Script:
    yield L.predict(
        f"""And what is the same? Start both without options, on an NVIDIA GPU: a block holds
        {EngineConfig().block_size} tokens in both. How many blocks does a chat of {CHAT:,} tokens
        take in both? [block]
        - {CHAT // EngineConfig().block_size}: The last tokens need a block, too.
        - {CHAT}: A block is not a token.
        - {CHAT // 4}: These lessons used blocks of 4, so that they fill quickly.
        - else: Divide, and round up.
        = So what you know about a chat's memory here is true there.""",
        answer=lambda: _blocks_of_a_chat(L),
    )
    yield L.say("""**And is your text the same?** Here, in float32 on a CPU, other requests never
        change your tokens. A GPU kernel adds in an order that depends on the size of the batch, and
        each order rounds differently. So an answer of vLLM can change with the load, even at
        temperature 0. `VLLM_BATCH_INVARIANT=1` prevents it and costs speed.""")
    L.focus("step_history")
    yield L.say("""A first evening with vLLM: run `vllm serve` with a small model and `--scheduler-cls
        minivllm.vllm.RecordingScheduler`, which records vLLM's decisions, and beside it `minivllm
        attach` with the recording. You know the screen. Ask the questions of these lessons: why
        does a request wait? Who has the blocks? Who was preempted, and for whom? Then open
        `vllm/v1/core/sched/scheduler.py`. You have read it before.""")


def _blocks_of_a_chat(L: Teacher) -> int:
    engine = L.engine("the default block size", num_blocks=32, block_size=EngineConfig().block_size)
    engine.add("chat", engine.tokens(DIARY, PROMPT) * (CHAT // PROMPT), max_tokens=2)
    engine.step()
    return len(engine.table("chat"))


def _eight_come(engine: LessonEngine) -> None:
    for number in range(8):
        engine.add(f"p{number}", engine.tokens(DIARY, PROMPT), max_tokens=4)
    engine.step()


def _source(module: str) -> str:
    """The file of vLLM that the docstring of one of our modules names."""
    return import_module(module).__doc__.partition("Source: vLLM `")[2].partition("`")[0]


def _use_up(engine: LessonEngine) -> None:
    """Run two texts that stay cached, and a third one that needs some of their blocks."""
    for name, length in (("ada", 8), ("bob", 8), ("cleo", 12)):
        engine.add(name, length, max_tokens=1)
        engine.run()


def _true_follower(engine: LessonEngine) -> str:
    """The event on which a router must forget a block, to know what the cache holds at the end."""
    truth = {block.hash for block in engine.fold.blocks if block.hash is not None}
    right, kinds = [], (ev.BlockReleased, ev.BlockFreed, ev.BlockEvicted)
    for name, kind in zip(("block.released", "block.freed", "block.evicted"), kinds, strict=True):
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
    """Bytes of a block if the engine's model had this many key heads."""
    config = replace(engine.loaded.config, num_key_value_heads=kv_heads)
    return runtime.KVCacheSpec.of(config, SIZE, engine.loaded.dtype).bytes_per_block
