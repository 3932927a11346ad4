"""The child process for student code. Limits: `sandbox`, `walls`; work: `plug`, `worker`."""
