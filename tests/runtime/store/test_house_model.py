"""The model in the package: its name, its digests, and its vocabulary."""

import shutil
from pathlib import Path

import pytest

from minivllm.errors import ModelIntegrityError
from minivllm.runtime.checkpoint.digests import DIGESTS, write_digests
from minivllm.runtime.store import house_model
from minivllm.runtime.store.house_model import FILES, house_checkpoint
from minivllm.runtime.store.model_store import resolve_model
from minivllm.runtime.text.tokenizer import Tokenizer


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return shutil.copytree(house_model.FOLDER, tmp_path / "house")


def change_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_house_is_a_name_for_the_folder_in_the_package_and_needs_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path / "none"))
    assert resolve_model("house") == house_model.FOLDER
    assert not (tmp_path / "none").exists()
    files = [house_model.FOLDER / name for name in (*FILES, DIGESTS)]
    assert sum(file.stat().st_size for file in files) <= 5_000_000


@pytest.mark.parametrize("name", FILES)
def test_a_changed_or_missing_file_is_one_sentence_that_says_what_to_do(copied, name):
    damaged = copied / name
    change_a_byte(damaged)
    for remove in (False, True):
        if remove:
            damaged.unlink()
        with pytest.raises(ModelIntegrityError, match="install minivllm again") as caught:
            house_checkpoint(copied)
        assert str(damaged) in str(caught.value)
    (copied / DIGESTS).unlink()
    with pytest.raises(ModelIntegrityError, match="house model is damaged"):
        house_checkpoint(copied)


def test_a_directory_with_digests_is_checked_like_the_package(copied):
    with (copied / DIGESTS).open("a") as digests:
        digests.write(f"{'0' * 64} *not-copied.md\n{'0' * 64}  ../tokenizer.json\n")
    assert resolve_model(str(copied)) == copied
    change_a_byte(copied / "tokenizer.json")
    with pytest.raises(ModelIntegrityError, match=r"tokenizer\.json does not have the digest"):
        resolve_model(str(copied))


def test_every_byte_is_in_the_vocabulary_so_any_text_is_encoded_without_loss(copied):
    tokenizer = Tokenizer.from_directory(house_model.FOLDER)
    for text in ("naïve 🙂 日本語\tΩ\n", "".join(map(chr, range(0x20, 0x250)))):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    file = copied / "tokenizer.json"
    text = file.read_text("utf-8")
    assert text.count('"é":') == 1, "how a byte-level vocabulary writes the byte 0xE9"
    file.write_text(text.replace('"é":', '"éé":'), "utf-8")
    write_digests(copied, FILES)
    with pytest.raises(ModelIntegrityError, match=r"lacks 1 of the 256 bytes.*make house-model"):
        house_checkpoint(copied)
