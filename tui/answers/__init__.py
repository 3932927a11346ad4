"""Sentences and texts: why (key w), what changed (D), a decision's source (s), and notices."""
