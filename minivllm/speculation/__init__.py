"""Speculative decoding: draft the next tokens cheaply, and verify them in one step of the model.

Start reading at `proposers.py` (what a proposer is), then `drafter.py` (drafts in a plan) and
`verify.py` (which drafts are kept).

An engine without drafts imports only `verify`: the names in `__all__` are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

_HOMES = {
    "Proposer": "proposers", "SpeculativeDrafter": "drafter",
    "create_draft_proposer": "draft_model", "load_draft_model": "draft_model",
}  # fmt: skip
__all__ = ["Proposer", "SpeculativeDrafter", "create_draft_proposer", "load_draft_model"]

if TYPE_CHECKING:
    from minivllm.speculation.draft_model import create_draft_proposer, load_draft_model
    from minivllm.speculation.drafter import SpeculativeDrafter
    from minivllm.speculation.proposers import Proposer


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'minivllm.speculation' has no attribute {name!r}")
    return getattr(import_module(f"minivllm.speculation.{_HOMES[name]}"), name)
