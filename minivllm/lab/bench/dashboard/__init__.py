"""`minivllm bench dashboard`: how quickly the dashboard answers a key, and what watching costs the
engine.
"""
