"""What runs in a peer's own Python: `peer_main.py` by its path, and beside it one module for each
peer.

Nothing of minivllm is installed there, so these files import the standard library and the peer, and
each other as neighbours. They stand in a folder of their own because Python puts a script's folder
first on its search path: beside the benches, a library's `import kernels` would find ours.
"""
