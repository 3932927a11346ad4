"""Models from the Hub, against a small local server that speaks its protocol."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.patience import FOREVER

from minivllm.errors import (
    ModelIntegrityError,
    NotEnoughDiskSpaceError,
    UnknownModelError,
    UnsupportedModelError,
)
from minivllm.runtime.progress import silent
from minivllm.runtime.store.hub import Hub, HubUnreachableError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """Serves `files` (name -> bytes) of one repository, and counts requests."""

    def __init__(self, files: dict[str, bytes], repo_id: str = "me/tiny"):
        self.repo_id, self.files = repo_id, files
        self.downloaded: list[str] = []

    def answer(self, path: str, is_get: bool) -> tuple[int, dict[str, str], bytes]:
        path = unquote(path.split("?")[0])
        if path.startswith("/api/models/") and not path.startswith(f"/api/models/{self.repo_id}"):
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        if path in (f"/api/models/{self.repo_id}", f"/api/models/{self.repo_id}/revision/main"):
            siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
            return (
                200,
                {},
                json.dumps({"id": self.repo_id, "sha": COMMIT, "siblings": siblings}).encode(),
            )
        if path.startswith(f"/api/models/{self.repo_id}/tree/"):
            tree = [
                {"type": "file", "path": n, "size": len(d), "oid": n} for n, d in self.files.items()
            ]
            return 200, {}, json.dumps(tree).encode()
        name = path.rpartition(f"/resolve/{COMMIT}/")[2]
        if name in self.files:
            if is_get:
                self.downloaded.append(name)
            return 200, {"ETag": f'"{name}-1"', "X-Repo-Commit": COMMIT}, self.files[name]
        return 404, {"X-Error-Code": "EntryNotFound"}, b"{}"

    @contextmanager
    def serve(self) -> Iterator[str]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, headers, body = hub.answer(self.path, is_get=self.command == "GET")
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *args: object) -> None:
                """Tests are quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()


@pytest.fixture
def files(tiny_random_path) -> dict[str, bytes]:
    """The tiny model as a repository, with some unneeded files."""
    files = {path.name: path.read_bytes() for path in tiny_random_path.iterdir()}
    return files | {"README.md": b"hello", "pytorch_model.bin": b"pickle", "a.safetensors": b"2nd"}


NEEDED = [
    "config.json", "generation_config.json", "model.safetensors",
    "tokenizer.json", "tokenizer_config.json",
]  # fmt: skip


def test_a_model_is_downloaded_with_what_it_needs_and_nothing_else(tmp_path, files):
    fake, said = FakeHub(files), []
    with fake.serve() as endpoint:
        hub = Hub(endpoint=endpoint, cache_dir=tmp_path)
        assert hub.cached("me/tiny") is None and hub.cached_repos() == []
        path = hub.download("me/tiny", weights=True, progress=said.append)
    assert sorted(p.name for p in path.iterdir()) == NEEDED
    assert sorted(fake.downloaded) == NEEDED
    assert (path / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert said == ["Downloading me/tiny from the Hugging Face Hub (431 kB)."]
    # And from then on without the Hub.
    assert hub.cached("me/tiny") == path and hub.cached_repos() == ["me/tiny"]


def test_an_incomplete_download_is_no_model_but_enough_for_dummy_weights(tmp_path, files):
    fake = FakeHub(files)
    with fake.serve() as endpoint:
        hub = Hub(endpoint=endpoint, cache_dir=tmp_path)
        path = hub.download("me/tiny", weights=False, progress=silent)
        assert "model.safetensors" not in fake.downloaded and (path / "config.json").is_file()
        assert hub.cached("me/tiny", weights=False) == path
        assert hub.cached("me/tiny") is None
        assert hub.download("me/tiny", weights=True, progress=silent) == path
        assert hub.cached("me/tiny") == path


def check_refused(fake: FakeHub, cache_dir: Path, kind: type[Exception], words: str) -> None:
    """Refused before a large file is downloaded."""
    with fake.serve() as endpoint, pytest.raises(kind, match=words):
        Hub(endpoint=endpoint, cache_dir=cache_dir).download(
            "me/tiny", weights=True, progress=silent
        )
    assert "model.safetensors" not in fake.downloaded


def test_a_repository_without_safetensors_is_refused_before_any_download(tmp_path, files):
    for names, kind, words in (
        (["pytorch_model.bin"], UnsupportedModelError, "pickle format"),
        (["m.Q4_1.gguf"], UnsupportedModelError, r"m\.Q4_1\.gguf"),
        ([], ModelIntegrityError, r"no model\.safetensors"),
    ):
        fake = FakeHub({"config.json": files["config.json"], **dict.fromkeys(names, b"")})
        check_refused(fake, tmp_path, kind, words)


def test_a_full_disk_and_offline_mode_are_noticed_before_the_download(tmp_path, files, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 100_000})())
    check_refused(FakeHub(files), tmp_path, NotEnoughDiskSpaceError, r"needs 431 kB .*HF_HOME")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    check_refused(FakeHub(files), tmp_path, HubUnreachableError, "HF_HUB_OFFLINE")


def test_a_hub_that_refuses_connections_and_an_impossible_name_are_noticed_at_once(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{probe.getsockname()[1]}"
    hub = Hub(endpoint=endpoint, cache_dir=tmp_path, deadline_s=FOREVER)
    with pytest.raises(HubUnreachableError, match="does not answer"):
        hub.download("a/b", weights=True, progress=silent)
    for name in ("a/b/c", "--x", "../up"):
        assert hub.cached(name) is None
        with pytest.raises(UnknownModelError):
            hub.download(name, weights=True, progress=silent)
