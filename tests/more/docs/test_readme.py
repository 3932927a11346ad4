"""README.zh.md has the commands and links of README.md."""

import re

from support.docs.built_site import ROOT

README, CHINESE = ((ROOT / name).read_text("utf-8") for name in ("README.md", "README.zh.md"))


def test_the_chinese_readme_has_the_same_commands_and_links():
    def facts(page: str) -> tuple[list[str], list[str]]:
        fences = re.findall(r"^```.*?\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
        lines = [line.partition("#")[0].strip() for fence in fences for line in fence.splitlines()]
        commands = ("make", "PIP", "llm", "for", "from", "print")
        links = re.findall(r"\]\((?!README)([^)]+)\)", page)
        return [line for line in lines if line.startswith(commands)], links

    assert all(facts(README)) and facts(CHINESE) == facts(README)
