"""The installed package: linked folders, both kinds of install, the name `kernels`, dependencies.

The build backend builds both installs from a copy of the sources, without network. The interpreter
that imports them runs without `site`, so the editable install of this environment cannot hide a
missing file.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from minivllm.errors import TRITON
from minivllm.runtime.checkpoint.digests import DIGESTS
from minivllm.runtime.store.house_model import FILES, house_checkpoint

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("kernels", "tui", "lessons")
SOURCES = ["minivllm", *LINKED, "pyproject.toml", "README.md", "LICENSE"]
THIRD_PARTY = sysconfig.get_path("purelib")


def copy_of_the_sources(folder: Path) -> Path:
    """Copy the sources, because a build leaves files beside them."""
    folder.mkdir()
    no_caches = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=no_caches)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def run_python(*arguments: str, **options: object) -> str:
    child = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, **options
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def build(sources: Path, hook: str, target: Path) -> Path:
    """Call a hook of the build backend (PEP 517, PEP 660) and unpack its wheel into `target`."""
    target.mkdir()
    code = f"import sys; from setuptools import build_meta; print(build_meta.{hook}(sys.argv[1]))"
    run_python("-c", code, str(target), cwd=sources)
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def run_without_site(code: str, path: list[Path], cwd: Path) -> str:
    """Standard output of an interpreter with `path` and then the third-party packages.

    `addsitedir` also reads the `.pth` file through which an editable install adds its finder.
    """
    prelude = (
        "import site, sys\nfor folder in sys.argv[2:]: site.addsitedir(folder)\n"
        "sys.path.append(sys.argv[1])\n"
    )
    # PYTHONPATH would come first.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return run_python("-S", "-c", prelude + code, THIRD_PARTY, *map(str, path), cwd=cwd, env=env)


def files_to_install(sources: Path) -> set[str]:
    """Every file in `sources` that an install must have, by its path in site-packages."""
    places = {"minivllm": "minivllm"} | {name: f"minivllm/{name}" for name in LINKED}
    return {
        str(Path(place) / file.relative_to(sources / folder))
        for folder, place in places.items()
        for file in (sources / folder).rglob("*")
        if file.is_file()
    }


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_the_sources(tmp_path_factory.mktemp("package") / "sources")


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(sources, "build_wheel", tmp_path_factory.mktemp("wheel") / "site")


@pytest.fixture(scope="module")
def editable(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(sources, "build_editable", tmp_path_factory.mktemp("editable") / "site")


def files_of(wheel: Path) -> set[str]:
    """Every file that an unpacked wheel installs."""
    return {
        str(file.relative_to(wheel))
        for file in wheel.rglob("*")
        if file.is_file() and file.suffix != ".whl" and ".dist-info" not in str(file)
    }


def test_a_wheel_holds_every_file_of_the_sources_and_no_other(sources, wheel):
    assert files_of(wheel) == files_to_install(sources)
    (info,) = wheel.glob("*.dist-info")
    assert "minivllm = minivllm.cli:main" in (info / "entry_points.txt").read_text()
    assert (info / "licenses" / "LICENSE").exists()


def test_a_wheel_has_the_house_model_readable_for_every_user(wheel):
    (archive,) = wheel.glob("*.whl")
    modes = {
        member.filename.rpartition("/")[2]: member.external_attr >> 16 & 0o444
        for member in zipfile.ZipFile(archive).infolist()
        if "/store/house/" in member.filename
    }
    assert modes == dict.fromkeys((*FILES, DIGESTS), 0o444)
    assert house_checkpoint(wheel / "minivllm/runtime/store/house")


def test_an_sdist_holds_each_file_once_at_its_import_path_and_builds_the_same_wheel(
    sources, wheel, tmp_path
):
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run_python("-c", code, str(tmp_path), cwd=sources)
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    held = {str(file.relative_to(unpacked)) for file in unpacked.rglob("*") if file.is_file()}
    assert files_to_install(sources) <= held
    assert not [name for name in held if name.startswith(LINKED)]
    rebuilt = build(unpacked, "build_wheel", tmp_path / "site")
    assert files_of(rebuilt) == files_of(wheel)


IMPORT_THE_PARTS = """
import importlib, json
names = ["", ".kernels", ".tui", ".lessons", ".core.scheduler"]
print(json.dumps([importlib.import_module("minivllm" + name).__file__ for name in names]))
"""


def test_the_linked_folders_import_from_either_kind_of_install(sources, wheel, editable, tmp_path):
    files = json.loads(run_without_site(IMPORT_THE_PARTS, [wheel], cwd=tmp_path))
    assert [file for file in files if not Path(file).is_relative_to(wheel)] == []
    files = json.loads(run_without_site(IMPORT_THE_PARTS, [editable], cwd=tmp_path))
    places = [str(Path(file).parent.relative_to(sources / "minivllm")) for file in files]
    assert places == [".", "kernels", "tui", "lessons", "core"]


# ---- the name `kernels`, which is Hugging Face's ----

IMPORT_BOTH = """
import json
import minivllm.kernels
import transformers
from transformers.utils import is_kernels_available
theirs = []
if is_kernels_available():
    import kernels, kernels.layer
    theirs = [kernels.__file__, kernels.layer.__file__]
