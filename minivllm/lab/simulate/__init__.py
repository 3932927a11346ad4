"""The real scheduler and KV cache under a crowd that no machine here could serve: only the model's
time is made up.
"""
