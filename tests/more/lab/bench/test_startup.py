"""Slow imports stay out of the way of a first token; the rest is torch and the model."""

import subprocess
import sys

CODE = """
import minivllm, sys
early = "torch" in sys.modules
llm = minivllm.LLM("tiny-random", device="cpu")
llm.generate({"prompt_token_ids": [1, 2]}, minivllm.SamplingParams(max_tokens=1), use_tqdm=False)
unwanted = ("transformers", "gguf", "filelock", "huggingface_hub", "torch._dynamo", "sympy")
print(early, [name for name in (*unwanted, "jinja2", "rich") if name in sys.modules])
"""


def test_a_first_token_imports_no_transformers_and_no_model_conversion_or_download():
    said = subprocess.check_output([sys.executable, "-c", CODE], text=True)
    assert said.splitlines()[-1] == "False []"
