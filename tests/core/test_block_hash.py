"""Block names: equal exactly where the keys and values are equal."""

from hypothesis import given
from hypothesis import strategies as st

from minivllm.core.block_math import hash_block_tokens, short_hash

BLOCK = st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4)


def test_the_same_tokens_after_the_same_past_have_the_same_name():
    parent = hash_block_tokens(None, [1, 2, 3, 4])
    assert hash_block_tokens(parent, [5, 6, 7, 8]) == hash_block_tokens(parent, [5, 6, 7, 8])


def test_the_same_tokens_after_another_past_have_another_name():
    one, other = hash_block_tokens(None, [1, 2, 3, 4]), hash_block_tokens(None, [1, 2, 3, 5])
    assert hash_block_tokens(one, [5, 6, 7, 8]) != hash_block_tokens(other, [5, 6, 7, 8])


@given(BLOCK, BLOCK)
def test_different_tokens_have_different_names(one, other):
    assert (hash_block_tokens(None, one) == hash_block_tokens(None, other)) == (one == other)


def test_token_ids_over_255_are_not_truncated():
    # vllm-mlx #444 hashed `token & 0xFF`.
    assert hash_block_tokens(None, [1, 2]) != hash_block_tokens(None, [257, 2])


def test_an_extra_key_of_one_kind_is_not_the_same_value_of_another_kind():
    salt = hash_block_tokens(None, [1], [("salt", "foo")])
    assert (
        len({salt, hash_block_tokens(None, [1], [("lora", "foo")]), hash_block_tokens(None, [1])})
        == 3
    )


def test_extra_keys_cannot_run_into_one_another():
    one = hash_block_tokens(None, [1], [("salt", "a"), ("salt", "b")])
    assert one != hash_block_tokens(None, [1], [("salt", "a|salt:1:b")])


def test_a_name_does_not_change_between_processes_or_versions():
    # Pinned: recordings made today must mean the same tomorrow.
    assert short_hash(hash_block_tokens(None, [1, 2, 3, 4])) == "d8faa8ec8c050056"
