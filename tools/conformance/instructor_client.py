"""Tests instructor with a served model: objects of a pydantic class, and a list of them.

Runs in its own environment, without minivllm. Arguments: the server's URL and the model's name.
"""

import sys
from typing import Literal

import instructor
import openai
from pydantic import BaseModel, Field


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)
    city: Literal["Rome", "Oslo"]


class People(BaseModel):
    people: list[Person] = Field(min_length=1, max_length=2)


def main(url: str, model: str) -> None:
    client = instructor.from_openai(
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0),
        mode=instructor.Mode.JSON_SCHEMA,
    )
    fixed = {"model": model, "temperature": 0, "max_tokens": 200, "max_retries": 0}
    question = [{"role": "user", "content": "Ben is 30 and lives in Rome. Write that as JSON."}]
    for kind in (Person, People):
        answer = client.chat.completions.create(messages=question, response_model=kind, **fixed)
        if not isinstance(answer, kind):
            raise SystemExit(f"instructor returned {answer!r}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
