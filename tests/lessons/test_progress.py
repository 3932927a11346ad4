"""A learner's progress, kept in a file."""

import pytest

from minivllm.errors import LessonError
from minivllm.lessons.teacher.progress import Progress


@pytest.fixture
def progress(tmp_path):
    return Progress(tmp_path / "deep" / "progress.json")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"lessons": 3}', b"\xff\xfe"])
def test_a_damaged_file_gives_one_sentence_and_stays_unchanged(progress, damage):
    progress.path.parent.mkdir()
    progress.path.write_bytes(damage)
    with pytest.raises(LessonError, match="damaged") as error:
        progress.note_answer("tokens", "1", "8", False)
    assert "\n" not in str(error.value)
    assert progress.path.read_bytes() == damage
    with pytest.raises(LessonError, match="cannot be"):
        Progress(progress.path / "progress.json").note_page("tokens", 1, False)


def test_progress_is_stored_in_the_users_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MINIVLLM_PROGRESS", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert Progress().path == tmp_path / ".local/share/minivllm/progress.json"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert Progress().path == tmp_path / "data/minivllm/progress.json"
    monkeypatch.setenv("MINIVLLM_PROGRESS", str(tmp_path / "mine.json"))
    assert Progress().path == tmp_path / "mine.json"


def test_first_and_best_results_are_kept(progress):
    assert progress.read().lessons == {}
    progress.note_answer("tokens", "1", "8", False)
    progress.note_answer("tokens", "1", "1", True)
    progress.note_page("tokens", 20, True)
    progress.note_page("tokens", 3, False)
    lesson = progress.read().lessons["tokens"]
    assert (lesson.first_answers["1"].given, lesson.pages_read, lesson.finished) == ("8", 20, True)
    for level, passed in ((2, True), (1, False)):
        progress.note_hint("block-pool", level)
        progress.note_check("block-pool", passed)
    exercise = progress.read().exercises["block-pool"]
    assert (exercise.hints, exercise.checks, exercise.passed) == (2, 2, True)
    assert [file.name for file in progress.path.parent.iterdir()] == ["progress.json"]
