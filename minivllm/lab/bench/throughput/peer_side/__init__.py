"""Code that runs in a peer's own Python: `peer_main.py`, started by its path, and one per peer.

minivllm is not installed there, so these files import only the standard library, the peer and each
other. Python puts a script's folder first on its search path. In the benches' folder, a library's
`import kernels` would find ours, so these files have their own.
"""
