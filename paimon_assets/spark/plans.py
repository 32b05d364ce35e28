"""Spark's plans as Python sees them: their parts, and the columns that a column is made of.

Spark gives every column of a plan an id that lives on upwards; an alias has a new one and knows the
ids it refers to. Spark Connect shows no plan.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

Origin = tuple[int, str]


def attribute_id(attribute: Any) -> int:
    """Return the id that a column keeps in all plans above."""
    return int(attribute.exprId().id())


def class_of(thing: Any) -> str:
    """Return the full name of a class of the JVM."""
    return str(thing.getClass().getName())


def items(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala sequence."""
    return (sequence.apply(number) for number in range(sequence.size()))


def column_origins(
    frame: DataFrame, inputs: Sequence[DataFrame]
) -> dict[str, frozenset[Origin] | None]:
    """Return for each column the columns of inputs it is made of; None is not known."""
    plan = _analyze(frame)
    if plan is None or "subquery#" in plan.toString():
        return {}
    known: dict[int, frozenset[Origin]] = {}
    roots = [_analyze(each) for each in inputs]
    for number, root in enumerate(roots):
        for attribute in items(root.output()):
            known[attribute_id(attribute)] = frozenset({(number, attribute.name())})
    made: dict[int, set[int]] = {}
    _define(plan, roots, made)
    columns = [(attribute.name(), attribute_id(attribute)) for attribute in items(plan.output())]
    return {name: _resolve(found, known, made, frozenset()) for name, found in columns}


def _analyze(frame: DataFrame) -> Any:
    jdf = getattr(frame, "_jdf", None)
    return None if jdf is None else jdf.queryExecution().analyzed()


def _define(node: Any, roots: Sequence[Any], made: dict[int, set[int]]) -> None:
    """Note what the ids of a plan are made of, down to the inputs."""
    if any(node.equals(root) for root in roots):
        return
    again = [root for root in roots if node.sameResult(root)]
    if len(again) == 1:  # a union of what shares an input gives that new ids on one side
        for own, first in zip(items(node.output()), items(again[0].output()), strict=True):
            made.setdefault(attribute_id(own), set()).update(
                {attribute_id(first)} - {attribute_id(own)}
            )
        return
    children = list(items(node.children()))
    if node.nodeName() == "Union":
        outputs = [[attribute_id(each) for each in items(child.output())] for child in children]
        for position, output in enumerate(items(node.output())):
            sides = {side[position] for side in outputs} - {attribute_id(output)}
            made.setdefault(attribute_id(output), set()).update(sides)
    for expression in items(node.expressions()):
        if expression.nodeName() == "Alias":
            references = items(expression.references().toSeq())
            made.setdefault(attribute_id(expression), set()).update(map(attribute_id, references))
    for child in children:
        _define(child, roots, made)


def _resolve(
    found: int, known: dict[int, frozenset[Origin]], made: dict[int, set[int]], seen: frozenset[int]
) -> frozenset[Origin] | None:
    """Return what an id is made of, None if a part of it is neither known nor made."""
    if found not in known and found not in made:
        return None
    origins = known.get(found, frozenset())
    for part in made.get(found, set()) - seen:
        below = _resolve(part, known, made, seen | {found})
        if below is None:
            return None
        origins |= below
    return origins
