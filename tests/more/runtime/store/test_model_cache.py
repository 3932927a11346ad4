"""The model cache: an entry that exists is complete, even after a crash while it was made."""

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import SOON

from minivllm.errors import NotEnoughDiskSpaceError
from minivllm.runtime.progress import silent
from minivllm.runtime.store.model_cache import ModelCache, directory_bytes


def fill(directory: Path) -> None:
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(b"x" * 1000)


def create(cache: ModelCache, fill=fill, needed_bytes: int = 1000, progress=silent) -> Path:
    return cache.get_or_create(
        "m-v1", fill, origin="a test", needed_bytes=needed_bytes, progress=progress
    )


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
    [entry] = cache.entries()
    assert (entry.key, entry.path, entry.origin) == ("m-v1", path, "a test")
    assert 1002 < directory_bytes(path) < 1100


@pytest.mark.parametrize(
    ("error", "seen", "words"),
    [
        (RuntimeError("broken"), RuntimeError, "broken"),
        (KeyboardInterrupt("key"), KeyboardInterrupt, "key"),
        (OSError(errno.ENOSPC, "No space left"), NotEnoughDiskSpaceError, "the disk is full"),
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


CHILD = """
import sys, time
from pathlib import Path
from minivllm.runtime.store.model_cache import ModelCache
def fill(directory):
    (directory / "config.json").write_text("half")
    print("filling", flush=True)
    while not Path(sys.argv[2]).exists():
        time.sleep(0.01)
    with open(sys.argv[1] + "/fills", "a") as log:
        log.write("x")
cache = ModelCache(Path(sys.argv[1]))
print(cache.get_or_create("m-v1", fill, origin="child", needed_bytes=1, progress=print))
"""


WAITING = "Waiting for another process that is preparing m-v1.\n"


def start_child(root: Path) -> subprocess.Popen:
    """Fill an entry in a process until the file `go` exists; it prints when it begins or waits."""
    return subprocess.Popen(
        [sys.executable, "-uc", CHILD, root, root / "go"], stdout=subprocess.PIPE, text=True
    )


def test_of_two_processes_one_fills_an_entry_and_the_other_takes_over_if_it_dies(tmp_path):
    children = [start_child(tmp_path) for _ in range(2)]
    said = [child.stdout.readline() for child in children]
    assert sorted(said) == [WAITING, "filling\n"]
    filling, waiting = (children[said.index(line)] for line in ("filling\n", WAITING))
    filling.send_signal(signal.SIGKILL)
    filling.wait(SOON)
    cache = ModelCache(tmp_path)
    assert cache.get("m-v1") is None and cache.entries() == []
    (tmp_path / "go").touch()
    output = waiting.communicate(timeout=SOON)[0].splitlines()
    assert output == ["filling", str(tmp_path / "models" / "m-v1")]
    assert (tmp_path / "fills").read_text() == "x"
    assert everything_in(tmp_path) == ["m-v1", "m-v1/config.json", "m-v1/minivllm.json"]


def test_a_full_disk_is_detected_before_the_work(tmp_path):
    cache = ModelCache(tmp_path, free_bytes=lambda path: 700_000_000)
    with pytest.raises(NotEnoughDiskSpaceError) as caught:
        create(cache, fill=must_not_run, needed_bytes=1_600_000_000)
    message = str(caught.value)
    assert "needs 1.6 GB" in message and "700 MB are free" in message
    assert str(tmp_path) in message and "MINIVLLM_CACHE" in message
    assert not (tmp_path / "models").exists()
