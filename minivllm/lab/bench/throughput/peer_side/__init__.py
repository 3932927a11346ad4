"""Code that runs in a peer's own Python: the script `peer_main.py`, and one file per peer.

minivllm is not installed there, so these files import only the standard library, the peer and each
other. They have their own folder because Python puts a script's folder first on its search path: in
the benches' folder, a library's `import kernels` would import our folder `kernels`.
"""
