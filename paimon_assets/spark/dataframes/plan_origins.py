"""Which columns of given DataFrames a DataFrame's columns are made of, by its analyzed plan.

Spark gives every column of a plan an id that lives on upwards; an alias has a new one and knows the
ids it refers to. Spark Connect shows no plan.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

Origin = tuple[int, str]


def column_origins(
    frame: DataFrame, inputs: Sequence[DataFrame]
) -> dict[str, frozenset[Origin] | None]:
    """Return for each column the columns of inputs it is made of; None is not known.

    Cost:
        Some calls into the JVM for each column of each node; nothing is executed.
    """
    plan = _analyze(frame)
    if plan is None or "subquery#" in plan.toString():
        return {}
    known: dict[int, frozenset[Origin]] = {}
    roots = [_analyze(each) for each in inputs]
    for number, root in enumerate(roots):
        for attribute in _items(root.output()):
            known[_id(attribute)] = frozenset({(number, attribute.name())})
    made: dict[int, set[int]] = {}
    _define(plan, roots, made)
    columns = [(attribute.name(), _id(attribute)) for attribute in _items(plan.output())]
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
        for own, first in zip(_items(node.output()), _items(again[0].output()), strict=True):
            made.setdefault(_id(own), set()).update({_id(first)} - {_id(own)})
        return
    children = list(_items(node.children()))
    if node.nodeName() == "Union":
        outputs = [[_id(each) for each in _items(child.output())] for child in children]
        for position, output in enumerate(_items(node.output())):
            sides = {side[position] for side in outputs} - {_id(output)}
            made.setdefault(_id(output), set()).update(sides)
    for expression in _items(node.expressions()):
        if expression.nodeName() == "Alias":
            references = _items(expression.references().toSeq())
            made.setdefault(_id(expression), set()).update(map(_id, references))
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


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))
