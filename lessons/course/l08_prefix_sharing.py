"""Lesson 8: prompts with the same prefix share blocks; the hash chain, freeing and evicting."""

from minivllm.events import types as ev
from minivllm.lessons.shown.drawings import chains, prompt_hashes
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import RULES, STORIES
from minivllm.lessons.teacher.script import Script, Teacher, lesson

SIZE = 4
SHARED = 12
"""Tokens of the rules, with which all prompts begin: three blocks."""
OWN = 3
"""Tokens of a request that come after the rules."""
SHARED_BLOCKS = SHARED // SIZE
CALLS = 10
GROWTH = 2 * SIZE
"""Tokens by which an agent's prompt grows with each call: an answer and a tool's result."""


@lesson(
    8, "prefix-sharing", "Prefix sharing: the hash chain, freeing and evicting", minutes=12,
    pages=31, needs=("block-tables",),
)  # fmt: skip
def run(L: Teacher) -> Script:
    engine = L.engine("shared prefixes", num_blocks=24, block_size=SIZE, max_num_seqs=4)
    yield from _shared_blocks(L, engine)
    yield from _the_hash_chain(L, engine)
    yield from _free_is_not_evicted(L, engine)
    yield from _an_agent(L)
    yield from _evicted_in_order(L)


def _shared_blocks(L: Teacher, engine: LessonEngine) -> Script:
    engine.add("ada", _prompt(engine, " A block is"), max_tokens=14)
    L.focus("blockmap")
    yield L.say(f"""Most prompts of a service begin alike: the same instructions, the same document,
        the same conversation history. Without sharing, the model computes the same keys and values
        every time. Here `ada`'s prompt begins with {SHARED} tokens of rules; then come {OWN} tokens
        of her own.""")
    engine.step()
    L.check(
        f"ada's prompt fills {SHARED_BLOCKS} blocks and part of one more",
        len(engine.table("ada")) == SHARED_BLOCKS + 1,
    )
    engine.add("bob", _prompt(engine, " A slot is"), max_tokens=6)
    yield L.predict(
        f"""While ada is being answered, `bob` sends the same {SHARED} tokens of rules and {OWN} of
        his own. How many of his {SHARED + OWN} prompt tokens go through the model? [token]
        - {SHARED + OWN}: The rules are in the cache: ada's blocks hold these keys and values.
        - 0: His own tokens have not been sent before.
        - 1: All {OWN} tokens of his own are new.
        = His first {SHARED_BLOCKS} blocks **are** ada's: the same physical blocks, not copies.""",
        before=engine.step,
        answer=lambda: engine.scheduled("bob"),
        focus="slots",
    )
    shared = engine.table("ada")[:SHARED_BLOCKS]
    L.check(f"both block tables begin with {shared}", engine.table("bob")[:SHARED_BLOCKS] == shared)
    L.check(
        "each of these blocks has two owners",
        all(engine.fold.blocks[block].ref_cnt == 2 for block in shared),
    )
    yield L.predict(
        f"""ada's table has {len(engine.table("ada"))} entries, and bob's has
        {len(engine.table("bob"))}. How many blocks of memory do the two hold together? [block]
        - {len(engine.table("ada")) + len(engine.table("bob"))}: Both tables list the shared blocks,
          but these exist only once.
        - {SHARED_BLOCKS}: Those are the shared ones. Each request also has a block of its own.
        = Each block counts its owners in `ref_cnt`. It is free when the last owner releases it.""",
        answer=lambda: engine.num_used,
    )


