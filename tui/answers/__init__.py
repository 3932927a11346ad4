"""Answers in words: why (key w), and a decision's source code (s)."""
