"""The tokenizer matches `transformers`: ids, text and end tokens."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from transformers import AutoTokenizer

from minivllm.errors import InvalidRequestError, ModelIntegrityError
from minivllm.runtime.store.provenance import HOUSE_FOLDER
from minivllm.runtime.text.tokenizer import Tokenizer

TEXTS = [
    "", "  leading and trailing  ", "line\nline\n\n\ttab  spaces   12345 3.14",
    "Héllo, wörld! 你好，世界 🤗👩‍👩‍👧 e\u0301 \ufffd \x00",
    "<|im_start|>user\nHi<|im_end|>", "def f(x):\n    return x ** 2  # it's code", "a" * 3000,
]  # fmt: skip


def write_llama3_like(directory: Path) -> Path:
    """A tokenizer with BOS, truncation and padding in its file, and its template in the config."""
    directory.mkdir()
    special = ["<|begin|>", "<|end|>", "<|eot|>"]
    vocab = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġt", "he", "Ġthe"]
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]
    backend = Backend(models.BPE(vocab={token: i for i, token in enumerate(vocab)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    # <|eot|> is not special in the file, but tokenizer_config.json names it.
    backend.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in special[:2]]
    )
    backend.add_tokens([AddedToken("<|eot|>", special=False, normalized=False)])
    backend.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", 0)]
    )
    backend.enable_truncation(5)
    backend.enable_padding(length=8)
    backend.save(str(directory / "tokenizer.json"))
    template = (
        "{{ bos_token }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] | trim }}{{"
        " eos_token }}{% endfor %}"
    )
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>", "pad_token": None,
        "eos_token": {"content": "<|eot|>", "__type": "AddedToken", "special": True},
        "chat_template": [
            {"name": "tool_use", "template": "no"}, {"name": "default", "template": template},
        ],
    }  # fmt: skip
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "config.json").write_text(json.dumps({"model_type": "llama", "eos_token_id": 1}))
    return directory


MODELS = ["house", "tiny-random", "llama3-like"]


@pytest.fixture(scope="module")
def directories(tiny_random_path, tmp_path_factory) -> dict[str, Path]:
    llama3_like = write_llama3_like(tmp_path_factory.mktemp("tokenizers") / "llama3")
    paths = (HOUSE_FOLDER, tiny_random_path, llama3_like)
    return dict(zip(MODELS, paths, strict=True))


@pytest.fixture(scope="module")
def ours(directories) -> dict[str, Tokenizer]:
    return {name: Tokenizer.from_directory(directory) for name, directory in directories.items()}


@pytest.fixture(scope="module")
def theirs(directories):
    return {
        name: AutoTokenizer.from_pretrained(directory) for name, directory in directories.items()
    }


@pytest.mark.parametrize("model", MODELS)
def test_ids_are_those_of_transformers(ours, theirs, model):
    for text in TEXTS:
        expected = theirs[model](text, truncation=False, padding=False).input_ids
        assert ours[model].encode(text) == expected


@pytest.mark.parametrize("model", MODELS)
@given(data=st.data(), skip=st.booleans())
@settings(max_examples=30)
def test_text_is_that_of_transformers_for_any_ids(ours, theirs, model, data, skip):
    ids = data.draw(st.lists(st.integers(0, ours[model].vocab_size - 1), max_size=30))
    assert ours[model].decode(ids, skip) == theirs[model].decode(ids, skip_special_tokens=skip)


# ---- the end of an answer ----


def copied(source: Path, directory: Path, **changes: object) -> Path:
    for file in source.glob("*.json"):
        shutil.copy(file, directory)
    for name, contents in changes.items():
        (directory / f"{name}.json").write_text(json.dumps(contents))
    return directory


@pytest.mark.parametrize(
    "generation_config, config, expected",
    [
        ({"eos_token_id": [7, 9]}, {"eos_token_id": 8}, {2, 7, 9}),
        ({}, {"eos_token_id": 8}, {2, 8}), (None, {"eos_token_id": [8]}, {2, 8}),
        ({"eos_token_id": None}, {}, {2}),
    ],
)  # fmt: skip
def test_end_tokens_are_gathered_from_all_three_files(
    tmp_path, tiny_random_path, generation_config, config, expected
):
    directory = copied(
        tiny_random_path, tmp_path, config=config, generation_config=generation_config or {}
    )
    if generation_config is None:
        (directory / "generation_config.json").unlink()
    assert Tokenizer.from_directory(directory).eos_token_ids == expected


def test_a_token_that_the_config_names_is_special_even_if_the_vocabulary_disagrees(ours):
    tokenizer = ours["llama3-like"]
    assert tokenizer.eos_token_ids == {1, 2}
    assert tokenizer.decode([2, 3 + 65], skip_special_tokens=True) == tokenizer.decode([3 + 65])
    assert tokenizer.is_silent(2, skip_special_tokens=True)


# ---- bad input ----


@pytest.mark.parametrize("text", ["ok \udc80", None, ["a"]])
def test_a_prompt_that_is_not_valid_unicode_is_refused(ours, text):
    with pytest.raises(InvalidRequestError, match="string of valid Unicode"):
        ours["house"].encode(text)


@pytest.mark.parametrize(
    "name, contents",
    [("tokenizer.json", "{}"), ("tokenizer_config.json", "[1]"), ("generation_config.json", "{")],
)
def test_a_damaged_file_is_named(tmp_path, tiny_random_path, name, contents):
    (copied(tiny_random_path, tmp_path) / name).write_text(contents)
    with pytest.raises(ModelIntegrityError, match=name.replace(".", r"\.")):
        Tokenizer.from_directory(tmp_path)


def test_a_pattern_that_takes_too_long_refuses_the_text(tmp_path, tiny_random_path):
    # The library panics, and a Rust panic is no Exception in Python.
    state = json.loads((tiny_random_path / "tokenizer.json").read_text())
    pattern = {"Regex": "(a+)+$"}
    split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, state["pre_tokenizer"]]}
    directory = copied(tiny_random_path, tmp_path, tokenizer=state)
    tokenizer = Tokenizer.from_directory(directory)
    with pytest.raises(InvalidRequestError, match="cannot split this text"):
        tokenizer.encode("a" * 40 + "b")
    assert tokenizer.encode("b")


def test_ids_beyond_the_embedding_are_in_no_vocabulary_and_end_nothing(tmp_path, tiny_random_path):
    config = {"vocab_size": 200, "eos_token_id": 7}
    directory = copied(
        tiny_random_path, tmp_path, config=config,
        generation_config={"eos_token_id": [9, 200, 1 << 62]},
    )  # fmt: skip
    (directory / "tokenizer_config.json").unlink()
    tokenizer = Tokenizer.from_directory(directory)
    assert (tokenizer.eos_token_ids, tokenizer.vocab_size) == ({9}, 200)