def _the_hash_chain(L: Teacher, engine: LessonEngine) -> Script:
    L.focus("prefix_tree")
    yield L.say("""How does the engine know what a block holds? Every **full** block gets a hash:
        SHA-256 over **the hash of the block before it and its own tokens**. A new prompt is cut
        into blocks, their hashes are computed, and each is looked up. The search ends at the first
        miss.""")
    prompt = _prompt(engine, " A block is")
    (another,) = engine.tokens(STORIES["bob"], 1)
    engine.add("cleo", [another, *prompt[1:]], max_tokens=2)
    yield L.predict(
        f"""`cleo` sends ada's prompt, but with another first token. The other 14 tokens are the
        same, in the same places. How many blocks does she find? [block]
        - {SHARED_BLOCKS - 1}: They hold the same tokens, but not the same keys and values.
        - {SHARED_BLOCKS}: Her first block already differs.
        - 1: None of her blocks has the same tokens before it.
        = A token's keys and values depend on **all tokens before it**. So does the hash, because
          the hashes form a chain.""",
        before=engine.step,
        answer=lambda: _found(engine, "cleo"),
    )
    engine.add("dan", [*prompt[:5], another, *prompt[6:]], max_tokens=2)
    yield L.predict(
        f"""`dan` changes token number 5, counted from 0. Blocks hold {SIZE} tokens. How many blocks
        does he find? [block]
        - 0: Tokens 0 to {SIZE - 1} are the same: block 0.
        - {SHARED_BLOCKS - 1}: Block 1 holds token 5, so its hash differs. Block 2 has another block
          before it, so its hash differs too.
        - else: Only whole blocks are found, counted from the start.
        = Only whole blocks from the start are shared. So put what changes, like the date, at the
          **end** of a prompt.""",
        before=engine.step,
        answer=lambda: _found(engine, "dan"),
    )
    missed = [event for event in engine.events_of(ev.BlockMissed) if event.seq_id == "dan.0"][-1]
    L.check(
        f"dan's search ended at block {missed.logical}, whose hash was never seen before",
        missed.why == "never_seen",
    )
    ada, dan = (prompt_hashes(engine, name) for name in ("ada", "dan"))
    L.check(
        "ada's and dan's hashes agree in block 0 and in no other",
        [hers == his for hers, his in zip(ada, dan, strict=True)] == [True, False, False],
    )
    yield L.say(
        """The chains of `ada` and `dan`, from the first digits of their hashes. Block 2 has the
        same tokens in both, and still two hashes: it says what is in the block **and** in all
        blocks before it.""",
        figure=chains(engine, ("ada", "dan")),
        diagram="hash-chain",
    )


def _free_is_not_evicted(L: Teacher, engine: LessonEngine) -> Script:
    engine.run()
    yield L.predict(
        f"""All requests have ended and released their blocks. How many of the {engine.num_blocks}
        blocks are free? [block]
        - {engine.num_blocks - SHARED_BLOCKS}: A cached block needs no owner: these are free, too.
        - 0: A block without an owner is free.
        - else: A request that ends releases all its blocks.
        = All of them could be allocated at once. Now watch.""",
        answer=lambda: engine.num_free,
    )
    engine.add("eve", _prompt(engine, " A token is"), max_tokens=2)
    yield L.predict(
        f"""`eve` sends the same rules. No request holds these blocks any more. How many of them
        does she find? [block]
        - 0: The blocks were freed, but not overwritten: contents and hashes are still there.
        - else: The rules fill {SHARED_BLOCKS} whole blocks.
        = **Free is not evicted**: a block loses its hash only when it is allocated again. So the
          prefix cache costs no extra memory: it is the old contents of free blocks.""",
        before=engine.step,
        answer=lambda: _found(engine, "eve"),
    )
    hits = [event for event in engine.events_of(ev.BlockHit) if event.seq_id == "eve.0"]
    L.check(
        "eve took these blocks from the middle of the free queue",
        all(event.was_free for event in hits),
    )
    engine.run()
    engine.add("finn", engine.tokens(RULES, SHARED), max_tokens=2)
    yield L.predict(
        f"""`finn` sends only the rules: {SHARED} tokens, {SHARED_BLOCKS} full blocks, all in the
        cache. How many tokens go through the model in his first step? [token]
        - 0: Keys and values are not enough: the prediction comes from the last token's own pass.
        - {SIZE}: vLLM computes that whole block again; here one token is enough.
        - {SHARED}: Their keys and values are already in the cache.
        = The last token must go through the model to predict the next one. Its keys and values are
          not written again.""",
        before=engine.step,
        answer=lambda: engine.scheduled("finn"),
        focus="slots",
    )
    engine.run()
    yield from _no_answers_in_the_cache(L, engine)
    engine.add("spy", _prompt(engine, " A block is"), max_tokens=2, cache_salt="another company")
    engine.step()
    L.focus("eventlog")
    yield L.say("""A cache leaks through timing: an unusually fast first token reveals that someone
        sent this text before. So a request can have a `cache_salt`. It goes into the hash of the
        first block and, through the chain, into all the others. `spy` sent exactly ada's prompt,
        with another salt.""")
    L.check("spy found nothing of ada's prompt", _found(engine, "spy") == 0)


