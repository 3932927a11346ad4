"""Loads merged code in place of the engine's modules, whoever imports them first.

Install the finder before the engine is imported. A module that was imported earlier would go on
using the engine's own code, and every trial would succeed.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.capstone.merge import OwnFile, merged_code


class _MergedLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


class MergedFinder:
    """A meta path finder. See `importlib.abc.MetaPathFinder`."""

    def __init__(self, own_files: Mapping[str, Sequence[OwnFile]]) -> None:
        """own_files: for each module, the files to merge into it"""
        late = [name for name in own_files if name in sys.modules]
        if late:
            raise ExerciseError(
                f"{late[0]} is already imported: a student's module needs a fresh process."
            )
        self._files = {name: engine_file(name) for name in own_files}
        self._codes = {
            name: merged_code(file, own_files[name]) for name, file in self._files.items()
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        code = self._codes.get(fullname)
        if code is None:
            return None
        file = str(self._files[fullname])
        return spec_from_file_location(fullname, file, loader=_MergedLoader(fullname, file, code))


def engine_file(module: str) -> Path:
    """The engine's own file, found without importing the module."""
    return Path(find_spec(module).origin)


def install(own_files: Mapping[str, Sequence[OwnFile]]) -> None:
    """Use the merged modules in this process from now on."""
    sys.meta_path.insert(0, MergedFinder(own_files))
