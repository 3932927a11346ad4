"""CPU only: load the C kernels, cut a step's attention into parts, allocate large pages."""
