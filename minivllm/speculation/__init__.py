"""Speculative decoding: draft the next tokens cheaply, and verify them in one step of the model.

Start reading at `proposers.py` (what a proposer is), then `drafter.py` (drafts in a plan) and
`verify.py` (which drafts are kept).

An engine without drafts imports only `verify`: the names below are imported on first use.
"""

from minivllm import lazy_names

__getattr__ = lazy_names(__name__, {
    "Proposer": "proposers", "SpeculativeDrafter": "drafter",
    "create_draft_proposer": "draft_model", "load_draft_model": "draft_model",
})  # fmt: skip
