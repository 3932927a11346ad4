"""The child process for student code: `sandbox` starts and limits it, `worker` does the work."""
