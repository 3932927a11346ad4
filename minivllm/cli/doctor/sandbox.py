"""Check of the sandbox: the engine's own solution of an exercise must pass in a child process."""

import subprocess
import sys
from importlib.util import find_spec

from minivllm.cli.doctor.finding import Finding, bad, ok

_EXERCISE = "lru"
_TRUNCATE_FROM = 3
"""The first version of Landlock that refuses to empty a file."""


def check_sandbox() -> Finding:
    if find_spec("numpy") is None:
        return bad("sandbox", "needs the package numpy: install it first")
    from minivllm.errors import ExerciseError
    from minivllm.lessons.checker.catalogue import find_exercise
    from minivllm.lessons.checker.child.sandbox import Session, Submission

    exercise = find_exercise(_EXERCISE)
    try:
        with Session(exercise, Submission(exercise.source_file)) as session:
            failure = session.start()
    except (ExerciseError, OSError) as error:
        return bad("sandbox", f"exercises cannot run: {str(error).rstrip('.')}")
    if failure is not None:
        return bad("sandbox", f"exercises cannot run: {failure.text}")
    limits = "exercises run with limits on time and memory"
    version = _landlock()
    if version == 0:
        return ok("sandbox", f"{limits} (no Landlock: C code and programs can write to your files)")
    locked = f"{limits}, and Landlock lets them write only to their own folder"
    if version < _TRUNCATE_FROM:
        locked += " (partly: before Linux 6.2, C code and programs can empty your files)"
    return ok("sandbox", locked)


def _landlock() -> int:
    """Version of the Landlock that locks a child process, as a trial shows; 0 if none does."""
    from minivllm.lessons.checker.child import fence

    lock = f"from {fence.__name__} import lock_writes_to; print(lock_writes_to('.'))"
    try:
        trial = subprocess.run([sys.executable, "-I", "-c", lock], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return fence.landlock_version() if trial.stdout == b"True\n" else 0
