"""Block hashes are equal exactly where the keys and values are equal."""

import pytest

from minivllm.core.block_math import hash_block_tokens
from minivllm.core.block_pool import short_hash


def test_the_same_tokens_have_the_same_hash_only_after_the_same_prefix():
    first, other = hash_block_tokens(None, [1, 2, 3, 4]), hash_block_tokens(None, [1, 2, 3, 5])
    assert hash_block_tokens(first, [5, 6, 7, 8]) == hash_block_tokens(first, [5, 6, 7, 8])
    assert hash_block_tokens(first, [5, 6, 7, 8]) != hash_block_tokens(other, [5, 6, 7, 8])


@pytest.mark.parametrize(
    "first, other",
    [
        # vllm-mlx #444 hashed `token & 0xFF`.
        (([1, 2], []), ([257, 2], [])),
        (([1], []), ([1], [("salt", "foo")])),
        (([1], [("lora", "foo")]), ([1], [("salt", "foo")])),
        (([1], [("salt", "a"), ("salt", "b")]), ([1], [("salt", "a|salt:1:b")])),
    ],
    ids=["ids over 255", "a key", "the kind of a key", "keys that could run together"],
)
def test_a_small_difference_changes_the_hash(first, other):
    assert hash_block_tokens(None, *first) != hash_block_tokens(None, *other)


def test_a_hash_does_not_change_between_processes_or_versions():
    # Pinned, because recordings store hashes.
    assert short_hash(hash_block_tokens(None, [1, 2, 3, 4])) == "d8faa8ec8c050056"
