"""The engine: one step schedules, executes the model and samples, over and over, until every
request has its text.

Read `engine` first, the front door, then `stepper`, the step itself.
"""
