"""Tests litellm with a served model: chat, streamed chat, text completion, a form, and an error.

Runs in its own environment, without minivllm. Arguments: the server's URL and the model's name.
"""

import json
import os
import sys

# Without this variable, the import downloads a list of prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm


def main(url: str, model: str) -> None:
    server = {"api_base": f"{url}/v1", "api_key": "none", "num_retries": 0, "max_retries": 0}
    chat = server | {
        "model": f"hosted_vllm/{model}",
        "messages": [{"role": "user", "content": "Say hello."}],
    }
    fixed = {"max_tokens": 12, "temperature": 0}
    whole = litellm.completion(**chat, **fixed)
    expect(whole.usage.completion_tokens > 0, "the answer reports no tokens")
    chunks = list(litellm.completion(**chat, **fixed, stream=True))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    expect(
        streamed == whole.choices[0].message.content,
        f"streamed {streamed!r} is not {whole.choices[0].message.content!r}",
    )
    scored = litellm.completion(**chat, **fixed, logprobs=True, top_logprobs=2)
    expect(
        len(scored.choices[0].logprobs["content"]) == whole.usage.completion_tokens,
        "a token has no logprob",
    )
    for_texts, prompt = f"text-completion-openai/{model}", "The capital of France is"
    text = litellm.text_completion(**server, **fixed, model=for_texts, prompt=prompt, n=2)
    expect(
        len(text.choices) == 2 and text.choices[0].text == text.choices[1].text,
        "two greedy texts differ",
    )
    schema = {
        "type": "object",
        "properties": {"sure": {"type": "boolean"}},
        "required": ["sure"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "sure", "schema": schema}}
    formed = litellm.completion(**chat, **fixed, response_format=form)
    answer = json.loads(formed.choices[0].message.content)
    expect(isinstance(answer["sure"], bool), f"{answer!r} does not fit its schema")
    try:
        litellm.completion(**chat, temperature=-1)
    except litellm.BadRequestError as error:
        expect("temperature" in str(error), f"the error does not name the parameter: {error}")
    else:
        raise SystemExit("a temperature of -1 was accepted")


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(otherwise)


if __name__ == "__main__":
    main(*sys.argv[1:3])
