"""Check options against their annotations: the type, choices and range of each field.

A field declares its range as in `Annotated[int, Meta(ge=1)]`. msgspec checks the values, and this
module writes the error message. Rules that involve several fields are checked by the options class
itself.
"""

from contextlib import suppress
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

Positive = Annotated[int, Meta(ge=1)]

_REFUSALS = (msgspec.ValidationError, AttributeError)
# AttributeError: msgspec takes anything with `__getitem__`, such as a numpy scalar, for a mapping
# and calls its `keys`.


def check_fields(options: object, error: type[Exception], where: str = "") -> None:
    """Raise `error` for the first field of a dataclass that does not fit its annotation.

    where: what stands before the field's name in the message
    """
    struct = _struct(type(options))
    values = {name: _plain(getattr(options, name)) for name in struct.__struct_fields__}
    try:
        msgspec.convert(values, struct)
    except _REFUSALS:
        for name, hint in _hints(type(options)).items():
            _check(where + name, getattr(options, name), hint, error)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


@cache
def _struct(cls: type) -> type[msgspec.Struct]:
    return msgspec.defstruct(cls.__name__, list(_hints(cls).items()))


def _plain(value: object) -> object:
    """Convert `np.float64`, which msgspec does not accept, to float."""
    if isinstance(value, dict):
        return {key: _plain(element) for key, element in value.items()}
    return float(value) if isinstance(value, float) else value


def _check(name: str, value: object, hint: Any, error: type[Exception]) -> None:
    with suppress(*_REFUSALS):
        msgspec.convert(_plain(value), hint)
        return
    wanted = _without_none(hint)
    if get_origin(wanted) is list and isinstance(value, list):
        for element in value:
            _check(name, element, get_args(wanted)[0], error)
    if get_origin(wanted) is dict and isinstance(value, dict):
        for key, element in value.items():
            _check(f"{name} key", key, get_args(wanted)[0], error)
            _check(f"{name} value", element, get_args(wanted)[1], error)
    raise error(f"{name} must be {_in_words(wanted)}; got {value!r}.")


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        return next(element for element in get_args(hint) if element is not NoneType)
    return hint


def _in_words(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if get_origin(hint) is not Annotated:
        kind = get_origin(hint) or hint
        words = {
            bool: "True or False",
            int: "a whole number",
            float: "a finite number",
            str: "a string",
        }
        return words.get(kind, f"a {kind.__name__}")
    kind, meta = get_args(hint)
    return meta.description or f"{_in_words(kind)}, {_range(meta)}"


def _range(meta: Meta) -> str:
    if meta.gt is not None:
        return f"above {meta.gt:g} and at most {meta.le:g}"
    return f"at least {meta.ge}" if meta.le is None else f"from {meta.ge} to {meta.le}"
