"""Student code in a process of its own: started with limits (`sandbox`, `walls`), run in the
engine's place (`plug`, `worker`).
"""
