"""The event stream, from which views of the engine are built. `types` lists the events."""
