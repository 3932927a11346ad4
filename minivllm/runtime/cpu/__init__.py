"""What only a CPU needs: its C kernels loaded, a step's attention cut into parts for threads,
memory in large pages.
"""
