"""A person's own keys: what a file may say, and the sentence for what it may not."""

from pathlib import Path

import pytest

from minivllm.errors import ConfigError
from minivllm.tui.keys.commands import COMMANDS, LESSON_COMMANDS, page
from minivllm.tui.keys.keymap import default_path, load_keymap

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def keys(tmp_path: Path):
    """Writes a file of keys."""

    def write(text: str) -> Path:
        path = tmp_path / "keys.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_commands_get_the_keys_of_the_file_under_the_names_that_textual_sends(keys) -> None:
    path = keys(
        '"time.step" = "ctrl+right"\n"time.step_back" = "shift+ctrl+left, b"\n"look.why" = "?"\n"app.help" = "f1"'
    )
    assert load_keymap(path) == {
        "time.step": "ctrl+right",
        "time.step_back": "ctrl+shift+left,b",
        "look.why": "?",
        "app.help": "f1",
    }


def test_an_id_without_quotes_means_the_same(keys) -> None:
    assert load_keymap(keys('time.step = "y"')) == {"time.step": "y"}


def test_without_a_file_the_keys_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    ("text", "sentence"),
    [
        ('"time.stepp" = "y"', "'time.stepp', which is no command: did you mean time.step"),
        ('"engine.explode" = "y"', "which is no command: "),
        ('"time.step" = "nonsense"', "the key 'nonsense', which is none"),
        ('"time.step" = "hyperdrive+x"', "which is none"),
        ('"time.step" = "ctrl+"', "which is none"),
        ('"time.step" = "x,,y"', "which is none"),
        ('"time.step" = ""', "must give time.step its keys as text"),
        ('"time.step" = 3', "must give time.step its keys as text"),
        ('"time.step" = "g"', "the key g to both time.step and time.goto: give one of them another key"),
        ('"look.why" = "?"', "to both look.why and app.help"),
        ('"look.why" = "question_mark"', "to both look.why and app.help"),
        ('"time.step" = "y"\n"time.event" = "y"', "the key y to both time.step and time.event"),
        ("time step", "is not TOML"),
    ],
)
def test_what_cannot_be_is_one_clear_sentence(text: str, sentence: str, keys) -> None:
    path = keys(text)
    with pytest.raises(ConfigError) as raised:
        load_keymap(path)
    assert sentence in str(raised.value) and str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read"):
        load_keymap(tmp_path / "none.toml")


def test_two_commands_may_change_places(keys) -> None:
    assert load_keymap(keys('"time.step" = "g"\n"time.goto" = "right,l"')) == {"time.step": "g", "time.goto": "right,l"}


def test_every_key_of_the_table_could_stand_in_the_file(keys) -> None:
    commands = (*COMMANDS, *LESSON_COMMANDS)
    lines = "\n".join(f'"{command.id}" = "{command.keys}"' for command in commands)
    assert load_keymap(keys(lines)) == {command.id: command.keys for command in commands}


def test_a_lesson_may_have_a_key_of_the_dashboard_and_its_own_commands_no_key_twice(keys) -> None:
    assert load_keymap(keys('"lesson.back" = "left"')) == {"lesson.back": "left"}
    with pytest.raises(ConfigError, match=r"lesson\.next"):
        load_keymap(keys('"lesson.back" = "space"'))


def test_the_page_of_the_documentation_is_the_table_of_today() -> None:
    assert (ROOT / "docs/reference/keys.md").read_text(encoding="utf-8") == page(), "`make docs-pages` writes it again"


def test_the_page_names_every_command_and_its_example_loads(keys) -> None:
    assert all(f"`{command.id}`" in page() and command.help in page() for command in (*COMMANDS, *LESSON_COMMANDS))
    example = page().partition("```toml\n")[2].partition("```")[0]
    assert set(load_keymap(keys(example))) == {"time.step", "time.step_back", "look.why", "app.help"}
