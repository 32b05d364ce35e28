"""Rows and assignments → the rows with their new values, column by column."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.merge.engine_traits import EngineTraits
from paimon_assets.engine.spec.options.all_options import MERGE_ENGINE
from paimon_assets.engine.spec.predicate.expression import (
    Assignment,
    ColumnValue,
    Expression,
    LiteralValue,
    Operation,
    Operator,
    SourceValue,
)
from paimon_assets.engine.spec.schema.schema import TableSchema

_CHECKED: Mapping[Operator, Callable[[Any, Any], Any]] = {
    Operator.ADD: pc.add_checked,
    Operator.SUBTRACT: pc.subtract_checked,
    Operator.MULTIPLY: pc.multiply_checked,
    Operator.DIVIDE: pc.divide_checked,
}


@dataclass(slots=True, kw_only=True)
class RowUpdate:
    """Gives rows new values."""

    table: str
    """For messages."""
    schema: TableSchema
    assignments: Sequence[Assignment]
    _check: InputCheck = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the check that new values must pass."""
        new = frozenset(each.column for each in self.assignments)
        self._check = InputCheck(table=self.table, schema=self.schema, new=new)

    def apply(self, rows: pa.RecordBatch, source: pa.RecordBatch | None = None) -> pa.RecordBatch:
        """Return rows, which hold all columns of the table, with their new values."""
        new = {each.column: self._values(each, rows, source) for each in self.assignments}
        columns = [new.get(name, rows.column(name)) for name in self.schema.field_names]
        changed = pa.RecordBatch.from_arrays(columns, names=list(self.schema.field_names))
        checked = self._check.conform(changed)
        if EngineTraits.of(self.schema).null_keeps_value:
            self._refuse_nulls(checked)
        return checked

    def _refuse_nulls(self, changed: pa.RecordBatch) -> None:
        """Refuse nulls where they leave a column as it is."""
        engine = EngineTraits.of(self.schema).engine
        for each in self.assignments:
            if changed.column(each.column).null_count:
                raise UnsupportedFeatureError(
                    f"Cannot update rows of table '{self.table}': column '{each.column}' would"
                    f" become null, and '{MERGE_ENGINE.key}' = {engine} keeps the old value"
                    " then. Delete the rows and write them again.",
                    kind="row-update",
                    details={"table": self.table, "column": each.column},
                )

    def _values(
        self, assignment: Assignment, rows: pa.RecordBatch, source: pa.RecordBatch | None
    ) -> Any:
        target = self.schema.column(assignment.column)
        expression = assignment.expression
        if isinstance(expression, LiteralValue):
            scalar = _typed_scalar(expression.value, target.type)
            return pa.repeat(scalar, rows.num_rows)
        try:
            value = evaluate(expression, rows, source)
            is_column = isinstance(value, pa.Array | pa.ChunkedArray)
            return value if is_column else pa.repeat(value, rows.num_rows)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"Table '{self.table}': the new values of column '{target.name}' cannot be"
                f" computed: {error}.",
                kind="expression",
                details={"table": self.table, "column": target.name},
            ) from error


def _typed_scalar(value: Any, data_type: Any) -> Any:
    """Return a literal in the type of its column; one that does not fit is left to the check."""
    arrow_type = to_arrow_type(data_type)
    if value is None:
        return pa.scalar(None, arrow_type)
    scalar = to_scalar(value, data_type)
    try:
        return scalar.cast(arrow_type)
    except pa.ArrowInvalid:
        return scalar


def evaluate(expression: Expression, rows: pa.RecordBatch, source: pa.RecordBatch | None) -> Any:
    """Return the values of an expression, as an Arrow array or, for a constant, a scalar."""
    match expression:
        case ColumnValue(name=name):
            return rows.column(name)
        case SourceValue(name=name):
            if source is None:
                raise ValueError(f"there is no source to take '{name}' from")
            return source.column(name)
        case LiteralValue(value=value):
            constant: Any = value
            return pa.scalar(constant)
        case Operation(operator=operator, operands=operands):
            values = [evaluate(each, rows, source) for each in operands]
            return _operated(operator, values, operands)
        case _:
            assert_never(expression)


def _operated(operator: Operator, values: list[Any], operands: Sequence[Expression]) -> Any:
    if operator is Operator.ROUND:
        digits = values[1].as_py() if len(values) > 1 else 0
        return pc.round(values[0], ndigits=digits, round_mode="half_towards_infinity")
    values = _of_one_kind(values, operands)
    match operator:
        case Operator.CONCAT:
            return pc.binary_join_element_wise(*values, "")
        case Operator.COALESCE:
            return pc.coalesce(*values)
        case Operator.DIVIDE if all(pat.is_integer(value.type) for value in values):
            values = [value.cast(pa.float64()) for value in values]
        case _:
            pass
    result = values[0]
    for value in values[1:]:
        result = _CHECKED[operator](result, value)
    return result


def _of_one_kind(values: list[Any], operands: Sequence[Expression]) -> list[Any]:
    """Give literals the type of the columns they meet, where that loses nothing that matters."""
    types = [
        value.type
        for value, operand in zip(values, operands, strict=True)
        if not isinstance(operand, LiteralValue)
    ]
    if not types:
        return values
    wanted = next((each for each in types if pat.is_floating(each)), types[0])
    pairs = zip(values, operands, strict=True)
    return [_like(value, operand, wanted) for value, operand in pairs]


def _like(value: Any, operand: Expression, wanted: Any) -> Any:
    if not isinstance(operand, LiteralValue):
        return value
    literal = operand.value
    if literal is None:
        return pa.scalar(None, wanted)
    if pat.is_floating(wanted) and not isinstance(literal, bool | str):
        return pa.scalar(float(literal), wanted)  # type: ignore[arg-type]  # numbers are left
    if isinstance(literal, str):
        return value.cast(wanted)
    if pat.is_decimal(wanted) and isinstance(literal, int):
        return pa.scalar(Decimal(literal))
    return value
