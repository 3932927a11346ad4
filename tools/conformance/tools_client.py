"""Tests tool calls of a served model with OpenAI's client and with pydantic-ai.

Runs in its own environment, without minivllm. Arguments: the server's URL and the model's name.
"""

import json
import sys
from typing import Literal

from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel, Field
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

QUESTION = [{"role": "user", "content": "What is the weather like in Paris and in Oslo?"}]
DEGREES = {"Paris": "19 degrees", "Oslo": "7 degrees"}


class Weather(BaseModel):
    """Get the current temperature of a city."""

    city: Literal["Paris", "Oslo"]
    unit: Literal["celsius", "fahrenheit"] = Field(description="The unit of the answer.")


class Trip(BaseModel):
    """A journey to a city."""

    to: Literal["Paris", "Oslo"]
    days: int = Field(ge=1, le=9)


def main(url: str, model: str) -> None:
    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    fields = {"model": model, "temperature": 0, "seed": 1, "max_tokens": 400}
    fields["parallel_tool_calls"] = False  # a small model repeats its first call without end
    run_the_tool_loop(client, fields)
    stream_calls(client, fields)
    parse_calls(client, fields)
    ask_pydantic_ai(url, model)


def run_the_tool_loop(client: OpenAI, fields: dict) -> None:
    """Ask, execute the calls, send the results back, and get a text."""
    fields = fields | {"tools": [pydantic_function_tool(Weather)]}
    answer = client.chat.completions.create(messages=QUESTION, tool_choice="required", **fields)
    (choice,) = answer.choices
    expect(choice.finish_reason == "tool_calls", f"it ended with {choice.finish_reason}")
    messages = [*QUESTION, choice.message]
    for call in choice.message.tool_calls:
        asked = Weather.model_validate_json(call.function.arguments)
        result = {"role": "tool", "tool_call_id": call.id, "content": DEGREES[asked.city]}
        messages.append(result)
    told = client.chat.completions.create(messages=messages, tool_choice="none", **fields)
    expect(bool(told.choices[0].message.content), "there is no text after the results")
    expect(told.choices[0].message.tool_calls is None, "tool_choice none called a tool")
    expect(
        told.usage.prompt_tokens > answer.usage.prompt_tokens, "the results are not in the prompt"
    )


def stream_calls(client: OpenAI, fields: dict) -> None:
    """OpenAI's accumulator joins a stream to the message that comes in one piece."""
    fields = fields | {
        "messages": QUESTION,
        "tools": [pydantic_function_tool(Weather)],
        "tool_choice": "required",
    }
    whole = client.chat.completions.create(**fields).choices[0]
    names = []
    with client.chat.completions.stream(**fields) as stream:
        for event in stream:
            if event.type == "tool_calls.function.arguments.done":
                names.append(event.name)
        joined = stream.get_final_completion().choices[0]
    expect(joined.finish_reason == whole.finish_reason, "a stream ends for another reason")
    functions = [call.function for call in whole.message.tool_calls]
    expect(names == [function.name for function in functions], f"streamed names: {names}")
    streamed = [call.function.arguments for call in joined.message.tool_calls]
    expect(streamed == [function.arguments for function in functions], "streamed arguments differ")


def parse_calls(client: OpenAI, fields: dict) -> None:
    """A named function, and arguments as an object of a pydantic class."""
    named = {"type": "function", "function": {"name": "Trip"}}
    tools = [pydantic_function_tool(Weather), pydantic_function_tool(Trip)]
    answer = client.chat.completions.parse(
        messages=QUESTION, tools=tools, tool_choice=named, **fields
    )
    (call,) = answer.choices[0].message.tool_calls
    expect(isinstance(call.function.parsed_arguments, Trip), f"not a Trip: {call}")
    json.loads(call.function.arguments)


def ask_pydantic_ai(url: str, model: str) -> None:
    """pydantic-ai gets its outputs from the arguments of a tool call that it requires."""
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="none")
    settings = {"temperature": 0, "max_tokens": 400, "parallel_tool_calls": False}
    agent = Agent(OpenAIChatModel(model, provider=provider), output_type=Trip, retries=0)
    result = agent.run_sync("Plan a trip to Oslo.", model_settings=settings)
    expect(isinstance(result.output, Trip), f"not a Trip: {result.output}")


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(otherwise)


if __name__ == "__main__":
    main(*sys.argv[1:3])
