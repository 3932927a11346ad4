"""Short names of configurations set their own options only."""

from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.configurations import parse_configuration

TRACE = {"max_model_len": 2048, "max_num_batched_tokens": 512, "max_num_seqs": 8}


def test_a_name_sets_its_own_options_and_no_others():
    def config_of(name: str) -> EngineConfig:
        return EngineConfig(**parse_configuration(name).options_for(TRACE))

    static = {"batching": "static", "kv_cache_allocator": "contiguous"}
    assert config_of("static+contiguous") == EngineConfig(**TRACE, **static)
    # Without chunking, a step holds the longest prompt.
    assert config_of("unchunked").max_num_batched_tokens == 2048
    drafts = SpeculativeConfig(method="ngram", num_speculative_tokens=2)
    assert parse_configuration("static+ngram", drafts).options["speculative_config"] is drafts
    assert parse_configuration("plain", drafts).options["speculative_config"] is None
