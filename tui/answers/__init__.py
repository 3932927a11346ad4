"""Answers in words: why (key w), what changed (D), a decision's source code (s), and notices."""
