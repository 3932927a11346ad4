"""Fields of larger servers that are accepted only with a value that changes nothing.

Some clients always send such fields: every field of an earlier answer, or every default. Any other
value asks for an unsupported feature, so it is refused with the field's name.
"""

from typing import Annotated, Any

from pydantic import PlainValidator, ValidationInfo, WithJsonSchema


def neutral(*values: Any) -> Any:
    """Type of a field that accepts null and `values` only, and always reads as None."""

    def check(value: Any, info: ValidationInfo) -> None:
        # Compare types too: in Python, `True == 1`.
        if not any(value == one and type(value) is type(one) for one in (None, *values)):
            raise ValueError(f"{info.field_name} is not supported: leave it out.")

    return Annotated[None, PlainValidator(check), WithJsonSchema({"enum": [None, *values]})]


Null = neutral()
NullOrEmpty = neutral([])
