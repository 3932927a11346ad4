"""Checks exercises: a piece of the engine is missing, a student writes it, and the real engine runs
on it.

    catalogue    which exercises there are, from info.toml
    holes        the solution is the engine's own source; a stub is that source with holes
    workspace    the student's folder, outside the repository
    cases/       what is checked, in random cases: operations on a part, request traces through the
                 whole engine
    child/       the student's module in the engine's place, in a child process with limits
    search       hypothesis looks for the smallest case on which both sides differ
    check        one submission, behaviour after behaviour
    diagnosis    which known misconception does exactly the same
    report, grade, dev_check   for students, for teachers, for whoever writes exercises

A folder of `lessons/exercises` is one exercise: README.md, visible_test.py, behaviours.py,
wrong/*.py. Student code never runs in the process that judges it: the child reports what happened,
both sides are compared outside, and nothing that the student's code patches can change the verdict.
"""
