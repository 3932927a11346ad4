"""Find the bug: `record` makes recordings of an engine with a fault, `judge` checks an answer."""
