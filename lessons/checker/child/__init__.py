"""The processes for student code: `session` asks, `worker` forks and limits, `student` runs it."""
