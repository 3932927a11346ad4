"""The model in the package: its name, its size, and its vocabulary."""

from minivllm.runtime.store.model_store import resolve_model
from minivllm.runtime.store.provenance import HOUSE_FOLDER
from minivllm.runtime.text.tokenizer import Tokenizer


def test_house_is_a_name_for_the_folder_in_the_package_and_needs_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path / "none"))
    assert resolve_model("house") == HOUSE_FOLDER
    assert not (tmp_path / "none").exists()
    assert sum(file.stat().st_size for file in HOUSE_FOLDER.iterdir()) <= 5_000_000


def test_every_byte_is_in_the_vocabulary_so_any_text_is_encoded_without_loss():
    tokenizer = Tokenizer.from_directory(HOUSE_FOLDER)
    for text in ("naïve 🙂 日本語\tΩ\n", "".join(map(chr, range(0x20, 0x250)))):
        assert tokenizer.decode(tokenizer.encode(text)) == text
