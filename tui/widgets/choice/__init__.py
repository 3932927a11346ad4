"""The choice of a token: the text so far, the candidates, and the race that one of them wins.

Read `choice.py` first.
"""
