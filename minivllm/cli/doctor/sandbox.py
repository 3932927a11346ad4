"""Check of the sandbox: the engine's own solution of an exercise must pass in a child process."""

from importlib.util import find_spec

from minivllm.cli.doctor.finding import Finding, bad, ok

_EXERCISE = "lru"


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
    return ok("sandbox", "exercises run, with limits on time and memory")
