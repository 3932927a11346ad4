"""The model in the package: its name, its digests, and the same tokens as transformers."""

import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from minivllm import LLM, SamplingParams
from minivllm.cli import main
from minivllm.errors import ModelIntegrityError
from minivllm.runtime.checkpoint.digests import DIGESTS, write_digests
from minivllm.runtime.store import house_model
from minivllm.runtime.store.house_model import FILES, house_checkpoint
from minivllm.runtime.store.model_store import resolve_model

PROMPTS = ["Why is the sky blue?", "Tell me a story about a dragon.", 'zoë ✓ {"a": 42}']


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return shutil.copytree(house_model.FOLDER, tmp_path / "house")


def test_house_is_a_name_for_the_folder_in_the_package_and_needs_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path / "none"))
    assert resolve_model("house") == house_model.FOLDER
    assert not (tmp_path / "none").exists()


def test_transformers_loads_it_and_computes_the_same_greedy_tokens():
    peer = AutoModelForCausalLM.from_pretrained(house_model.FOLDER, dtype=torch.float32).eval()
    peer_tokenizer = AutoTokenizer.from_pretrained(house_model.FOLDER)
    engine = LLM(model="house", dtype="float32", device="cpu", attention_backend="torch")
    for prompt in PROMPTS:
        messages = [{"role": "user", "content": prompt}]
        ids = engine.llm_engine.tokenizer.apply_chat_template(messages)
        assert (
            ids
            == peer_tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
        )
        params = SamplingParams(temperature=0, max_tokens=48)
        (ours,) = engine.generate([{"prompt_token_ids": ids}], params)
        theirs = peer.generate(torch.tensor([ids]), max_new_tokens=48, do_sample=False)
        assert list(ours.outputs[0].token_ids) == theirs[0, len(ids) :].tolist()


@pytest.mark.parametrize("name", FILES)
def test_a_changed_or_missing_file_is_one_sentence_that_says_what_to_do(copied, name):
    damaged = copied / name
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    for remove in (False, True):
        if remove:
            damaged.unlink()
        with pytest.raises(ModelIntegrityError) as caught:
            house_checkpoint(copied)
        assert str(damaged) in str(caught.value)
        assert "install minivllm again" in str(caught.value)


def test_missing_digests_are_reported_as_damage(copied):
    (copied / DIGESTS).unlink()
    with pytest.raises(ModelIntegrityError, match="house model is damaged"):
        house_checkpoint(copied)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_directory_with_digests_is_checked_like_the_package(name, copied):
    with (copied / DIGESTS).open("a") as digests:
        digests.write(f"{'0' * 64} *not-copied.md\n{'0' * 64}  ../{name}\n")
    assert resolve_model(str(copied)) == copied
    content = bytearray((copied / name).read_bytes())
    content[-2] ^= 1
    (copied / name).write_bytes(content)
    with pytest.raises(ModelIntegrityError, match=rf"{name} does not have the digest"):
        resolve_model(str(copied))


def test_the_command_prints_the_damage_as_one_line(copied, monkeypatch, capsys):
    (copied / "model.safetensors").write_bytes(b"short")
    monkeypatch.setattr(house_model.house_checkpoint, "__defaults__", (copied,))
    assert main(["generate", "Hello", "--model", "house"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("minivllm: The house model is damaged")


def test_a_vocabulary_that_lacks_a_byte_is_one_sentence_that_says_what_to_do(copied):
    file = copied / "tokenizer.json"
    # The byte 0xE9 is written as é in a byte-level vocabulary.
    text = file.read_text("utf-8")
    assert text.count('"é":') == 1
    file.write_text(text.replace('"é":', '"éé":'), "utf-8")
    write_digests(copied, FILES)
    with pytest.raises(ModelIntegrityError, match=r"lacks 1 of the 256 bytes.*make house-model"):
        house_checkpoint(copied)


def test_its_files_can_be_read_by_every_user_and_have_five_megabytes_at_most():
    files = [house_model.FOLDER / name for name in (*FILES, DIGESTS)]
    assert sorted(house_model.FOLDER.iterdir()) == sorted(files)
    assert {file.stat().st_mode & 0o444 for file in files} == {0o444}
    assert sum(file.stat().st_size for file in files) <= 5_000_000


def test_any_text_is_encoded_without_loss():
    from minivllm.runtime.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_directory(house_model.FOLDER)
    for text in ("naïve 🙂 日本語\tΩ\n", "".join(map(chr, range(0x20, 0x250)))):
        assert tokenizer.decode(tokenizer.encode(text)) == text
