"""Tools to measure, compare and simulate; the engine never imports them."""
