"""The triton backend on random batches and shared prefixes, and with a cache in int8."""

import pytest
import support.model.needs_triton  # noqa: F401
from runtime.attention import test_stored_kv as stored_kv
from runtime.attention.test_triton_backend import VERSIONS, check, one_thread
from support.model.attention_cases import SHARING, StepCase, random_case
from support.model.needs import INTERPRETED, interpreted

__all__ = ["one_thread"]

pytestmark = [] if INTERPRETED else [pytest.mark.gpu]


@pytest.mark.parametrize("name", SHARING)
def test_all_ways_to_share_blocks_match_the_reference(name):
    check(StepCase(SHARING[name]))


@pytest.mark.parametrize("seed", range(10))
def test_random_batches_with_random_sharing_match_the_reference(seed):
    seqs, options = random_case(seed)
    check(StepCase(seqs, **options), VERSIONS[seed % len(VERSIONS)])


@interpreted
@pytest.mark.parametrize("version", ["grouped", "static"])
def test_the_other_versions_read_and_write_int8_as_torch_does(version):
    stored_kv.test_triton_reads_and_writes_what_torch_does(version, stored_kv.INT8)
