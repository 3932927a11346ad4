#!/usr/bin/env python3
"""Downloads the Python of the site's playground into build/pyodide; `make docs` does the same.

    tools/site/fetch_pyodide.py           # download what is missing: about 7 MB, once

Pyodide is from npm's registry, and msgspec, the core's only dependency, from PyPI. Both have a
fixed version and digest. The files are not committed: 14 MB would make each clone twice as large.
The site serves them itself and asks no other host. Without network, the site is built without
them, and its playground says how to get them.
"""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

VENDORED = Path(__file__).resolve().parents[2] / "build/pyodide"
# npm's own variable, for a mirror.
REGISTRY = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
PYODIDE = f"{REGISTRY}/pyodide/-/pyodide-314.0.7.tgz"
PYODIDE_SHA256 = "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0"
MSGSPEC = "msgspec==0.22.0"
MSGSPEC_SHA256 = "a66b1766311e42371e509c996c3933b161c7ae0eabdf361af5316dec197e1022"
PLATFORM = "--platform pyemscripten_2026_0_wasm32 --python-version 3.14 --abi cp314"
FROM_PYODIDE = (
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json",
)  # fmt: skip
"""What a browser needs of the npm package."""
FILES = (*FROM_PYODIDE, "msgspec.whl")
WITHOUT = "The site is built without the playground's Python."


def is_fetched() -> bool:
    return all((VENDORED / name).is_file() for name in FILES)


def fetch() -> None:
    """Download what is missing, or exit with a sentence that says why not."""
    if is_fetched():
        return
    try:
        with urllib.request.urlopen(PYODIDE, timeout=60) as answer:
            archive = answer.read()
    except OSError as error:
        sys.exit(f"{PYODIDE} cannot be downloaded: {error}. {WITHOUT}")
    if (found := hashlib.sha256(archive).hexdigest()) != PYODIDE_SHA256:
        sys.exit(f"{PYODIDE} has the SHA-256 {found}: {PYODIDE_SHA256} was expected. {WITHOUT}")
    wheel = _msgspec()
    VENDORED.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        for name in FROM_PYODIDE:
            (VENDORED / name).write_bytes(package.extractfile(f"package/{name}").read())
    (VENDORED / "msgspec.whl").write_bytes(wheel)


def _msgspec() -> bytes:
    """The wheel for WebAssembly, with pip, which knows the reader's own index."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text(f"{MSGSPEC} --hash=sha256:{MSGSPEC_SHA256}\n")
        options = f"--quiet --no-deps --only-binary :all: {PLATFORM} --dest {folder}".split()
        command = [sys.executable, "-m", "pip", "download", *options, "--requirement", wanted]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"pip cannot download {MSGSPEC}: {run.stderr.strip()}. {WITHOUT}")
        return next(Path(folder).glob("*.whl")).read_bytes()


if __name__ == "__main__":
    fetch()
