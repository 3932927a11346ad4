"""Checks for kv-cache: random models and texts; which positions are computed, how many keys read.

The order in which a step computes its tokens is left open, so positions are sorted.
"""

from typing import Any

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour, nearly
from minivllm.lessons.shown import tiny_attention

VOCABULARY = 32


def _text(draw: Draw, least: int, most: int) -> list[int]:
    return draw.list_of(lambda d: d.integer(0, VOCABULARY - 1), least, most)


def _watched_model(seed: int) -> Any:
    """A model that notes what is asked of it: positions, by step, and the keys that are read."""

    class WatchedModel(tiny_attention.TinyModel):
        def __init__(self) -> None:
            super().__init__(seed, VOCABULARY)
            self.new: list[int] = []
            self.steps: list[str] = []

        def key_and_value(self, token_id: int, position: int) -> Any:
            self.new.append(position)
            return super().key_and_value(token_id, position)

        def attend(self, query: Any, keys: Any, values: Any) -> Any:
            self.steps.append(f"computes the tokens at {sorted(self.new)}, reads {len(keys)} keys")
            self.new = []
            return super().attend(query, keys, values)

    return WatchedModel()


@behaviour(
    task=1,
    cases=lambda draw: {
        "seed": draw.integer(0, 999),
        "parts": draw.list_of(lambda d: _text(d, 0, 4), 1, 4),
    },
    agree=nearly(1e-9),
)
def extends(case: Case) -> Lines:
    """the cache gets each key and value once, at its own position

    How many tokens has the cache already? Which position has the first one that is missing?
    """
    model, cache = _watched_model(case["seed"]), tiny_attention.TinyKVCache()
    text: list[int] = []
    for part in case["parts"]:
        text += part
        cache.extend(model, list(text))
        yield f"text {text}: {len(cache.keys)} keys, {len(cache.values)} values"
        yield f"    tokens at {sorted(model.new)} went through the model"
        model.new = []
        for name, rows in (("keys", cache.keys), ("values", cache.values)):
            yield f"    {name} | {' '.join(f'{number:.9g}' for row in rows for number in row)}"


@behaviour(
    task=2,
    cases=lambda draw: {
        "seed": draw.integer(0, 999),
        "text": _text(draw, 1, 8),
        "cached": draw.integer(0, 7),
    },
    examples=80,
)
def attends(case: Case) -> Lines:
    """the last token attends to the whole text, itself included

    How many keys must the last token's query be compared with, and which position has it?
    """
    # The cache is filled with the model's own keys: a wrong `extend` must not fail here first.
    text, cache = case["text"], tiny_attention.TinyKVCache()
    cached = text[: case["cached"] % len(text)]
    pairs = [
        tiny_attention.TinyModel(case["seed"], VOCABULARY).key_and_value(*pair[::-1])
        for pair in enumerate(cached)
    ]
    cache.keys, cache.values = [key for key, _ in pairs], [value for _, value in pairs]
    model = _watched_model(case["seed"])
    chosen = tiny_attention.next_token(model, list(text), cache)
    yield f"text {text}, {len(cached)} tokens cached: {model.steps}"
    yield f"next token {chosen}; cached afterwards: {len(cache.keys)}"


def _generation(draw: Draw) -> Case:
    return {
        "seed": draw.integer(0, 999),
        "prompt": _text(draw, 1, 6),
        "max_tokens": draw.integer(1, 7),
    }


def _generate(case: Case, name: str) -> Lines:
    model = _watched_model(case["seed"])
    tokens = getattr(tiny_attention, name)(model, list(case["prompt"]), case["max_tokens"])
    yield f"prompt {case['prompt']}, max_tokens {case['max_tokens']}"
    yield from (f"    token {number}: {step}" for number, step in enumerate(model.steps, 1))
    yield f"    tokens {list(tokens)}; {model.num_computed} went through the model"


@behaviour(task=3, cases=_generation)
def generates_without(case: Case) -> Lines:
    """without a cache, the whole text goes through the model for each token

    Which tokens go through the model for the second new token, if nothing was kept?
    """
    yield from _generate(case, "generate_without_cache")


@behaviour(task=4, cases=_generation)
def generates_with(case: Case) -> Lines:
    """with a cache, no token goes through the model twice

    Find the first step that computes something else. Which tokens are in the cache there?
    """
    yield from _generate(case, "generate_with_cache")


@behaviour(
    task=5,
    cases=lambda draw: {
        "prompt": draw.integer(1, 300),
        "max_tokens": draw.integer(1, 300),
        "has_cache": draw.boolean(),
    },
    examples=80,
)
def predicts(case: Case) -> Lines:
    """the prediction of the work is what happens

    Write down the tokens of each step for 2 prompt tokens and 3 new ones, and add them up.
    """
    has_cache = case["has_cache"]
    number = tiny_attention.num_tokens_computed(case["prompt"], case["max_tokens"], has_cache)
    way = "with" if has_cache else "without"
    yield f"{case['prompt']} prompt tokens, {case['max_tokens']} new, {way} a cache: {number}"
