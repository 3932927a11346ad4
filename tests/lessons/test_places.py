"""The places in the code that lessons name: files and functions that must really be there."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from minivllm.lessons.course.library import lessons

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "lessons").glob("l[0-9][0-9]_*.py"))
OURS = re.compile(r"`((?:minivllm|kernels|tui|lessons)/[\w/]+(?:\.py|/))`")
METHOD = re.compile(r"`([A-Z]\w+)\.(_?[a-z]\w+)`")
HOMES = {
    "Scheduler": "minivllm.core.scheduler",
    "AdmissionPolicy": "minivllm.core.admission",
    "BlockPool": "minivllm.core.block_pool",
    "KVCacheManager": "minivllm.core.kv_cache_manager",
}


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_file_and_method_that_a_lesson_names_is_there(path):
    text = path.read_text(encoding="utf-8")
    for place in OURS.findall(text):
        assert (ROOT / place).exists(), place
    for owner, method in METHOD.findall(text):
        if owner in HOMES:
            assert hasattr(getattr(import_module(HOMES[owner]), owner), method), f"{owner}.{method}"


def test_there_is_a_file_for_every_lesson_of_the_course():
    assert len(LESSONS) == len(lessons())
