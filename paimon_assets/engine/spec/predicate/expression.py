"""Expression: the value a column gets, computed from the other columns of its row.

    ColumnValue      a column
    SourceValue      a column of the rows that are merged into the table
    LiteralValue     a value
    Operation        + - * /, || (texts), coalesce, round, over expressions

As in SQL, an operation over a null is null, except coalesce; integers divide to a double.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.literals import Literal, to_internal


class Operator(StrEnum):
    """An operator of an expression."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    CONCAT = "||"
    COALESCE = "coalesce"
    """The first operand that is not null."""
    ROUND = "round"
    """The first operand, to as many digits as the second says."""


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """The row's value of a column, before the change."""

    name: str


@dataclass(frozen=True, slots=True)
class SourceValue:
    """The value of a column of the source's row that matches, where rows are merged."""

    name: str


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """The same value for every row."""

    value: Literal


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its operands."""

    operator: Operator
    operands: tuple["Expression", ...]


Expression = ColumnValue | SourceValue | LiteralValue | Operation


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = expression`."""

    column: str
    expression: Expression


def bind_assignments(
    assignments: Mapping[str, Expression | Literal],
    schema: TableSchema,
    source: Collection[str] = (),
) -> tuple[Assignment, ...]:
    """Check the columns of assignments, and turn plain values into internal values."""
    bound = []
    for name, given in assignments.items():
        column = schema.column(name)
        expression = given if isinstance(given, Expression) else LiteralValue(given)
        for used in _used(expression, ColumnValue):
            schema.column(used)
        unknown = sorted(_used(expression, SourceValue) - set(source))
        if unknown:
            raise NotFoundError(
                f"There is no column 'source.{unknown[0]}' for column '{name}'; the source has"
                f" {', '.join(source) or 'none'}.",
                kind="column-not-found",
                details={"column": unknown[0]},
            )
        if isinstance(expression, LiteralValue):
            expression = LiteralValue(to_internal(expression.value, column.type, name))
        bound.append(Assignment(name, expression))
    return tuple(bound)


def _used(expression: Expression, kind: type[ColumnValue | SourceValue]) -> frozenset[str]:
    """Return the names of the columns of a kind that an expression looks at."""
    if isinstance(expression, Operation):
        return frozenset().union(*(_used(operand, kind) for operand in expression.operands))
    return frozenset({expression.name}) if isinstance(expression, kind) else frozenset()
