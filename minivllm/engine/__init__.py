"""The engine: repeats a step (schedule, execute, sample) until every request has its text.

Read `core`, the step itself, first. Then read `engine`, the public interface.
"""
