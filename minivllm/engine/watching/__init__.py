"""What the engine emits or answers for somebody who watches; without a watcher, it costs nothing.

Start reading at `inspection.py`: the whole state as plain data, which the events must add up to.
"""
