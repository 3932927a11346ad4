"""Models from the Hub, whose protocol a fake speaks in this process."""

from collections.abc import Iterator

import httpx2
import pytest
from huggingface_hub import set_client_factory
from huggingface_hub.utils._http import default_client_factory
from support.patience import FOREVER

from minivllm.errors import (
    ModelDownloadError,
    ModelError,
    ModelIntegrityError,
    UnknownModelError,
    UnsupportedModelError,
)
from minivllm.runtime.progress import silent
from minivllm.runtime.store.hub import Hub, HubUnreachableError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(httpx2.BaseTransport):
    """Serves `files` (name -> bytes) of me/tiny, with an error for the names in `refused`."""

    def __init__(self, files: dict[str, bytes]):
        self.files = files
        self.refused: dict[str, int | httpx2.TransportError] = {}
        self.downloaded: list[str] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        name = path.rpartition(f"/resolve/{COMMIT}/")[2]
        if path.startswith("/api/models/"):
            return self._describe(*path.removeprefix("/api/models/").split("/")[:3])
        if name == path:  # a question of the library about something else
            return httpx2.Response(404)
        if request.method == "GET":
            self.downloaded.append(name)
        return self._refuse(name) or httpx2.Response(
            200, headers={"ETag": f'"{name}-1"', "X-Repo-Commit": COMMIT}, content=self.files[name]
        )

    def _describe(self, owner: str, name: str, what: str = "") -> httpx2.Response:
        if (owner, name) != ("me", "tiny"):
            return httpx2.Response(404, headers={"X-Error-Code": "RepoNotFound"})
        files = self.files.items()
        if what == "tree":
            tree = [{"type": "file", "path": n, "size": len(d), "oid": n} for n, d in files]
            return httpx2.Response(200, json=tree)
        siblings = [{"rfilename": name, "size": len(data)} for name, data in files]
        model = {"id": "me/tiny", "sha": COMMIT, "siblings": siblings}
        return self._refuse("me/tiny") or httpx2.Response(200, json=model)

    def _refuse(self, name: str) -> httpx2.Response | None:
        status = self.refused.get(name)
        if isinstance(status, Exception):
            raise status
        code = {"X-Error-Code": "GatedRepo"} if status == 403 else {}
        return None if status is None else httpx2.Response(status, headers=code)


@pytest.fixture
def fake(tiny_random_path) -> Iterator[FakeHub]:
    """The tiny model as a repository, with some unneeded files."""
    files = {path.name: path.read_bytes() for path in tiny_random_path.iterdir()}
    fake = FakeHub(
        files | {"README.md": b"hello", "pytorch_model.bin": b"pickle", "a.safetensors": b"2nd"}
    )
    set_client_factory(lambda: httpx2.Client(transport=fake))
    yield fake
    set_client_factory(default_client_factory)


@pytest.fixture
def hub(fake, tmp_path, monkeypatch) -> Hub:
    """A hub that asks `fake`, without the token or the home folder of whoever runs the tests."""
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    return Hub(endpoint="http://hub.test", cache_dir=tmp_path, deadline_s=FOREVER)


NEEDED = [
    "config.json", "generation_config.json", "model.safetensors",
    "tokenizer.json", "tokenizer_config.json",
]  # fmt: skip


def test_a_model_is_downloaded_with_what_it_needs_and_nothing_else(fake, hub):
    said = []
    assert hub.cached("me/tiny") is None and hub.cached_repos() == []
    path = hub.download("me/tiny", weights=True, progress=said.append)
    assert sorted(p.name for p in path.iterdir()) == NEEDED
    assert sorted(fake.downloaded) == NEEDED
    assert (path / "model.safetensors").read_bytes() == fake.files["model.safetensors"]
    assert said == ["Downloading me/tiny from the Hugging Face Hub (431 kB)."]
    # And from then on without the Hub.
    assert hub.cached("me/tiny") == path and hub.cached_repos() == ["me/tiny"]


def test_an_incomplete_download_is_no_model_but_enough_for_dummy_weights(fake, hub):
    path = hub.download("me/tiny", weights=False, progress=silent)
    assert "model.safetensors" not in fake.downloaded and (path / "config.json").is_file()
    fake.refused["model.safetensors"] = 400
    with pytest.raises(ModelDownloadError, match=r"interrupted.*again to resume"):
        hub.download("me/tiny", weights=True, progress=silent)
    assert hub.cached("me/tiny", weights=False) == path
    assert hub.cached("me/tiny") is None
    fake.refused.clear()
    assert hub.download("me/tiny", weights=True, progress=silent) == path
    assert hub.cached("me/tiny") == path


def check_refused(fake: FakeHub, hub: Hub, kind: type[ModelError], words: str) -> None:
    """Refused before a large file is downloaded."""
    with pytest.raises(kind, match=words):
        hub.download("me/tiny", weights=True, progress=silent)
    assert "model.safetensors" not in fake.downloaded


def test_a_repository_without_safetensors_is_refused_before_any_download(fake, hub):
    for names, kind, words in (
        (["pytorch_model.bin"], UnsupportedModelError, "pickle format"),
        (["m.Q4_1.gguf"], UnsupportedModelError, r"m\.Q4_1\.gguf"),
        ([], ModelIntegrityError, r"no model\.safetensors"),
    ):
        fake.files = {"config.json": fake.files["config.json"], **dict.fromkeys(names, b"")}
        check_refused(fake, hub, kind, words)
    assert fake.downloaded == []


def test_offline_mode_is_noticed_before_the_download(fake, hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    check_refused(fake, hub, HubUnreachableError, "HF_HUB_OFFLINE")


@pytest.mark.parametrize("where", ["me/tiny", "config.json"])
def test_a_model_whose_licence_is_not_accepted_yet_is_one_sentence(fake, hub, where):
    fake.refused[where] = 403
    check_refused(fake, hub, ModelDownloadError, "accept it .*HF_TOKEN")


def test_a_hub_that_does_not_answer_and_an_impossible_name_are_noticed_at_once(fake, tmp_path, hub):
    fake.refused["me/tiny"] = httpx2.ConnectError("refused")
    check_refused(fake, hub, HubUnreachableError, "does not answer")
    for name in ("a/b", "a/b/c", "--x", "../up"):
        assert hub.cached(name) is None
        with pytest.raises(UnknownModelError):
            hub.download(name, weights=True, progress=silent)
