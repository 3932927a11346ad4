"""The engine: repeats a step (schedule, execute, sample) until every request has its text.

Read `engine`, the public interface, first. Then read `stepper`, the step itself.
"""
