"""Short names of configurations set their own options only."""

import pytest

from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.configurations import PARTS, parse_configuration
from minivllm.errors import ConfigError

TRACE = {"max_model_len": 2048, "max_num_batched_tokens": 512, "max_num_seqs": 8}


def config_of(name: str) -> EngineConfig:
    return EngineConfig(**parse_configuration(name).options_for(TRACE))


def test_a_name_sets_its_own_options_and_no_others():
    config = config_of("static+contiguous")
    assert config == EngineConfig(**TRACE, batching="static", kv_cache_allocator="contiguous")
    for part in set(PARTS) - {"draft_model"}:
        assert config_of(part).max_num_seqs == 8
    # Without chunking, a step holds the longest prompt.
    assert config_of("unchunked").max_num_batched_tokens == 2048
    assert config_of("chunked").max_num_batched_tokens == 512


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("static+", "the unknown part ''"),
        ("static+buddy", "the unknown part 'buddy': use continuous"),
        ("draft_model", "draft model: use minivllm compare with --speculative-config"),
        ("static+continuous", "static and continuous exclude each other"),
    ],
)
def test_a_bad_name_is_refused(name, sentence):
    with pytest.raises(ConfigError, match=sentence):
        parse_configuration(name)


@pytest.mark.parametrize("method", ["ngram", "draft_model"])
def test_drafts_belong_to_the_part_of_their_method(method):
    model = {"model": "house"} if method == "draft_model" else {}
    drafts = SpeculativeConfig(method=method, num_speculative_tokens=2, **model)
    assert parse_configuration(f"static+{method}", drafts).options["speculative_config"] is drafts
    assert parse_configuration("plain", drafts).options["speculative_config"] is None
