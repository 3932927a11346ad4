"""The model cache: an entry that exists is complete, even after a crash while it was made."""

import errno
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from minivllm.errors import ModelError
from minivllm.runtime.progress import silent
from minivllm.runtime.store.model_cache import ModelCache, read_origin


def fill(directory: Path) -> None:
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(b"x" * 1000)


def create(cache: ModelCache, fill=fill, progress=silent) -> Path:
    return cache.get_or_create("m-v1", fill, origin="a test", progress=progress)


def everything_in(root: Path) -> list[str]:
    models = root / "models"
    return sorted(str(path.relative_to(models)) for path in models.rglob("*"))


def must_not_run(directory: Path) -> None:
    raise AssertionError("filled again")


def test_an_entry_is_filled_once_and_then_found(tmp_path):
    cache = ModelCache(tmp_path)
    assert cache.get("m-v1") is None and cache.entries() == []
    path = create(cache)
    assert (path / "model.safetensors").read_bytes() == b"x" * 1000
    assert create(cache, fill=must_not_run) == path == cache.get("m-v1")
    assert cache.entries() == [path] and read_origin(path) == "a test"


@pytest.mark.parametrize(
    ("error", "seen", "words"),
    [
        (RuntimeError("broken"), RuntimeError, "broken"),
        (KeyboardInterrupt("key"), KeyboardInterrupt, "key"),
        (OSError(errno.ENOSPC, "No space left"), ModelError, r"No space left.*MINIVLLM_CACHE"),
    ],
    ids=["an error", "Ctrl-C", "a full disk"],
)
def test_a_failure_half_way_leaves_nothing_behind(tmp_path, error, seen, words):
    def fail_half_way(directory: Path) -> None:
        fill(directory)
        raise error

    cache = ModelCache(tmp_path)
    with pytest.raises(seen, match=words):
        create(cache, fill=fail_half_way)
    assert everything_in(tmp_path) == [] and cache.get("m-v1") is None and cache.entries() == []
    assert create(cache)


@pytest.mark.parametrize("other_finishes", [True, False])
def test_an_entry_that_another_process_is_filling_is_awaited(tmp_path, other_finishes):
    """Another lock on the same file stands for the other process; a killed one has no lock."""
    half = tmp_path / "models" / "m-v1.partial"
    half.mkdir(parents=True)
    (half / "half").touch()
    (tmp_path / "locks").mkdir()
    other, said = open(tmp_path / "locks" / "m-v1.lock", "w"), []  # noqa: SIM115

    def other_ends(text: str) -> None:
        said.append(text)
        if other_finishes:
            half.rename(half.with_suffix(""))
        other.close()

    flock(other, LOCK_EX)
    cache = ModelCache(tmp_path)
    assert cache.get("m-v1") is None and cache.entries() == []
    path = create(cache, fill=must_not_run if other_finishes else fill, progress=other_ends)
    assert len(said) == 1 and (path / "half").exists() == other_finishes
    assert everything_in(tmp_path)[0] == "m-v1" and not half.exists()
