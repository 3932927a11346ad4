"""Fields of larger servers that are accepted only with a value that changes nothing.

Some clients always send such fields: those of an earlier answer, or all with their defaults. Any
other value asks for a feature that we lack, and is refused.
"""

from typing import Annotated, Any

from pydantic import PlainValidator, ValidationInfo, WithJsonSchema


def neutral(*values: Any) -> Any:
    """Return the type of a field that accepts only null and `values`, and is then always None."""

    def check(value: Any, info: ValidationInfo) -> None:
        # Compare types too: in Python, `True == 1`.
        if not any(value == one and type(value) is type(one) for one in (None, *values)):
            raise ValueError(f"{info.field_name} is not supported: leave it out.")

    return Annotated[None, PlainValidator(check), WithJsonSchema({"enum": [None, *values]})]


Null = neutral()
NullOrEmpty = neutral([])
