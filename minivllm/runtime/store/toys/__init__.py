"""Models that are made and not downloaded: tiny ones with random weights, and one with the shape of
Qwen3-0.6B.
"""
