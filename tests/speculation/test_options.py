"""`speculative_config`: vLLM's names, and one sentence at the door for what cannot work."""

import json
import shutil

import pytest
from support.engine.engine_fakes import WatchedEngine, prompt

from minivllm.cli import main
from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import ConfigError, InvalidSamplingParamsError
from minivllm.runtime import kv_cache
from minivllm.runtime.loader import load_model

NGRAM = {"method": "ngram", "num_speculative_tokens": 4}
DRAFT = {"method": "draft_model", "model": "tiny-random", "num_speculative_tokens": 4}

REFUSED = {
    "k of 0": (NGRAM | {"num_speculative_tokens": 0}, "must be a whole number, at least 1; got 0"),
    "k over a block": (NGRAM | {"num_speculative_tokens": 17}, r"at most block_size \(16\)"),
    "an unknown method": (NGRAM | {"method": "eagle"}, "must be one of ngram, draft_model"),
    "an unknown field": (NGRAM | {"draft": 1}, r"may have model, prompt_lookup_max, .*'draft'"),
    "no draft model": (DRAFT | {"model": None}, "draft_model needs a model"),
    "a model for a lookup": (DRAFT | {"method": "ngram"}, "ngram uses no model"),
    "a shortest lookup over the longest": (
        NGRAM | {"prompt_lookup_max": 2, "prompt_lookup_min": 3},
        r"prompt_lookup_min \(3\) must be at most prompt_lookup_max \(2\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_value_is_refused_in_one_sentence(case: str) -> None:
    given, why = REFUSED[case]
    with pytest.raises(ConfigError, match=why) as refused:
        EngineConfig(speculative_config=given)
    assert str(refused.value).startswith("speculative_config") and "\n" not in str(refused.value)


def test_without_lengths_the_lookup_takes_five_tokens_and_one_length_stands_for_both() -> None:
    def lengths(**given: int) -> tuple[int, int]:
        config = SpeculativeConfig.of(NGRAM | given)
        return config.prompt_lookup_min, config.prompt_lookup_max

    assert lengths() == (5, 5)
    assert lengths(prompt_lookup_max=3) == lengths(prompt_lookup_min=3) == (3, 3)
    assert lengths(prompt_lookup_min=1, prompt_lookup_max=4) == (1, 4)


@pytest.mark.parametrize("door", [["generate", "hello"], ["serve"]], ids=lambda door: door[0])
def test_the_command_line_takes_json_and_says_in_one_line_what_is_wrong_with_it(door, capsys):
    for text, why in (
        ('{"method": "eagle"}', "must have the fields method and num_speculative_tokens"),
        ("ngram", "must be a JSON object"),
        ("[" * 100_000, "must be a JSON object"),
    ):
        assert main([*door, "--speculative-config", text]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("minivllm: --speculative-config") and why in line
        assert len(line) < 300


def test_a_beam_search_is_refused_and_samples_are_not() -> None:
    engine = WatchedEngine(speculative_config=NGRAM)
    with pytest.raises(InvalidSamplingParamsError, match="drafts cannot stand in for it"):
        engine.add("beams", prompt(3), n=2, use_beam_search=True)
    engine.add("samples", prompt(3), n=2)
    assert len(engine.run()["samples"].outputs) == 2


def test_a_draft_model_with_another_vocabulary_is_refused(tiny_random_path) -> None:
    config = EngineConfig(
        model="house", device="cpu", num_gpu_blocks_override=8, speculative_config=DRAFT
    )
    with pytest.raises(ConfigError, match="tiny-random has another vocabulary than house"):
        LLMEngine.from_config(config)


def test_a_draft_model_with_more_embeddings_is_refused(tiny_random_path, tmp_path):
    """The tokenizers are equal: checkpoints often pad their embeddings, to different sizes."""
    padded = shutil.copytree(tiny_random_path, tmp_path / "padded")
    config = json.loads((padded / "config.json").read_text())
    size = config["vocab_size"]
    (padded / "config.json").write_text(json.dumps(config | {"vocab_size": size + 5}))
    for model, draft in ((tiny_random_path, padded), (padded, tiny_random_path)):
        config = EngineConfig(
            model=str(model), device="cpu", load_format="dummy", num_gpu_blocks_override=8,
            speculative_config=DRAFT | {"model": str(draft)},
        )  # fmt: skip
        with pytest.raises(ConfigError, match=f"embeddings for ({size} tokens|{size + 5} tokens)"):
            LLMEngine.from_config(config)


def test_the_draft_models_cache_counts_when_memory_is_checked(monkeypatch) -> None:
    options = {"model": "tiny-random", "device": "cpu", "num_gpu_blocks_override": 100}
    model = load_model(EngineConfig(**options))
    of_one = model.kv_cache_spec(16).bytes_per_block
    monkeypatch.setattr(kv_cache, "available_cpu_memory", lambda: 150 * of_one)
    LLMEngine.from_model(EngineConfig(**options), model)
    with pytest.raises(ConfigError, match=r"100 blocks needs .* of which the draft model needs"):
        LLMEngine.from_model(EngineConfig(**options, speculative_config=DRAFT), model)
