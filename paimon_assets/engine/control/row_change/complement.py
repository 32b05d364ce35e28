"""The rows for which a predicate is not true: false, or unknown.

If statistics rule these out in a file, the predicate is true for all of its rows.
"""

from collections.abc import Iterable
from typing import assert_never

from paimon_assets.engine.spec.predicate.predicate import (
    And,
    Comparison,
    In,
    IsNull,
    Or,
    Predicate,
    StartsWith,
    all_of,
    any_of,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import TypeRoot

_HAS_NAN = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})


def complement(predicate: Predicate, schema: TableSchema) -> Predicate | None:
    """Return a bound predicate that is true wherever `predicate` is not.

    None if there is no such predicate: of a prefix, of a comparison with null, and of comparisons
    of floating point, because NaN is in no statistics.
    """
    match predicate:
        case And(children=children):
            parts = _all(children, schema)
            return None if parts is None else any_of(parts)
        case Or(children=children):
            parts = _all(children, schema)
            return None if parts is None else all_of(parts)
        case IsNull(field=name, negated=negated):
            return IsNull(name, negated=not negated)
        case StartsWith():
            return None
        case Comparison(field=name, op=op, literal=literal):
            if literal is None or schema.column(name).type.root in _HAS_NAN:
                return None
            return Or((Comparison(name, op.negated, literal), IsNull(name)))
        case In(field=name, literals=literals, negated=negated):
            if None in literals or schema.column(name).type.root in _HAS_NAN:
                return None
            return Or((In(name, literals, negated=not negated), IsNull(name)))
        case _:
            assert_never(predicate)


def _all(children: Iterable[Predicate], schema: TableSchema) -> list[Predicate] | None:
    parts = [complement(child, schema) for child in children]
    known = [part for part in parts if part is not None]
    return known if len(known) == len(parts) else None
