"""Links from the docs into the source: target page and line."""

import re

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


def test_a_name_is_found_on_the_line_that_defines_it_and_no_other_is():
    lines = {"LIMIT": 3, "A": 4, "B": 4, "Pool": 8, "Pool.size": 9, "Pool.take": 11, "take": 17}
    for name, line in (lines | {"Pool.Inner.wait": 14}).items():
        assert HOOK.line_of(SOURCE, name) == line
    for name in ("Gone", "Pool.gone", "Pool.take.x", "LIMIT.real", "wait", "size"):
        assert HOOK.line_of(SOURCE, name) is None


def test_links_point_to_the_line_of_a_name_a_folder_or_a_whole_file(tmp_path):
    text = (
        "[pool](../../minivllm/core/block_pool.py#BlockPool) [core](../../minivllm/core)"
        " [readme](../../README.md)"
    )
    pages = {"index.md": "# Home\n", "concepts/pool.md": f"# Page\n\n{text}\n"}
    built = build(small_configuration(tmp_path, pages), tmp_path / "site")
    assert built.status == 0, built.said
    html = (tmp_path / "site/concepts/pool.html").read_text(encoding="utf-8")
    source = tmp_path / "site/source"
    line = HOOK.line_of((ROOT / "minivllm/core/block_pool.py").read_text("utf-8"), "BlockPool")
    assert f'href="../source/minivllm/core/block_pool.py.html#__codelineno-0-{line}"' in html
    assert 'href="../source/minivllm/core/__init__.py.html"' in html
    core = {"minivllm/core/block_pool.py.html", "minivllm/core/__init__.py.html"}
    carried = {str(file.relative_to(source)) for file in source.rglob("*.html")}
    assert carried == core | {"README.md.html"}
    code = (source / "minivllm/core/block_pool.py.html").read_text("utf-8")
    assert f'id="__codelineno-0-{line}"' in code
    page = (source / "README.md.html").read_text(encoding="utf-8")
    # Unchanged, because its links mean something else here.
    assert "](docs/start/dashboard.md)" in re.sub("<.*?>", "", page)
    num_lines = len((ROOT / "README.md").read_text(encoding="utf-8").splitlines())
    assert f'id="__codelineno-0-{num_lines}"' in page, "shown to its end, despite its fences"


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("../../outside.py", "outside.py"),
        ("../minivllm/gone.py", "minivllm/gone.py"),
        ("../minivllm/clock.py#Gone.name", "there is no such name"),
    ],
)
def test_a_link_to_a_missing_source_fails_the_build(link, words, tmp_path):
    configuration = small_configuration(tmp_path, {"index.md": f"# Home\n\n[code]({link})\n"})
    built = build(configuration, tmp_path / "site")
    assert built.status != 0 and words in built.said
