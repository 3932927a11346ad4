"""`minivllm bench dashboard`: the dashboard's response times and its cost for the engine."""
