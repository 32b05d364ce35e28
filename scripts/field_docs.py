"""For the reference: descriptions of pydantic fields become docstrings, examples become code."""

import re
from importlib import import_module
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n+(?:(?<=\n)>>> .*|(?<!\n\n).+))*", re.MULTILINE)
"""Statements with their output; a blank line may be between two of them."""


class FieldDocs(griffe.Extension):
    """Gives each pydantic field its description and default, and each example a code block."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Look at all classes of the package."""
        _document(pkg)


def _document(owner: griffe.Object) -> None:
    for member in owner.members.values():
        if isinstance(member, griffe.Object) and member.docstring:
            text = member.docstring.value  # Markdown would show `>>>` as a quotation
            member.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", text)
        if isinstance(member, griffe.Module | griffe.Class):
            _document(member)
        elif isinstance(member, griffe.Attribute) and str(member.value).startswith("Field("):
            _document_field(member)


def _document_field(attribute: griffe.Attribute) -> None:
    attribute.value = None
    model = getattr(import_module(attribute.module.path), attribute.parent.name)
    field = model.model_fields[attribute.name]
    if not field.is_required():
        attribute.value = "…" if field.default_factory else repr(field.default)
    if field.description:
        attribute.docstring = griffe.Docstring(field.description, parent=attribute)