print(json.dumps([minivllm.kernels.__file__, theirs]))
"""


@pytest.fixture
def hugging_face_kernels(tmp_path: Path) -> Path:
    """A package laid out like theirs: a module, its submodule, and a version that fits."""
    from transformers.utils.import_utils import KERNELS_MIN_VERSION

    package = tmp_path / "installed" / "kernels"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from kernels.layer import Layer\n")
    (package / "layer.py").write_text("class Layer: ...\n")
    info = package.with_name(f"kernels-{KERNELS_MIN_VERSION}.dist-info")
    info.mkdir()
    about = f"Metadata-Version: 2.1\nName: kernels\nVersion: {KERNELS_MIN_VERSION}\n"
    (info / "METADATA").write_text(about)
    return package.parent


@pytest.mark.parametrize("installed", [True, False], ids=["theirs installed", "theirs absent"])
def test_our_kernels_and_hugging_faces_kernels_work_side_by_side(
    sources, editable, hugging_face_kernels, tmp_path, installed
):
    # As with `python -m` and scripts, the root comes first, so our folder is found as `kernels`.
    path = [sources, *([hugging_face_kernels] if installed else []), editable]
    ours, theirs = json.loads(run_without_site(IMPORT_BOTH, path, cwd=tmp_path))
    assert ours == str(sources / "minivllm/kernels/__init__.py")
    files = [str(hugging_face_kernels / "kernels" / name) for name in ("__init__.py", "layer.py")]
    assert theirs == (files if installed else [])


# ---- dependencies ----


def pinned_versions() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def declared_requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for group in project["optional-dependencies"].values() for text in group]
    return [Requirement(text) for text in [*project["dependencies"], *extras]]


def test_every_package_that_an_install_brings_is_pinned():
    pins = pinned_versions()
    open_names = [canonicalize_name(requirement.name) for requirement in declared_requirements()]
    seen: set[str] = {"minivllm"}
    while open_names:
        name = open_names.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # not for this platform
        wanted = [Requirement(text) for text in requires]
        # The CUDA build of torch pins dozens of libraries itself.
        open_names += [
            canonicalize_name(requirement.name)
            for requirement in wanted
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if not requirement.name.startswith(("nvidia-", "cuda-"))
        ]
    assert sorted(seen - set(pins) - {"minivllm"}) == []


def test_triton_is_installed_where_there_is_one_at_the_version_that_errors_name():
    (triton,) = [one for one in declared_requirements() if one.name == "triton"]
    assert triton.specifier == Requirement(TRITON).specifier
    for system, machine, brings in (
        ("linux", "x86_64", True),
        ("linux", "aarch64", False),
        ("darwin", "arm64", False),
    ):
        where = {"sys_platform": system, "platform_machine": machine}
        assert triton.marker.evaluate(where) is brings


MEASURED_IF_THERE = {"flashinfer", "llama_cpp", "vllm"}
"""Peers that a benchmark measures if they are installed."""


def test_every_third_party_import_is_a_declared_dependency():
    homes = metadata.packages_distributions()
    declared = {canonicalize_name(requirement.name) for requirement in declared_requirements()}
    imported = set()
    for folder in ["minivllm", *LINKED]:
        for file in (ROOT / folder).rglob("*.py"):
            if file.name == "visible_test.py":
                continue  # runs in a student's folder and imports the file beside it
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    imported.add(node.module.split(".")[0])
    ours = {"minivllm", "kernels"}  # `kernels` where our folder is imported under that name
    third_party = imported - set(sys.stdlib_module_names) - ours - MEASURED_IF_THERE
    missing = {
        name
        for name in third_party
        if declared.isdisjoint(canonicalize_name(home) for home in homes.get(name, []))
    }
    assert missing == set()


def test_every_pin_is_a_version_that_the_project_allows() -> None:
    pins = pinned_versions()
    wanted = [one for one in declared_requirements() if one.name != "minivllm"]
    assert [str(r) for r in wanted if pins[canonicalize_name(r.name)] not in r.specifier] == []
