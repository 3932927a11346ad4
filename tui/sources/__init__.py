"""The dashboard's event sources, one per file. `source` defines the interface."""
