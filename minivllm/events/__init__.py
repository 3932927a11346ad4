"""The event stream: all that a view of the engine may read. `types` lists the events."""
