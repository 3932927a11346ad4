"""What a wheel and an sdist hold, and the name `kernels`, which is Hugging Face's, too."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ("minivllm", "kernels", "tui", "lessons")
BUILD = "import sys; from setuptools import build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"


def build(sources: Path, kind: str, target: Path) -> Path:
    """Call a hook of the build backend (PEP 517), which needs no network."""
    subprocess.run([sys.executable, "-c", BUILD, kind, target], cwd=sources, check=True)
    (archive,) = target.glob("*.*")
    return archive


def files_of(wheel: Path) -> set[str]:
    members = zipfile.ZipFile(wheel).infolist()
    assert all(member.external_attr >> 16 & 0o444 == 0o444 for member in members), "for every user"
    return {member.filename for member in members if ".dist-info/" not in member.filename}


def test_a_wheel_and_an_sdist_hold_every_file_of_the_sources_at_its_import_path(tmp_path):
    sources, wheel, sdist, again = (tmp_path / name for name in ("sources", "a", "b", "c"))
    for name in SOURCES:
        shutil.copytree(ROOT / name, sources / name, True, shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    expected = {
        os.path.relpath(Path(folder, file), sources)
        for folder, _, files in os.walk(sources / "minivllm", followlinks=True)
        for file in files
    }
    assert files_of(build(sources, "build_wheel", wheel)) == expected
    shutil.unpack_archive(build(sources, "build_sdist", sdist), sdist, filter="data")
    (unpacked,) = sdist.glob("*/")
    assert not [name for name in SOURCES[1:] if (unpacked / name).exists()], "each file only once"
    assert files_of(build(unpacked, "build_wheel", again)) == expected


def test_hugging_faces_kernels_are_found_where_our_folder_has_the_same_name(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/__init__.py").write_text("from kernels.layer import Layer\n")
    (tmp_path / "kernels/layer.py").write_text("class Layer: ...\n")
    code = "import kernels; print(hasattr(kernels, 'Layer')); import minivllm.kernels.reference"
    for path, expected in ((tmp_path, "True"), ("", "False")):
        env = {**os.environ, "PYTHONPATH": str(path)}
        said = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=env, text=True)
        assert said.strip() == expected
