"""Answers in words: why (key w), a decision's source code (s), and notices."""
