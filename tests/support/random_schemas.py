"""Random JSON schemas whose values are short, so that a weak model finishes them."""

from hypothesis import strategies as st

NAMES = st.sampled_from(["name", "a b", 'quote"d', "é", "x\n", "next"])
SIZE = st.integers(0, 3)
LEAVES = st.one_of(
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": "number"}]),
    st.builds(lambda a, b: {"type": "integer", "minimum": a, "maximum": a + b},
              st.integers(-99, 99), st.integers(0, 999)),
    st.builds(lambda a, b: {"type": "string", "minLength": a, "maxLength": a + b}, SIZE, SIZE),
    st.lists(st.sampled_from(["red", "", 'a"b\\', 3, None, 1.5]), min_size=1, max_size=3,
             unique_by=repr).map(lambda given: {"enum": given}),
    st.sampled_from([{"const": "fox"}, {"type": "string", "pattern": "^[A-Z][a-z]{0,4}$"}]),
)  # fmt: skip


def object_schema(properties: dict[str, dict], optional: int) -> dict:
    """optional: this many of the first properties may be missing"""
    required = list(properties)[optional:]
    return {"type": "object", "properties": properties, "required": required,
            "additionalProperties": False}  # fmt: skip


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(object_schema, st.dictionaries(NAMES, inner, max_size=3), SIZE),
        st.builds(lambda a, b, items: {"type": "array", "items": items, "minItems": a,
                                       "maxItems": a + b}, SIZE, SIZE, inner),
        st.lists(inner, min_size=1, max_size=2).map(lambda some: {"anyOf": some}),
    ),
    max_leaves=5,
)  # fmt: skip
