"""The triton backend on random batches and shared prefixes, in int8, and with fused operations."""

import pytest
import support.model.needs_triton  # noqa: F401
from runtime.attention import test_stored_kv as stored_kv
from runtime.attention.test_triton_backend import VERSIONS, check, one_thread
from runtime.model.test_custom_ops import check_fused
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


@pytest.mark.parametrize(
    ("version", "kind"),
    [("grouped", stored_kv.INT8), ("static", stored_kv.INT8), ("split", stored_kv.BF16)],
)
def test_other_versions_read_and_write_a_smaller_cache_as_torch_does(version, kind):
    stored_kv.test_triton_reads_and_writes_what_torch_does(version, kind)


@interpreted
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("gemma3-heads-of-16", "all"),
        *(("qwen3", asked) for asked in ("rms_norm", "rotary_and_cache", "silu_and_mul")),
    ],
)
def test_operations_in_triton_give_the_logits_of_the_plain_decoder(name, asked):
    check_fused(name, "triton", asked)
