"""The child process for student code: limits (`sandbox`, `walls`) and work (`plug`, `worker`)."""
