"""A test module that imports this one first is skipped where there is no Triton."""

import pytest

from support.model.needs import NO_TRITON

pytest.importorskip("minivllm.kernels.mode", reason=NO_TRITON)