def _no_answers_in_the_cache(L: Teacher, engine: LessonEngine) -> Script:
    """finn has just been served."""
    engine.add("gil", engine.tokens(RULES, SHARED), max_tokens=2)
    yield L.predict(
        """`gil` sends exactly finn's request, and finn's answer of 2 tokens was written a moment
        ago. How many tokens of gil's answer come out of the cache? [token]
        - 2: The cache keeps keys and values of tokens. It keeps no answers.
        - 1: Each token of an answer is sampled anew.
        - else: Each token of an answer is sampled anew.
        = A prefix cache is not a response cache: it saves the prefill, and never a decode.""",
        before=engine.run,
        answer=lambda: 2 - len(engine.output_tokens("gil")),
        focus="finished",
    )


def _an_agent(L: Teacher) -> Script:
    options = {"num_blocks": 32, "block_size": SIZE, "max_num_seqs": 1}
    without = L.engine("an agent, no cache", enable_prefix_caching=False, **options)
    _call_again_and_again(without)
    total = _prompt_tokens_computed(without)
    agent = L.engine("an agent", **options)
    yield L.predict(
        f"""An agent calls the model, runs a tool, and calls again with all so far, the model's
        answer and the tool's result: {CALLS} calls, each {GROWTH} tokens longer. Their prompts have
        {GROWTH}, {2 * GROWTH}, ... {CALLS * GROWTH} tokens, {total} in all. How many of the {total}
        go through the model? [token]
        - {total}: That is without a prefix cache. Each prompt begins with the one before it.
        - {GROWTH}: That is one call. Each of the calls brings as many new tokens.
        - 0: Each call brings an answer and a tool's result that no prompt had before.
        = {GROWTH} a call. Without the cache, 20 calls need nearly 4 times the work of 10.""",
        before=lambda: _call_again_and_again(agent),
        answer=lambda: _prompt_tokens_computed(agent),
        focus="finished",
    )
    yield L.say("""This is money. A machine that costs 2 dollars an hour and computes 1,000 tokens a
        second makes 3.6 million tokens in that hour: **0.56 dollars for a million tokens**. A token
        that is found in the cache takes almost no time, so it costs almost nothing.""")


