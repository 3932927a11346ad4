"""Chat templates are rendered in the tests' own process, by the functions of the worker."""

import json

from minivllm.runtime.text.template_worker import compile_template, render


class RenderedHere:
    """A worker without its process and its limits."""

    template = None

    def ask(self, line: bytes) -> dict[str, str]:
        request = json.loads(line)
        if self.template is None:
            self.template = compile_template(request["source"])
            self.special_tokens = request["special_tokens"]
            return {"text": ""}
        try:
            return {"text": render(self.template, *request, self.special_tokens)}
        except Exception as error:
            return {"error": str(error)}
