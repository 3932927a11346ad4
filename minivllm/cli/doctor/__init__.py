"""`minivllm doctor`: can this machine run the course?

`doctor` is the command, `finding` is what a check returns, and each kind of check has its own file.
A check imports libraries inside its function, so that the doctor works on a broken installation.
"""
