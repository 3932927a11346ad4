"""Lesson 2: what the KV cache keeps, what that saves, and what it costs."""

from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson

PROMPT = list(range(20, 32))
WANTED = 8


@lesson(2, "kv-cache", "The KV cache: what it saves and how it grows", minutes=9, needs=("tokens",))
def run(L: Teacher) -> Script:
    engine = L.engine(
        "with its cache",
        num_blocks=8,
        block_size=4,
        max_num_batched_tokens=64,
        max_num_seqs=2,
        enable_prefix_caching=False,
    )
    engine.add("ada", PROMPT, max_tokens=WANTED)
    length = len(PROMPT)

    yield L.say(
        "Attention lets each token look back at all tokens before it: at a **key**, to see whether"
        " it matters, and at a **value**, to take something from it. Keys and values of a token"
        " never change later. So they are computed once and kept: the **KV cache**.",
        focus="blockmap",
    )
    yield L.predict(
        f"`ada` has a prompt of {length} tokens. After the first step, of how many tokens does the"
        " cache hold keys and values?",
        before=engine.step,
        answer=lambda: engine.sequence("ada").num_computed_tokens,
        unit="token",
        why={
            length + 1: (
                "The new token was sampled at the end of the pass: it has not been through the"
                " model itself."
            ),
            1: (
                "The new token is one, but it is the tokens that went through the model that left"
                " something behind."
            ),
            0: "The cache is filled while the prompt is read, not after it.",
        },
        because="The newest token is always one ahead of the cache.",
    )
    L.check(
        f"ada has {length + 1} tokens, {length} of them in the cache",
        engine.num_tokens("ada") == length + 1,
    )
    yield L.predict(
        f"ada gets {WANTED} tokens in all. How many tokens, of prompt and answer together, will"
        " have gone through the model by then?",
        before=engine.run,
        answer=lambda: engine.tokens_computed,
        focus="step_history",
        unit="token",
        why={
            length + WANTED: (
                "Almost: the last token is sampled and the answer is complete, so nobody needs its"
                " keys and values."
            ),
            WANTED: "The prompt had to go through as well.",
            WANTED
            * (
                length + WANTED
            ): "That would be every token at every step, as if nothing had been kept.",
        },
        because=f"{length} of the prompt, then one for each of the other {WANTED - 1} steps.",
    )
    with_cache = engine.tokens_computed
    answer = engine.output_tokens("ada")
    L.check("each token went through the model once", with_cache == length + WANTED - 1)

    forgetful = L.engine(
        "that forgets",
        num_blocks=8,
        block_size=4,
        max_num_batched_tokens=64,
        max_num_seqs=2,
        enable_prefix_caching=False,
    )
    yield L.say(
        "Now without keeping anything. A second engine gets the same prompt, but after each token"
        " the request ends and its cache is given back; then the whole text so far is sent again,"
        " as a new prompt.",
        focus="step_history",
    )
    again: list[int] = []
    yield L.predict(
        f"{WANTED} requests for one token each, with prompts of {length}, {length + 1}, ..."
        f" {length + WANTED - 1} tokens. How many tokens go through the model now?",
        before=lambda: again.extend(_without_cache(forgetful)),
        answer=lambda: forgetful.tokens_computed,
        unit="token",
        tolerance=0.1,
        why={
            with_cache: "That was with the cache. Now every step begins at the first token.",
            WANTED * length: "The text grows: each request is one token longer than the last.",
        },
        because=lambda: (
            f"{forgetful.tokens_computed / with_cache:.1f} times the work for the same {WANTED}"
            " tokens."
        ),
    )
    L.check("the forgetful engine wrote the same tokens", again == answer)
    yield L.say(
        "And these are short texts. With 1,000 tokens of answer it would be"
        f" {_forgotten(length, 1000):,} tokens against {length + 999:,}: without the cache the work"
        " grows with the **square** of the length. This is the first of two prices; the other one"
        " is memory."
    )
    config = engine.loaded.config
    layers, heads, size, width = (
        config.num_hidden_layers,
        config.num_key_value_heads,
        config.head_size,
        engine.loaded.dtype.itemsize,
    )
    yield L.predict(
        f"This model has {layers} layers, {heads} key/value heads of {size} numbers, {width} bytes"
        " a number. How many bytes does one token take in the cache?",
        answer=lambda: engine.bytes_per_token,
        unit="byte",
        why={
            layers * heads * size * width: "Keys and values: both are kept, so twice that.",
            2 * heads * size * width: "Every layer has keys and values of its own.",
            2 * layers * heads * size: "Those are the numbers; each takes several bytes.",
        },
        because="2 (key and value) × layers × heads × size × bytes.",
    )
    large = 2 * 32 * 8 * 128 * 2
    yield L.say(
        "A model of 8 billion parameters (32 layers, 8 heads of 128, 2 bytes) takes"
        f" {large // 1024} KiB a token: a chat of 8,192 tokens is {large * 8192 / 2**30:.0f} GiB."
        " So it is memory that limits how many people an engine serves at once, and the rest of"
        " this course is about it."
    )
    engine.add("bob", PROMPT, max_tokens=WANTED)
    engine.step()
    L.show(engine, focus="blockmap")
    yield L.predict(
        f"Back to the first engine: `bob` has read his prompt and writes {WANTED - 1} more tokens,"
        " one a step. How does his cache grow?",
        before=lambda: engine.step(WANTED - 2),
        answer=lambda: _growth(engine, "bob", len(PROMPT), WANTED - 2),
        choices=("by one token a step", "by his whole text a step", "not at all"),
        why={
            "by his whole text a step": (
                "That is what is read in each step; written is only what is new."
            ),
            "not at all": "Each new token leaves its own key and value in every layer.",
        },
        because="A cache grows with the text, and nobody knows beforehand how long that will be.",
    )
    yield L.predict(
        "In the next step bob's answer is complete. How many blocks will be in use after it?",
        before=engine.run,
        answer=lambda: engine.num_used,
        unit="block",
        why={
            len(PROMPT) // 4 + 2: "The request is over: nobody needs its keys and values to go on."
        },
        otherwise="With the request its keys and values lose their owner.",
        because=(
            "The next lesson shows how servers gave out this memory before paging, and what was"
            " lost by it."
        ),
    )
    L.check("all memory is free again", engine.num_free == engine.num_blocks)


def _without_cache(engine: LessonEngine) -> list[int]:
    """The answer token by token, each from a request of its own."""
    tokens: list[int] = []
    for number in range(WANTED):
        engine.add(f"ada-{number}", PROMPT + tokens, max_tokens=1)
        engine.run()
        tokens += engine.output_tokens(f"ada-{number}")
    return tokens


def _forgotten(prompt: int, answer: int) -> int:
    """Tokens that go through the model if each token of the answer begins at the first."""
    return sum(prompt + number for number in range(answer))


def _growth(engine: LessonEngine, name: str, before: int, steps: int) -> str:
    grown = engine.sequence(name).num_computed_tokens - before
    return {0: "not at all", steps: "by one token a step"}.get(grown, "by his whole text a step")
