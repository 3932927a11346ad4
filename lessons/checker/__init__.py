"""Checks exercises: a student writes a missing piece of the engine, and the real engine runs on it.

    catalogue    the list of exercises, from info.toml
    holes        makes a stub: the engine's source with holes
    workspace    the student's folder, outside the repository
    cases/       random cases: operations on one part, request traces through the whole engine
    child/       runs the student's module in a limited child process
    search       finds a case on which both sides differ, and shrinks it with hypothesis
    check        checks one submission, behaviour by behaviour
    diagnosis    finds the known misconception that fails in the same way
    report, grade, dev_check   output for students, teachers and authors of exercises

An exercise is a folder of `lessons/exercises` with README.md, visible_test.py, behaviours.py and
wrong/*.py. The student's code runs in a child process, which only reports what happened: patches by
that code cannot change the verdict.
"""