def _evicted_in_order(L: Teacher) -> Script:
    small = L.engine("a pool of 6 blocks", num_blocks=6, block_size=SIZE, max_num_seqs=2)
    small.add("ada", small.tokens(RULES, SHARED), max_tokens=1)
    small.run()
    L.focus("freequeue")
    yield L.say(f"""Now memory is short: {small.num_blocks} blocks. ada's {SHARED_BLOCKS} are free
        but still cached. Look at the panel Free queue: uncached blocks are at its front and are
        used first. ada's blocks are at the back, **her last block before her first**.""")
    yield L.predict(
        f"""`bob` sends {16 // SIZE} blocks of other text. Only 3 blocks are uncached, so one of
        ada's is evicted for him. Then `cleo` sends the rules again. How many blocks does she find?
        [block]
        - 0: Without the first block of the chain, nothing would be found. So the last block is
          evicted first.
        - {SHARED_BLOCKS}: One of them was evicted.
        - 1: Only one was evicted.
        = A block table is released from its end, so the end of a prefix is reused first. What is
          left is still a prefix.""",
        before=lambda: _bob_then_cleo(small),
        answer=lambda: _found(small, "cleo"),
        focus="prefix_tree",
    )
    L.check(
        "one block of ada's was evicted for bob",
        [event.step for event in small.events_of(ev.BlockEvicted)][:1] == [2],
    )
    lru = L.engine("eviction order", num_blocks=8, block_size=SIZE, max_num_seqs=1)
    yield L.predict(
        """A last case, with 8 blocks. ada came, then bob with another text, then ada again with
        hers: each has two blocks in the cache. Now a request needs 5 blocks, and 4 are uncached.
        Whose block is evicted?
        - ada's: Hers were computed first but used again later: her second visit moved them to the
          back of the queue.
        - bob's
        = The least recently **used** block is evicted first (LRU). There is no clock and no
          counter: the order of the free queue is the policy.""",
        before=lambda: _three_visits_and_a_push(lru),
        answer=lambda: "bob's" if _found_after(lru, "ada") == 2 else "ada's",
        focus="freequeue",
    )
    L.check("ada's second visit found both of her blocks", _found(lru, "ada again") == 2)
    yield L.say("""In the code: hashes in `minivllm/core/block_math.py`, the free queue and
        `BlockPool.release` in `minivllm/core/block_pool.py`, the search in
        `KVCacheManager.get_computed_blocks`. In vLLM, with the same names:
        `vllm/v1/core/block_pool.py`, `kv_cache_utils.py` (`hash_block_tokens`),
        `kv_cache_manager.py`.""")
    yield L.say("""Try it: `minivllm demo --scenario shared-prefix`, then again with
        `--no-enable-prefix-caching`. Here only full blocks were shared, so no sequence ever wrote
        into a shared block. What if two sequences share a block that is half full? That is the next
        lesson.""")


def _found(engine: LessonEngine, name: str) -> int:
    return engine.facts.requests[name].num_cached_tokens // engine.block_size


def _prompt(engine: LessonEngine, own: str) -> list[int]:
    """The rules, and then the first tokens of a text of one's own."""
    return engine.tokens(RULES, SHARED) + engine.tokens(own, OWN)


def _call_again_and_again(engine: LessonEngine) -> None:
    """Send what an agent sends: in each call, all text so far and a tool's new result."""
    text = engine.tokens(RULES, GROWTH)
    tools = engine.tokens(STORIES["ada"] + STORIES["bob"], CALLS * SIZE)
    for call in range(1, CALLS + 1):
        engine.add(f"call {call}", text, max_tokens=SIZE)
        engine.run()
        text = text + engine.output_tokens(f"call {call}") + tools[-SIZE * call :][:SIZE]


def _prompt_tokens_computed(engine: LessonEngine) -> int:
    steps = engine.events_of(ev.StepScheduled)
    return sum(step.num_tokens for step in steps if step.kind != "decode")


def _bob_then_cleo(engine: LessonEngine) -> None:
    """Run a text that evicts one block of the rules, and then the rules again."""
    engine.add("bob", 16, max_tokens=1)
    engine.run()
    engine.add("cleo", _prompt(engine, " A slot is"), max_tokens=1)
    engine.step()


def _three_visits_and_a_push(engine: LessonEngine) -> None:
    """Run two texts of two blocks, the first one again, then a text that evicts one block."""
    for name in ("ada", "bob", "ada again"):
        engine.add(name, 2 * SIZE, max_tokens=1)
        engine.run()
    engine.add("cleo", 5 * SIZE, max_tokens=1)
    engine.run()


def _found_after(engine: LessonEngine, name: str) -> int:
    """How many of the two blocks of a text are still cached."""
    engine.add("look", engine.tokens(STORIES[name], 2 * SIZE + 1), max_tokens=1)
    engine.run()
    return _found(engine, "look")
