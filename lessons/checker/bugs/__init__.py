"""Find the bug: recordings of an engine with a fault, and the rules that show the first wrong step.

Read `rules.py` first: it checks the rules on any recording. `record.py` makes the recordings, and
`judge.py` checks a student's answer.
"""
