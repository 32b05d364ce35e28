"""Spark's plans as Python sees them: classes, sequences, and the ids of columns."""

from collections.abc import Iterator
from typing import Any


def attribute_id(attribute: Any) -> int:
    """Return the id that a column keeps in all plans above."""
    return int(attribute.exprId().id())


def class_of(thing: Any) -> str:
    """Return the full name of a class of the JVM."""
    return str(thing.getClass().getName())


def items(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala sequence."""
    return (sequence.apply(number) for number in range(sequence.size()))
