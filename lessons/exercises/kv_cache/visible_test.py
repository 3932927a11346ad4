"""The README's examples as tests, for `pytest visible_test.py`."""

import tiny_attention

ANSWER = [20, 29, 14, 26]


def test_the_cache_computes_only_what_is_missing():
    model, cache = tiny_attention.TinyModel(seed=5), tiny_attention.TinyKVCache()
    cache.extend(model, [7, 2])
    assert (len(cache.keys), len(cache.values), model.num_computed) == (2, 2, 2)
    cache.extend(model, [7, 2, 20])
    assert (len(cache.keys), len(cache.values), model.num_computed) == (3, 3, 3)
    assert (cache.keys[2], cache.values[2]) == tiny_attention.TinyModel(seed=5).key_and_value(20, 2)


def test_the_last_token_attends_to_the_whole_text():
    model, cache = tiny_attention.TinyModel(seed=5), tiny_attention.TinyKVCache()
    assert tiny_attention.next_token(model, [7, 2], cache) == ANSWER[0]
    assert tiny_attention.next_token(model, [7, 2, ANSWER[0]], cache) == ANSWER[1]


def test_both_ways_write_the_same_tokens():
    assert (
        tiny_attention.generate_without_cache(tiny_attention.TinyModel(seed=5), [7, 2], 4) == ANSWER
    )
    assert tiny_attention.generate_with_cache(tiny_attention.TinyModel(seed=5), [7, 2], 4) == ANSWER


def test_the_cache_saves_work():
    model = tiny_attention.TinyModel(seed=5)
    tiny_attention.generate_without_cache(model, [7, 2], 4)
    assert model.num_computed == 14
    model = tiny_attention.TinyModel(seed=5)
    tiny_attention.generate_with_cache(model, [7, 2], 4)
    assert model.num_computed == 5


def test_the_work_can_be_predicted():
    assert tiny_attention.num_tokens_computed(2, 4, has_cache=True) == 5
    assert tiny_attention.num_tokens_computed(2, 4, has_cache=False) == 14
