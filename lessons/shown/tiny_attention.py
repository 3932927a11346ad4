"""Generation with one layer of attention in plain Python, with a KV cache and without.

    text          the cat sat        the next token?

    for each token    a key and a value, made from the token and its position
    for the last      a query: how much does it match each key?  the weights of a mean
    the mean          of all values; the token that fits it best is the next one

A key and a value never change once they are made. A KV cache keeps them for the next step. The
model counts the tokens that go through it, so that both ways can be compared. A model with more
layers works in the same way: there, keys and values also depend on earlier tokens, but never on
later ones.

The exercise `kv-cache` asks for the functions below `TinyModel`. In the engine, the same is done by
`minivllm/runtime/kv_cache.py` for blocks and by `minivllm/core` for the question what is computed.
"""

import math
from collections.abc import Sequence as Seq
from random import Random

Vector = list[float]

SIZE = 4
"""Numbers in a key, a value and a query."""
MAX_LEN = 64
"""Most tokens in a text."""


class TinyModel:
    """One layer of attention with random weights. The same seed gives the same model."""

    def __init__(self, seed: int, vocab_size: int = 32) -> None:
        random = Random(seed)

        def matrix(rows: int) -> list[Vector]:
            return [[random.gauss(0, 1) for _ in range(SIZE)] for _ in range(rows)]

        self.vocab_size = vocab_size
        self.num_computed = 0
        """How many tokens have gone through the model: calls of `key_and_value`."""
        self._tokens, self._positions = matrix(vocab_size), matrix(MAX_LEN)
        self._next_tokens = matrix(vocab_size)
        self._to_key, self._to_value, self._to_query = matrix(SIZE), matrix(SIZE), matrix(SIZE)

    def key_and_value(self, token_id: int, position: int) -> tuple[Vector, Vector]:
        """Compute what later tokens read of this one.

        position: its place in the text; the first token has position 0
        """
        self.num_computed += 1
        row = self._row(token_id, position)
        return _times(row, self._to_key), _times(row, self._to_value)

    def query(self, token_id: int, position: int) -> Vector:
        """Compute what this token looks for in the tokens up to itself."""
        return _times(self._row(token_id, position), self._to_query)

    def attend(self, query: Vector, keys: Seq[Vector], values: Seq[Vector]) -> Vector:
        """Return the mean of the values. The better a key matches, the more its value counts."""
        scores = [_dot(query, key) / math.sqrt(SIZE) for key in keys]
        best = max(scores)
        weights = [math.exp(score - best) for score in scores]
        total = sum(weights)
        return [
            sum(weight * value[i] for weight, value in zip(weights, values, strict=True)) / total
            for i in range(SIZE)
        ]

    def choose(self, mean: Vector) -> int:
        """Return the token that fits this mean best."""
        fits = [_dot(mean, row) for row in self._next_tokens]
        return fits.index(max(fits))

    def _row(self, token_id: int, position: int) -> Vector:
        pairs = zip(self._tokens[token_id], self._positions[position], strict=True)
        return [token + place for token, place in pairs]


class TinyKVCache:
    """The keys and values of the first tokens of one text. An empty cache knows no token yet."""

    def __init__(self) -> None:
        self.keys: list[Vector] = []
        """By position."""
        self.values: list[Vector] = []
        """By position."""

    def __len__(self) -> int:
        return len(self.keys)

    def extend(self, model: TinyModel, token_ids: Seq[int]) -> None:
        """Compute and append what is missing. Afterwards, each token of the text is in the cache.

        token_ids: the whole text; the cache has the keys and values of its first tokens already,
        perhaps of all and perhaps of none
        """
        for position in range(len(self), len(token_ids)):
            key, value = model.key_and_value(token_ids[position], position)
            self.keys.append(key)
            self.values.append(value)


def next_token(model: TinyModel, token_ids: Seq[int], cache: TinyKVCache) -> int:
    """Return the token after the text. Only tokens that the cache lacks go through the model.

    token_ids: the whole text, at least one token
    """
    cache.extend(model, token_ids)
    query = model.query(token_ids[-1], len(token_ids) - 1)
    return model.choose(model.attend(query, cache.keys, cache.values))


def generate_without_cache(model: TinyModel, prompt: Seq[int], max_tokens: int) -> list[int]:
    """Return `max_tokens` new tokens. Nothing is kept from one token to the next."""
    token_ids = list(prompt)
    for _ in range(max_tokens):
        token_ids.append(next_token(model, token_ids, TinyKVCache()))
    return token_ids[len(prompt) :]


def generate_with_cache(model: TinyModel, prompt: Seq[int], max_tokens: int) -> list[int]:
    """Return `max_tokens` new tokens. No token goes through the model twice."""
    token_ids, cache = list(prompt), TinyKVCache()
    for _ in range(max_tokens):
        token_ids.append(next_token(model, token_ids, cache))
    return token_ids[len(prompt) :]


def num_tokens_computed(num_prompt_tokens: int, max_tokens: int, has_cache: bool) -> int:
    """Predict how many tokens go through the model in a generation; at least 1 of each kind."""
    if has_cache:
        return num_prompt_tokens + max_tokens - 1
    return sum(num_prompt_tokens + number for number in range(max_tokens))


def _dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _times(row: Vector, matrix: list[Vector]) -> Vector:
    return [_dot(row, column) for column in matrix]
