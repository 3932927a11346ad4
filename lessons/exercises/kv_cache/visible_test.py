"""The README's examples as tests, for `pytest visible_test.py`."""

from tiny_attention import (
    TinyKVCache,
    TinyModel,
    generate_with_cache,
    generate_without_cache,
    next_token,
    num_tokens_computed,
)

ANSWER = [20, 29, 14, 26]


def test_the_cache_computes_only_what_is_missing():
    model, cache = TinyModel(seed=5), TinyKVCache()
    cache.extend(model, [7, 2])
    assert (len(cache.keys), len(cache.values), model.num_computed) == (2, 2, 2)
    cache.extend(model, [7, 2, 20])
    assert (len(cache.keys), len(cache.values), model.num_computed) == (3, 3, 3)
    assert (cache.keys[2], cache.values[2]) == TinyModel(seed=5).key_and_value(20, 2)


def test_the_last_token_attends_to_the_whole_text():
    model, cache = TinyModel(seed=5), TinyKVCache()
    assert next_token(model, [7, 2], cache) == ANSWER[0]
    assert next_token(model, [7, 2, ANSWER[0]], cache) == ANSWER[1]


def test_both_ways_write_the_same_tokens():
    assert generate_without_cache(TinyModel(seed=5), [7, 2], 4) == ANSWER
    assert generate_with_cache(TinyModel(seed=5), [7, 2], 4) == ANSWER


def test_the_cache_saves_work():
    model = TinyModel(seed=5)
    generate_without_cache(model, [7, 2], 4)
    assert model.num_computed == 14
    model = TinyModel(seed=5)
    generate_with_cache(model, [7, 2], 4)
    assert model.num_computed == 5


def test_the_work_can_be_predicted():
    assert num_tokens_computed(2, 4, has_cache=True) == 5
    assert num_tokens_computed(2, 4, has_cache=False) == 14
