"""Lesson 2: what the KV cache keeps, what that saves, and what it costs."""

from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import STORIES
from minivllm.lessons.teacher.script import Script, Teacher, lesson

PROMPT = 12
WANTED = 8


@lesson(
    2, "kv-cache", "The KV cache: what it saves and how it grows", minutes=9, pages=17,
    needs=("tokens",),
)  # fmt: skip
def run(L: Teacher) -> Script:
    engine = L.engine(
        "with a KV cache", num_blocks=8, block_size=4, max_num_batched_tokens=64, max_num_seqs=2,
        enable_prefix_caching=False,
    )  # fmt: skip
    yield from _work_saved(L, engine)
    yield from _bytes_of_a_token(L, engine)
    yield from _growing_and_freed(L, engine)


def _work_saved(L: Teacher, engine: LessonEngine) -> Script:
    engine.add("ada", _prompt(engine), max_tokens=WANTED)
    length = PROMPT
    L.focus("blockmap")
    yield L.say("""Attention lets each token look back at all tokens before it: at a **key**, to see
        how relevant that token is, and at a **value**, to take information from it. No token looks
        ahead, so the keys and values of a token never change. The engine computes them once and
        stores them: the **KV cache**.""")
    yield L.predict(
        f"""`ada` has a prompt of {length} tokens. After the first step, how many tokens have their
        keys and values in the cache? [token]
        - {length + 1}: A new token does not enter the cache when it is sampled, but one step later.
        - 1: Only one token is new, but every token that went through the model left its keys and
          values.
        - 0: The cache is filled while the prompt is processed, not afterwards.
        = Token {length + 1} has been sampled but has not been through the model, so it has no key
          and value yet. The cache is always one token behind the text.""",
        before=engine.step,
        answer=lambda: engine.sequence("ada").num_computed_tokens,
    )
    L.check(
        f"ada has {length + 1} tokens, {length} of them in the cache",
        engine.num_tokens("ada") == length + 1,
    )
    yield L.predict(
        f"""ada gets {WANTED} tokens. When her answer is complete, how many tokens, of prompt and
        answer together, will have gone through the model? [token]
        - {length + WANTED}: Almost. When the last token is sampled the answer is complete, so its
          keys and values are not needed.
        - {WANTED}: The prompt had to go through the model too.
        - {WANTED * (length + WANTED)}: That would be every token in every step, as if nothing were
          stored.
        = {length} tokens of the prompt, then one in each of the other {WANTED - 1} steps.""",
        before=engine.run,
        answer=lambda: engine.tokens_computed,
        focus="step_history",
    )
    with_cache = engine.tokens_computed
    answer = engine.output_tokens("ada")
    L.check("each token went through the model only once", with_cache == length + WANTED - 1)

    forgetful = L.engine(
        "without a KV cache", num_blocks=8, block_size=4, max_num_batched_tokens=64, max_num_seqs=2,
        enable_prefix_caching=False,
    )  # fmt: skip
    yield L.say("""Now without a cache. A second engine gets the same prompt, but after each token
        the request ends and its keys and values are dropped. Then the whole text so far is sent
        again, as a new prompt.""")
    again: list[int] = []
    yield L.predict(
        f"""That makes {WANTED} requests for one token each, with prompts of {length}, {length + 1},
        ... {length + WANTED - 1} tokens. How many tokens go through the model now? [token]
        - {with_cache}: That was with the cache. Now every step starts again at the first token.
        - {WANTED * length}: The text grows: each prompt is one token longer.""",
        before=lambda: again.extend(_without_cache(forgetful)),
        answer=lambda: forgetful.tokens_computed,
        tolerance=0.1,
        because=lambda: (
            f"{forgetful.tokens_computed / with_cache:.1f} times the work for the same {WANTED}"
            " tokens."
        ),
    )
    L.check("both engines wrote the same tokens", again == answer)
    yield L.say(f"""And these texts are short. An answer of 1,000 tokens would take
        {sum(range(length, length + 1000)):,} tokens of work instead of {length + 999:,}: without the cache,
        the work grows with the **square** of the length. The cache saves this work, but it costs
        memory.""")


def _bytes_of_a_token(L: Teacher, engine: LessonEngine) -> Script:
    config = engine.loaded.config
    layers, heads, size, width = (
        config.num_hidden_layers,
        config.num_key_value_heads,
        config.head_size,
        engine.loaded.dtype.itemsize,
    )
    yield L.predict(
        f"""Each of the {layers} layers runs attention {heads} times side by side, in **key/value
        heads**. In each head, a token has a key of {size} numbers and a value of {size}. Here a
        number takes {width} bytes, whatever the type of the weights. How many bytes does one token
        take in the cache? [byte]
        - {layers * heads * size * width}: Key and value are both stored: twice that.
        - {2 * heads * size * width}: Every layer has its own keys and its own values.
        - {2 * layers * heads * size}: That is how many numbers there are; each takes {width} bytes.
        = 2 (key and value) × layers × heads × size × bytes.""",
        answer=lambda: engine.bytes_per_token,
    )
    large = 2 * 32 * 8 * 128 * 2
    yield L.say(
        f"""A model of 8 billion parameters (32 layers, 8 heads of 128, 2 bytes) takes
        {large // 1024} KiB per token: a chat of 8,192 tokens takes {large * 8192 / 2**30:.0f} GiB.
        So memory limits how many users an engine can serve at once. Much of this course is about
        that memory.""",
        diagram="kv-cache",
    )


def _growing_and_freed(L: Teacher, engine: LessonEngine) -> Script:
    engine.add("bob", PROMPT, max_tokens=WANTED)
    engine.step()
    L.show(engine, focus="blockmap")
    yield L.predict(
        f"""Back to the first engine. `bob`'s prompt has been processed, and he gets {WANTED - 1}
        more tokens, one per step. How does his cache grow?
        - by one token per step
        - by his whole text per step: Each step reads the keys and values of his whole text, but
          writes only those of the new token.
        - not at all: Each new token adds its own key and value in every layer.
        = The cache grows with the text, and the final length is not known in advance.""",
        before=lambda: engine.step(WANTED - 2),
        answer=lambda: _growth(engine, "bob", PROMPT, WANTED - 2),
    )
    yield L.predict(
        f"""After the next step bob's answer is complete. For how many tokens will the cache keep
        keys and values for him then? [token]
        - {PROMPT + WANTED}: The request has ended, so its keys and values are not needed.
        - {PROMPT + WANTED - 1}: The request has ended, so its keys and values are not needed.
        - else: When a request ends, its memory is freed.
        = A request that has ended needs no memory. The next lesson shows how servers allocated it
          before paging, and how much they wasted.""",
        before=engine.run,
        answer=lambda: engine.num_used * engine.block_size,
    )
    L.check("all memory is free again", engine.num_free == engine.num_blocks)


def _prompt(engine: LessonEngine) -> list[int]:
    return engine.tokens(STORIES["ada"], PROMPT)


def _without_cache(engine: LessonEngine) -> list[int]:
    """The answer token by token, each from a new request."""
    tokens: list[int] = []
    for number in range(WANTED):
        engine.add(f"ada-{number}", _prompt(engine) + tokens, max_tokens=1)
        engine.run()
        tokens += engine.output_tokens(f"ada-{number}")
    return tokens


def _growth(engine: LessonEngine, name: str, before: int, steps: int) -> str:
    grown = engine.sequence(name).num_computed_tokens - before
    return {0: "not at all", steps: "by one token per step"}.get(
        grown, "by his whole text per step"
    )
