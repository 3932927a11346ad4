"""Links from the docs into the source: where they lead, and on which line."""

import re
from pathlib import Path

import pytest
from support.docs.built_site import ROOT, build, small_configuration
from support.tool_modules import load_tool

HOOK = load_tool("site/source_pages.py")
SOURCE = '''"""A module."""

LIMIT: int = 3
A = B = 1


@decorated
class Pool:
    size = 4

    def take(self): ...

    class Inner:
        async def wait(self): ...


def take(): ...
'''


@pytest.mark.parametrize(
    ("name", "line"),
    [("LIMIT", 3), ("A", 4), ("B", 4), ("Pool", 8), ("Pool.size", 9), ("Pool.take", 11), ("Pool.Inner.wait", 14),
     ("take", 17)],
)  # fmt: skip
def test_a_name_is_found_on_the_line_that_defines_it(name: str, line: int) -> None:
    assert HOOK.line_of(SOURCE, name) == line
    assert name.rpartition(".")[2] in SOURCE.splitlines()[line - 1]


@pytest.mark.parametrize("name", ["Gone", "Pool.gone", "Pool.take.x", "LIMIT.real", "wait", "size"])
def test_a_name_that_is_not_defined_has_no_line(name: str) -> None:
    assert HOOK.line_of(SOURCE, name) is None


def built_page(tmp_path: Path, markdown: str, page: str = "concepts/pool.md") -> str:
    built = build(
        small_configuration(tmp_path, {"index.md": "# Home\n", page: f"# Page\n\n{markdown}\n"}), tmp_path / "site"
    )
    assert built.status == 0, built.said
    return (tmp_path / "site" / page).with_suffix(".html").read_text(encoding="utf-8")


def test_a_link_to_a_name_leads_to_its_line_on_a_page_that_is_there(tmp_path: Path) -> None:
    html = built_page(tmp_path, "[pool](../../minivllm/core/block_pool.py#BlockPool)")
    source = (ROOT / "minivllm/core/block_pool.py").read_text(encoding="utf-8")
    line = HOOK.line_of(source, "BlockPool")
    assert f'href="../source/minivllm/core/block_pool.py.html#__codelineno-0-{line}"' in html
    page = (tmp_path / "site/source/minivllm/core/block_pool.py.html").read_text(encoding="utf-8")
    assert f'id="__codelineno-0-{line}"' in page
    assert "class" in source.splitlines()[line - 1]


def test_a_link_to_a_folder_leads_to_what_the_folder_says_of_itself(tmp_path: Path) -> None:
    html = built_page(tmp_path, "[core](../../minivllm/core)")
    assert 'href="../source/minivllm/core/__init__.py.html"' in html
    assert (tmp_path / "site/source/minivllm/core/__init__.py.html").is_file()


def test_only_files_that_are_linked_are_carried(tmp_path: Path) -> None:
    built_page(tmp_path, "[toml](../../pyproject.toml) and [home](../index.md)")
    carried = [file.name for file in (tmp_path / "site/source").rglob("*.html")]
    assert carried == ["pyproject.toml.html"]


def test_a_file_with_a_fence_in_it_is_shown_to_its_end(tmp_path: Path) -> None:
    built_page(tmp_path, "[readme](../../README.md)")
    page = (tmp_path / "site/source/README.md.html").read_text(encoding="utf-8")
    assert "](docs/dashboard.md)" in re.sub("<.*?>", "", page)  # as it stands: its links mean something else here
    num_lines = len((ROOT / "README.md").read_text(encoding="utf-8").splitlines())
    assert f'id="__codelineno-0-{num_lines}"' in page


def test_a_link_out_of_the_repository_is_left_to_mkdocs(tmp_path: Path) -> None:
    configuration = small_configuration(tmp_path, {"index.md": "# Home\n\n[up](../../outside.py)\n"})
    built = build(configuration, tmp_path / "site")
    assert built.status != 0
    assert "outside.py" in built.said
