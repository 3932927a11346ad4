"""Checks of two models: the house model in the package, and the chat model."""

from minivllm.cli.doctor.finding import Finding, advice, bad, ok
from minivllm.errors import ModelError


def check_house_model() -> Finding:
    try:
        from minivllm.runtime.checkpoint.checkpoint import check_checkpoint
        from minivllm.runtime.store.provenance import HOUSE_FOLDER, provenance_of

        check_checkpoint(HOUSE_FOLDER)
        provenance = provenance_of(HOUSE_FOLDER)
    except ModelError as error:
        return bad("house model", str(error).rstrip("."))
    except ModuleNotFoundError as error:
        return bad("house model", f"needs the package {error.name}: install it first")
    return ok("house model", str(provenance))


def check_chat_model() -> Finding:
    """Look for the chat model in the caches; the doctor downloads nothing."""
    try:
        from minivllm.runtime.store.model_store import ModelStore
        from minivllm.runtime.store.provenance import provenance_of

        found = ModelStore().smollm2_if_here()
        provenance = None if found is None else provenance_of(found)
    except ModuleNotFoundError as error:
        return bad("chat model", f"needs the package {error.name}: install it first")
    if found is None:
        return advice("chat model", "not downloaded: minivllm model fetch smollm2")
    return ok("chat model", f"smollm2, {provenance}")
