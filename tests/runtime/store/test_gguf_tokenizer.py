"""The tokenizer of a GGUF file gives the token ids of llama.cpp."""

import json
from pathlib import Path

import pytest
from support.model import tokenizer_files as files
from transformers import AutoTokenizer

from minivllm.runtime.checkpoint.checkpoint import write_json
from minivllm.runtime.checkpoint.gguf import read_gguf_header
from minivllm.runtime.checkpoint.gguf_tokenizer import SPLIT_RULES, convert_tokenizer
from minivllm.runtime.text.tokenizer import Tokenizer

RECORDED_IDS = json.loads(files.RECORDED.read_text())


def convert(path: Path) -> Tokenizer:
    header = read_gguf_header(path)
    ends = convert_tokenizer(header, path.parent)
    write_json(path.parent / "generation_config.json", {"eos_token_id": ends})
    return Tokenizer.from_directory(path.parent)


@pytest.mark.parametrize("name", [*files.BYTE_LEVEL_RULES, *files.SENTENCEPIECE])
def test_a_tokenizer_gives_the_ids_that_llama_cpp_gave(tmp_path, name):
    files.write_tokenizer(tmp_path / "m.gguf", name)
    tokenizer = convert(tmp_path / "m.gguf")
    found, recorded = files.digests(map(tokenizer.encode, files.TEXTS)), RECORDED_IDS[name]
    places = [i for i, text in enumerate(files.TEXTS) if not files.is_read_roughly(name, text)]
    wrong = [i for i in places if found[4 * i : 4 * i + 4] != recorded[4 * i : 4 * i + 4]]
    assert not wrong and len(places) > 140, [files.TEXTS[i] for i in wrong]


def test_every_rule_that_is_accepted_was_compared():
    assert SPLIT_RULES.keys() == set(files.BYTE_LEVEL_RULES)


@pytest.mark.parametrize("name", ["llama-bpe", "smollm", "llama", "phi-3"])
def test_transformers_reads_the_same_tokenizer_and_its_text_comes_back(tmp_path, name):
    files.write_tokenizer(tmp_path / "m.gguf", name)
    tokenizer, theirs = convert(tmp_path / "m.gguf"), AutoTokenizer.from_pretrained(tmp_path)
    for text in files.TEXTS:
        ids = tokenizer.encode(text)
        assert theirs.encode(text) == ids
        assert theirs.decode(ids) == tokenizer.decode(ids, skip_special_tokens=False)
        if name != "phi-3" and not any(mark in text for mark in ("<", "▁")):
            assert tokenizer.decode(ids) == text


def test_capitals_and_marks_beyond_ascii_are_read_as_the_models_tokenizer_reads_them(tmp_path):
    """Not as llama.cpp does, for which À is a small letter, too, and a mark is no part of a word."""
    tokens = files.write_bpe(tmp_path / "m.gguf", "tekken")
    tokenizer = convert(tmp_path / "m.gguf")
    first, second = (tokens[i] for i in tokenizer.encode("e\u0301a")[1:3])
    assert (first, second) == ("eÌ", "ģa"), "e and the first byte of its accent are one word"


def test_control_tokens_of_any_letters_are_single_tokens(tmp_path):
    """As in DeepSeek-R1-Distill-Qwen."""
    tokens = files.write_bpe(tmp_path / "m.gguf", "deepseek-r1-qwen", add_bos_token=True)
    tokenizer = convert(tmp_path / "m.gguf")
    ids = tokenizer.encode("<｜User｜>a")
    assert [tokens[i] for i in ids] == ["<｜begin▁of▁sentence｜>", "<｜User｜>", "a"]
    assert tokenizer.vocab_size == len(tokens), "no token was added"


@pytest.mark.parametrize("pre, bos", [("llama-bpe", True), ("tekken", True), ("qwen2", False)])
def test_bos_comes_first_where_llama_cpp_adds_it_and_the_file_decides_otherwise(tmp_path, pre, bos):
    files.write_bpe(tmp_path / "m.gguf", pre)
    assert (convert(tmp_path / "m.gguf").encode("a")[0] == 4) is bos
    files.write_bpe(tmp_path / "m.gguf", pre, add_bos_token=not bos)
    assert (convert(tmp_path / "m.gguf").encode("a")[0] == 4) is not bos


def test_a_word_in_the_vocabulary_needs_no_merges_in_llama_3(tmp_path):
    tokens = files.write_bpe(tmp_path / "m.gguf", "llama-bpe")
    assert [tokens[i] for i in convert(tmp_path / "m.gguf").encode(" whole")[1:]] == ["Ġwhole"]
    tokens = files.write_bpe(tmp_path / "m.gguf", "dbrx")
    assert len(convert(tmp_path / "m.gguf").encode(" whole")) > 1


def test_each_end_token_that_llama_cpp_knows_ends_an_answer(tmp_path):
    tokens = files.write_bpe(tmp_path / "m.gguf", "qwen2", eot_token_id=3, eom_token_id=5)
    ends = convert(tmp_path / "m.gguf").eos_token_ids
    by_text = {"<|endoftext|>", "<|im_end|>", "<｜begin▁of▁sentence｜>"} & set(tokens[:3])
    assert ends == {tokens.index(text) for text in by_text} | {3, 5}


def test_sentencepiece_without_ids_has_its_usual_special_tokens(tmp_path):
    files.write_sentencepiece(tmp_path / "m.gguf", bos_token_id=None, eos_token_id=None)
    tokenizer = convert(tmp_path / "m.gguf")
    assert tokenizer.named_tokens == {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    assert tokenizer.encode("")[0] == 1 and 2 in tokenizer.eos_token_ids
