"""Checks exercises: a student writes a missing piece of the engine, and the engine runs with it.

    catalogue    the list of exercises, from info.toml
    holes        makes a stub: the engine's source without the functions to write
    workspace    the student's folder, outside the repository
    cases/       random cases: operations on one part, or request traces for the whole engine
    child/       runs the student's module in a child process with limits
    search       finds a case on which student and engine differ, and shrinks it with hypothesis
    check        checks one submission, behaviour by behaviour
    mistakes     known wrong solutions: small changes of the engine's file
    diagnosis    finds the known misconception that fails in the same way
    report, grade, dev_check   output for students, teachers and authors of exercises

An exercise is a folder of `lessons/exercises` with README.md, visible_test.py, behaviours.py and
mistakes.toml. The student's code runs in a child process that only reports what happened, and the
parent compares that with the engine's own report.
"""
