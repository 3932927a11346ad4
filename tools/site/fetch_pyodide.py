#!/usr/bin/env python3
"""Downloads the Python of the site's playground into build/pyodide; `make docs` does the same.

    tools/site/fetch_pyodide.py           # download what is missing: about 7 MB, once

Pyodide is from npm's registry, and msgspec, the core's only dependency, from PyPI. Both have a
fixed version and digest. The files are not committed: 14 MB would make each clone twice as large.
The site serves them itself and asks no other host. Without network, the site is built without
them, and its playground says how to get them.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from io import BytesIO
from pathlib import Path

VENDORED = Path(__file__).resolve().parents[2] / "build" / "pyodide"
REGISTRY = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org")
"""npm's own variable, for a mirror."""
PYODIDE = f"{REGISTRY.rstrip('/')}/pyodide/-/pyodide-314.0.7.tgz"
PYODIDE_SHA256 = "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0"
FILES = (
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json",
)  # fmt: skip
"""What a browser needs of the npm package."""
MSGSPEC = "msgspec==0.22.0"
MSGSPEC_SHA256 = "a66b1766311e42371e509c996c3933b161c7ae0eabdf361af5316dec197e1022"
PLATFORM = "--platform pyemscripten_2026_0_wasm32 --python-version 3.14 --abi cp314"
WHEEL = "msgspec.whl"
PATIENCE = 60
"""Seconds to wait for an answer."""


class FetchError(Exception):
    """A file could not be downloaded, or is not the one that was expected."""


def is_fetched() -> bool:
    return all((VENDORED / name).is_file() for name in (*FILES, WHEEL))


def fetch() -> None:
    """Download what is missing. Raises `FetchError`."""
    if is_fetched():
        return
    VENDORED.mkdir(parents=True, exist_ok=True)
    (VENDORED / WHEEL).write_bytes(_checked(_msgspec(), MSGSPEC_SHA256, MSGSPEC))
    archive = _checked(_download(PYODIDE), PYODIDE_SHA256, PYODIDE)
    with tarfile.open(fileobj=BytesIO(archive)) as package:
        for name in FILES:
            (VENDORED / name).write_bytes(package.extractfile(f"package/{name}").read())


def _checked(content: bytes, digest: str, name: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise FetchError(f"{name} has the SHA-256 {found}, but {digest} was expected.")
    return content


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise FetchError(f"{url} cannot be downloaded: {error}.") from error


def _msgspec() -> bytes:
    """The wheel for WebAssembly, with pip: it knows the reader's own index."""
    with tempfile.TemporaryDirectory() as folder:
        options = f"-m pip download --quiet --no-deps --only-binary :all: {PLATFORM}".split()
        command = [sys.executable, *options, "--dest", folder, MSGSPEC]
        run = subprocess.run(command, capture_output=True, text=True)
        wheels = list(Path(folder).glob("*.whl"))
        if run.returncode or not wheels:
            last = run.stderr.strip().rpartition("\n")[2]
            raise FetchError(f"pip cannot download {MSGSPEC} for Pyodide: {last}.")
        return wheels[0].read_bytes()


def main() -> int:
    try:
        fetch()
    except FetchError as error:
        print(f"{error}\nThe site is built without the playground's Python.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
