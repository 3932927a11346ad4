"""User-defined keys: valid files, and one sentence for each invalid one."""

from pathlib import Path

import pytest

from minivllm.errors import ConfigError
from minivllm.tui.keys.commands import COMMANDS, LESSON_COMMANDS
from minivllm.tui.keys.keymap import default_path, load_keymap


@pytest.fixture
def keys(tmp_path: Path):
    """Write a file of keys."""

    def write(text: str) -> Path:
        path = tmp_path / "keys.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_without_a_file_the_keys_stay_as_they_are(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_path() == tmp_path / "minivllm" / "keys.toml"
    assert load_keymap(None) == {}
    default_path().parent.mkdir()
    default_path().write_text('"app.quit" = "ctrl+q"')
    assert load_keymap(None) == {"app.quit": "ctrl+q"}
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".config" / "minivllm" / "keys.toml"


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ('"time.stepp" = "y"', "is not a command"),
        ('"time.step" = "hyperdrive+x"', "hyperdrive+x"),
        ('"time.step" = "x,,y"', "does not exist"),
        ('"time.step" = 3', "as text"),
        ('"time.step" = "g"', "to both time.step and time.goto"),
        ('"look.why" = "question_mark"', "to both look.why and app.help"),
        ('"lesson.back" = "space"', "lesson.next"),
        ("time step", "is not TOML"),
    ],
)
def test_an_invalid_file_gives_one_clear_sentence(text: str, fact: str, keys) -> None:
    path = keys(text)
    with pytest.raises(ConfigError) as raised:
        load_keymap(path)
    assert fact in str(raised.value) and str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_key_of_the_table_is_valid_in_the_file(keys) -> None:
    commands = (*COMMANDS, *LESSON_COMMANDS)
    lines = "\n".join(f'"{command.id}" = "{command.keys}"' for command in commands)
    assert load_keymap(keys(lines)) == {command.id: command.keys for command in commands}
    # Two commands may swap their keys, and names are those that Textual sends.
    text = 'time.step = "shift+ctrl+left, g"\n"time.goto" = "right,l"\n"app.help" = "f1"'
    assert load_keymap(keys(text)) == {
        "time.step": "ctrl+shift+left,g", "time.goto": "right,l", "app.help": "f1",
    }  # fmt: skip
