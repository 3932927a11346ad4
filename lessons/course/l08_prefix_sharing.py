"""Lesson 8: prompts that begin alike share blocks; the hash chain; a freed block is not a forgotten
one.
"""

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson

SIZE = 4
RULES = list(range(30, 42))
"""What all prompts begin with: three blocks of tokens."""
SHARED_BLOCKS = len(RULES) // SIZE


@lesson(
    8,
    "prefix-sharing",
    "Prefix sharing: the hash chain, freeing and evicting",
    minutes=11,
    needs=("block-tables",),
)
def run(L: Teacher) -> Script:
    engine = L.engine("sharing", num_blocks=24, block_size=SIZE, max_num_seqs=4)
    engine.add("ada", [*RULES, 100, 101, 102], max_tokens=14)
    yield L.say(
        "Most prompts of a service begin alike: the same instructions, the same document, the talk"
        " so far. Each time the model would compute the same keys and values. Here `ada`'s prompt"
        f" begins with {len(RULES)} tokens of rules, and then asks her question, 3 tokens.",
        focus="blockmap",
    )
    engine.step()
    L.check(
        f"ada's prompt fills {SHARED_BLOCKS} blocks and a part of one more",
        len(engine.table("ada")) == SHARED_BLOCKS + 1,
    )
    engine.add("bob", [*RULES, 110, 111, 112], max_tokens=6)
    yield L.predict(
        f"`bob` comes with the same {len(RULES)} tokens of rules and 3 of his own, while ada is"
        f" being answered. How many of his {len(RULES) + 3} prompt tokens go through the model?",
        before=engine.step,
        answer=lambda: engine.scheduled("bob"),
        focus="slots",
        unit="token",
        why={
            len(RULES)
            + 3: "The rules are in the cache: ada's blocks hold exactly these keys and values.",
            0: "Nobody has sent his question before.",
            1: "His question is new, all of it.",
        },
        because=(
            f"His first {SHARED_BLOCKS} blocks **are** ada's: not copies, the same block numbers."
        ),
    )
    shared = engine.table("ada")[:SHARED_BLOCKS]
    L.check(f"both block tables begin with {shared}", engine.table("bob")[:SHARED_BLOCKS] == shared)
    L.check(
        "each of these blocks has two owners",
        all(engine.fold.blocks[block].ref_cnt == 2 for block in shared),
    )
    yield L.predict(
        f"ada's table has {len(engine.table('ada'))} entries, and bob's has"
        f" {len(engine.table('bob'))}. How many blocks of memory do the two hold together?",
        answer=lambda: engine.num_used,
        unit="block",
        why={
            len(engine.table("ada"))
            + len(engine.table("bob")): "Both tables list the shared blocks; they exist once.",
            SHARED_BLOCKS: "Those are the shared ones. Each has a block of its own too.",
        },
        because="Each block counts its owners: `ref_cnt`. It is free when the last one has let go.",
    )
    yield L.say(
        "How does the engine know that a block holds the right thing? Every **full** block gets a"
        " name, a hash: SHA-256 over **the name of the block before it and its own tokens**. A new"
        " prompt is cut into blocks, their names are computed, and each is looked up. The first"
        " that is missing ends the search.",
        focus="prefix_tree",
    )
    engine.add("cleo", [99, *RULES[1:], 100, 101, 102], max_tokens=2)
    yield L.predict(
        "`cleo` sends ada's prompt with one token changed: the very first. The other 14 are the"
        " same, in the same places. How many blocks does she find?",
        before=engine.step,
        answer=lambda: _found(engine, "cleo"),
        focus="prefix_tree",
        unit="block",
        why={
            SHARED_BLOCKS - 1: "They hold the same tokens, but not the same keys and values.",
            SHARED_BLOCKS: "The first differs already.",
            1: "No block of hers has the same tokens before it.",
        },
        because=(
            "A token's keys and values depend on **all tokens before it**; so does the name: it is"
            " a chain."
        ),
    )
    engine.add("dan", [*RULES[:5], 99, *RULES[6:], 100], max_tokens=2)
    yield L.predict(
        f"`dan` changes token number 5, counted from 0. Blocks hold {SIZE} tokens. How many blocks"
        " does he find?",
        before=engine.step,
        answer=lambda: _found(engine, "dan"),
        unit="block",
        why={
            0: f"Tokens 0 to {SIZE - 1} are the same: block 0.",
            2: "The second block holds token 5, so its name differs.",
            SHARED_BLOCKS - 1: "All behind the changed block have another parent, so other names.",
        },
        otherwise="Only whole blocks are found, from the beginning on.",
        because=(
            "Sharing goes from the start and by whole blocks. So put what changes, like the date,"
            " at the **end** of a prompt."
        ),
    )
    missed = [event for event in engine.events_of(ev.BlockMissed) if event.seq_id == "dan.0"][-1]
    L.check(
        f"dan's search ended at block {missed.logical}, which was never seen",
        missed.why == "never_seen",
    )
    engine.run()
    yield L.predict(
        "Everybody has gone home; all have let go of their blocks. How many of the"
        f" {engine.num_blocks} blocks are free?",
        answer=lambda: engine.num_free,
        unit="block",
        why={
            engine.num_blocks - SHARED_BLOCKS: (
                "Being in the cache is no ownership: these are free as well."
            ),
            0: "A block without an owner is free.",
        },
        otherwise="Whoever ends lets go of all blocks.",
        because="All of them could be handed out at once. Now watch.",
    )
    engine.add("eve", [*RULES, 120, 121, 122], max_tokens=2)
    yield L.predict(
        "`eve` comes with the same rules. Nobody holds these blocks any more. How many of them does"
        " she find?",
        before=engine.step,
        answer=lambda: _found(engine, "eve"),
        focus="prefix_tree",
        unit="block",
        why={0: "Freed, but nobody has overwritten them: contents and names are still there."},
        otherwise=f"The rules fill {SHARED_BLOCKS} whole blocks.",
        because=(
            "**Free is not evict**: a block loses its name only when it is handed out to somebody"
            " else. The cache costs no memory: it is what free memory still remembers."
        ),
    )
    hits = [event for event in engine.events_of(ev.BlockHit) if event.seq_id == "eve.0"]
    L.check(
        "eve took these blocks from the middle of the free queue",
        all(event.was_free for event in hits),
    )
    engine.run()
    engine.add("finn", RULES, max_tokens=2)
    yield L.predict(
        f"`finn` sends the rules alone: {len(RULES)} tokens, {SHARED_BLOCKS} full blocks, all in"
        " the cache. How many tokens go through the model in his first step?",
        before=engine.step,
        answer=lambda: engine.scheduled("finn"),
        focus="slots",
        unit="token",
        why={
            0: (
                "Keys and values are not enough: what comes next is predicted from the last token's"
                " own pass."
            ),
            SIZE: "vLLM computes that whole block again; here one token is enough.",
            len(RULES): "Their keys and values are there already.",
        },
        because=(
            "The last token must go through for its prediction; its keys and values are not written"
            " again."
        ),
    )
    engine.run()
    engine.add("spy", [*RULES, 100, 101, 102], max_tokens=2, cache_salt="another company")
    engine.step()
    L.check(
        "spy, with a cache_salt of their own, found nothing of ada's prompt",
        _found(engine, "spy") == 0,
    )
    yield L.say(
        "A cache can be felt: a fast first token tells that somebody sent this text before. So a"
        " request may bring a `cache_salt`, which goes into the name of its first block and, by the"
        " chain, into all. `spy` sent ada's very prompt with another salt.",
        focus="eventlog",
    )
    small = L.engine("a small pool", num_blocks=6, block_size=SIZE, max_num_seqs=2)
    small.add("ada", RULES, max_tokens=1)
    small.run()
    yield L.say(
        f"Now memory gets short: {small.num_blocks} blocks. ada's {SHARED_BLOCKS} are free and"
        " remembered. Look at the free queue: blocks that remember nothing stand at its front and"
        " go first, hers wait at the back, **her last block before her first**.",
        focus="freequeue",
    )
    yield L.predict(
        f"`bob` comes with {16 // SIZE} blocks of other text and goes: 3 blocks are empty, so one"
        " of ada's is evicted for him. Then `cleo` sends the rules again. How many blocks does she"
        " find?",
        before=lambda: _bob_then_cleo(small),
        answer=lambda: _found(small, "cleo"),
        focus="prefix_tree",
        unit="block",
        why={
            0: (
                "If the first had gone, all would be lost: the chain begins there. So the last went"
                " first."
            ),
            SHARED_BLOCKS: "One is gone.",
            1: "Only one is gone.",
        },
        because=(
            "A table is released from its tail, so the tail of a prefix is reused first, and what"
            " is left is still a prefix."
        ),
    )
    L.check(
        "one block of ada's was evicted for bob",
        [event.step for event in small.events_of(ev.BlockEvicted)][:1] == [2],
    )
    lru = L.engine("who goes first", num_blocks=8, block_size=SIZE, max_num_seqs=1)
    yield L.predict(
        "A last one, on 8 blocks. ada came, then bob with another text, then ada once more with"
        " hers: two blocks each are remembered. Now somebody needs 5, and 4 remember nothing. Whose"
        " block is evicted?",
        before=lambda: _three_visits_and_a_push(lru),
        answer=lambda: "bob's" if _found_after(lru, 30) == 2 else "ada's",
        choices=("ada's", "bob's"),
        focus="freequeue",
        why={
            "ada's": (
                "Hers were computed first, but used again later: her visit put them at the back of"
                " the queue."
            )
        },
        because=(
            "Least recently **used** goes first, LRU. No clock and no counter: the order of the"
            " free queue is the policy."
        ),
    )
    L.check("ada's second visit had found both of her blocks", _found(lru, "ada again") == 2)
    yield L.say(
        "In the code: names in `minivllm/core/block_math.py`, the free queue and"
        " `BlockPool.release` in `minivllm/core/block_pool.py`, the search in"
        " `KVCacheManager.get_computed_blocks`. In vLLM: `vllm/v1/core/block_pool.py`,"
        " `kv_cache_utils.py` (`hash_block_tokens`), `kv_cache_manager.py`. Same names, same"
        " order."
    )
    yield L.say(
        "To play: `minivllm demo --scenario shared-prefix`, once more with"
        " `--no-enable-prefix-caching`. Here only full blocks were shared, so nobody ever wrote"
        " into a shared one. What if two sequences share a block that is half full? That is the"
        " next lesson."
    )


def _found(engine: LessonEngine, name: str) -> int:
    """Blocks that the prefix cache gave to a request when it was let in."""
    return engine.facts.requests[name].num_cached_tokens // engine.block_size


def _bob_then_cleo(engine: LessonEngine) -> None:
    """Another text that needs one block more than there are empty ones, and then the rules
    again.
    """
    engine.add("bob", list(range(200, 216)), max_tokens=1)
    engine.run()
    engine.add("cleo", [*RULES, 7], max_tokens=1)
    engine.step()


def _three_visits_and_a_push(engine: LessonEngine) -> None:
    """Two texts of two blocks, the first one used again; then somebody who needs one block more
    than there are empty ones.
    """
    for name, first in (("ada", 30), ("bob", 60), ("ada again", 30)):
        engine.add(name, list(range(first, first + 2 * SIZE)), max_tokens=1)
        engine.run()
    engine.add("cleo", list(range(100, 100 + 5 * SIZE)), max_tokens=1)
    engine.run()


def _found_after(engine: LessonEngine, first: int) -> int:
    """How much of a text of two blocks, and one token more, is still there."""
    engine.add("look", list(range(first, first + 2 * SIZE + 1)), max_tokens=1)
    engine.run()
    return _found(engine, "look")
