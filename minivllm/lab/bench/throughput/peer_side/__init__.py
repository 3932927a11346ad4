"""Code that runs in a peer's own Python, which has no minivllm.

The files import only the standard library, the peer and each other. Python puts a script's folder
first on its search path, so they have a folder without other modules.
"""
