"""Speculative decoding: draft the next tokens cheaply, and verify them in one step of the model.

Start reading at `proposers.py` (what a proposer is), then `drafter.py` (drafts in a plan) and
`verify.py` (which drafts are kept).
"""
