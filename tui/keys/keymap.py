"""The user's own keys: a TOML file with one line per remapped command.

    "time.step" = "ctrl+right"
    "time.step_back" = "ctrl+left,b"

If two commands share a key, the error names both and nothing in the file is applied.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

from minivllm.errors import ConfigError
from minivllm.tui.keys.commands import COMMANDS, LESSON_COMMANDS

_MODIFIERS = ("alt", "ctrl", "shift", "super")


def default_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return Path(base or Path.home() / ".config") / "minivllm" / "keys.toml"


def load_keymap(path: str | Path | None) -> dict[str, str]:
    """The user's keys by command id. Without `path`, a missing default file is no error.

    Raises `ConfigError` for the first invalid key or unknown command.
    """
    file = default_path() if path is None else Path(path)
    if path is None and not file.is_file():
        return {}
    usual = {command.id: command.keys for command in (*COMMANDS, *LESSON_COMMANDS)}
    keymap = {}
    for command_id, keys in _entries(_read(file)):
        if command_id not in usual:
            raise ConfigError(
                f"{file} has keys for {command_id!r}, which is not a command: see"
                " docs/start/dashboard.md."
            )
        if not isinstance(keys, str) or not keys.strip():
            raise ConfigError(
                f'{file} must give {command_id} its keys as text, as in "ctrl+right,l"; got'
                f" {keys!r}."
            )
        keymap[command_id] = ",".join(
            _key(file, command_id, key.strip()) for key in keys.split(",")
        )
    # Check each table alone: a lesson key may repeat a key of the app, because it takes precedence.
    for table in (COMMANDS, LESSON_COMMANDS):
        _check_no_key_is_used_twice(file, {row.id: keymap.get(row.id, row.keys) for row in table})
    return keymap


def _read(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}.") from error


def _entries(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield (id, keys). Ids without quotes are allowed; TOML parses them as nested tables."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _entries(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _key(file: Path, command_id: str, key: str) -> str:
    """The name that Textual sends for this key, with modifiers in alphabetical order."""
    *modifiers, name = key.split("+") if len(key) > 1 else [key]
    ordered = "+".join([*sorted(modifiers), name])
    known = name in set(Keys) or (len(name) == 1 and name.isprintable()) or _is_character(name)
    if not known or any(modifier not in _MODIFIERS for modifier in modifiers):
        raise ConfigError(
            f"{file} gives {command_id} the key {key!r}, which does not exist: write it"
            " like x, f5, space or ctrl+right."
        )
    return ordered


def _is_character(name: str) -> bool:
    """Whether the name is a printable character's long name, such as `question_mark`."""
    character = key_to_character(name)
    return name in KEY_NAME_REPLACEMENTS.values() or (
        character is not None and character.isprintable()
    )


def _check_no_key_is_used_twice(file: Path, table: Mapping[str, str]) -> None:
    owners: dict[str, str] = {}
    for command_id, keys in table.items():
        for key in keys.split(","):
            # A character and its long name are the same key.
            character = key if "+" in key else key_to_character(key) or key
            other = owners.setdefault(character, command_id)
            if other != command_id:
                raise ConfigError(
                    f"{file} gives the key {key} to both {other} and {command_id}: give one"
                    " of them another key."
                )
