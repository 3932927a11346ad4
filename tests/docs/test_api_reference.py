"""Each public name documents its parameters and errors, and is in the reference."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator

import pytest
from mkdocstrings import Inventory

import minivllm


def public_classes() -> list[type]:
    return [getattr(minivllm, name) for name in minivllm.__all__]


def functions_of(cls: type) -> Iterator[tuple[str, object]]:
    """Public methods and properties that the class itself defines."""
    for name, member in vars(cls).items():
        if not name.startswith("_") and isinstance(member, (property, classmethod, staticmethod)):
            yield name, member.fget if isinstance(member, property) else member.__func__
        elif not name.startswith("_") and inspect.isfunction(member):
            yield name, member


def attributes_of(cls: type) -> dict[str, str]:
    """Public annotated names in the class body, each with the string below it."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body
    docs = {}
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and not statement.target.id.startswith("_"):
            is_doc = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            docs[statement.target.id] = after.value.value if is_doc else ""
    return docs


def raised_in(function: object) -> set[str]:
    """Names of the errors that a function raises in its own body."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = (
        node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None
    )
    return {one.func.id for one in raised if isinstance(one, ast.Call)}


def parameters_of(function: object) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "cls"}


def is_named(name: str, doc: str) -> bool:
    return re.search(rf"(?<!\w){name}(?!\w)", "".join(re.findall(r"`[^`]+`", doc))) is not None


@pytest.mark.parametrize("cls", public_classes())
def test_a_public_method_names_its_parameters_and_its_errors(cls):
    for name, function in functions_of(cls):
        doc = inspect.getdoc(function)
        assert doc, f"{cls.__name__}.{name} has no docstring"
        assert {one for one in parameters_of(function) if not is_named(one, doc)} == set(), name
        for error in raised_in(function):
            assert re.search(rf"[Rr]aises? .*`{error}`", doc, re.DOTALL), (name, error)


def test_the_built_reference_shows_every_public_name_and_member(site):
    with open(site / "objects.inv", "rb") as file:
        inventory = Inventory.parse_sphinx(file)
    page = (site / "use/api.html").read_text(encoding="utf-8")
    for cls in public_classes():
        members = [name for name, _ in functions_of(cls)] + list(attributes_of(cls))
        whole = f"{cls.__module__}.{cls.__name__}"
        paths = [whole, *(f"{whole}.{one}" for one in members)]
        assert [path for path in paths if path not in inventory] == []
        assert [path for path in paths if f'id="{path}"' not in page] == []


@pytest.mark.parametrize(
    "name",
    [
        "inside/internals",
        "inside/events",
        "use/cli",
        "use/configuration",
        "use/observability",
        "start/dashboard",
    ],
)
def test_a_page_of_the_reference_shows_no_markup_that_was_not_understood(site, name):
    html = (site / f"{name}.html").read_text(encoding="utf-8")
    text = re.sub(r"<(pre|code|script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", " ", text)
    assert re.findall(r"\\[*_|<\[{]|^\|.*\|$|\]\(", text, re.MULTILINE) == []
    assert ":::" not in text


@pytest.mark.parametrize("cls", public_classes())
def test_a_public_class_says_what_it_and_each_of_its_fields_are_and_what_it_refuses(cls):
    doc = inspect.getdoc(cls)
    assert doc and not doc.startswith(f"{cls.__name__}("), "dataclass's own"
    assert [name for name, text in attributes_of(cls).items() if len(text.split()) < 2] == []
    if dataclasses.is_dataclass(cls):
        check = getattr(cls, "__post_init__", None)
        undocumented = {field.name for field in dataclasses.fields(cls)} - set(attributes_of(cls))
    else:
        check = cls.__init__
        undocumented = {name for name in parameters_of(check) if not is_named(name, doc)}
    assert undocumented == set()
    for error in raised_in(check) if check else ():
        assert re.search(rf"Raises .*`{error}`", doc, re.DOTALL), error
