"""A filter as people give it. Only a text loads sqlglot, which is a tenth of a second a process."""

import pyarrow.compute as pc

from paimon_assets.engine.spec.predicate.predicate import Predicate, no_predicate
from paimon_assets.engine.table.frames.arrow_filter import exact_filter

Where = Predicate | str | pc.Expression
"""A filter as people give it."""


def as_predicate(where: object) -> Predicate:
    """Return a filter as people give it; it is not bound to a schema yet."""
    if isinstance(where, str):
        from paimon_assets.engine.table.read.where import parse_where

        return parse_where(where)
    if isinstance(where, Predicate):
        return where
    predicate = exact_filter(where) if isinstance(where, pc.Expression) else None
    if predicate is None:
        raise no_predicate(where)
    return predicate
