"""Fields of larger servers that we take only at the value that changes nothing.

Clients send them without being asked to: every field of a message that they once received, or every
default. Refusing those would shut out clients that want nothing special. The easy thing to get
wrong is kindness: any other value asks for something that we do not do, so it is refused by name.
"""

from typing import Annotated, Any

from pydantic import PlainValidator, ValidationInfo, WithJsonSchema


def neutral(*values: Any) -> Any:
    """The type of a field that takes null and `values`, and always reads as None."""

    def check(value: Any, info: ValidationInfo) -> None:
        # By type as well: to Python `True` is a 1.
        if not any(value == one and type(value) is type(one) for one in (None, *values)):
            raise ValueError(f"{info.field_name} is not supported: leave it out.")

    return Annotated[None, PlainValidator(check), WithJsonSchema({"enum": [None, *values]})]


Null = neutral()
NullOrEmpty = neutral([])
