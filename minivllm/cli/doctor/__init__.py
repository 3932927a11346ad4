"""`minivllm doctor`: can this machine run the course? A file for each kind of check.

`doctor` is the command, and `finding` what a check returns. Checks import the library that they
look at themselves, inside the function, so that the doctor works on a broken installation.
"""
