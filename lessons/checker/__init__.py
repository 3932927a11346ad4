"""Checks exercises: a student writes a missing piece of the engine, and the engine runs with it.

catalogue, holes, workspace   the exercises, a stub without some functions, the student's folder
cases/       random cases: operations on one part, or request traces for the whole engine
child/       reports what the student's code does in a case, in a process with limits
search, diagnosis   find a small case with another report, and the known mistake that fails alike
check        does all that for each behaviour of an exercise, and returns a `Result`
report, diff, grade, dev_check   for students, teachers and authors of exercises
"""
