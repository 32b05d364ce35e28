"""Aggregate functions: name → kernel, and whether it supports retractions.

A kernel computes one outcome for each group from the values of its records. Kernels of functions
that choose a value return row numbers; all other kernels return values.
Source: `org.apache.paimon.mergetree.compact.aggregate.factory.FieldAggregatorFactory`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct

from paimon_assets.engine.codec.arrow.numpy_columns import Array
from paimon_assets.engine.data.merge.aggregate import nested_rows, picks
from paimon_assets.engine.data.merge.aggregate.lists import collect_elements, join_texts
from paimon_assets.engine.data.merge.aggregate.numbers import multiply_values, sum_values
from paimon_assets.engine.data.merge.aggregate.sets import SKETCHES_EXTRA, has_sketches, unite_sets
from paimon_assets.engine.data.merge.records import Grouped, Outcome
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.merge.merge_rules import AggregateFunction, FieldAggregation

Kernel = Callable[[Array, Grouped], Outcome]

_PLAIN: Mapping[AggregateFunction, Kernel] = {
    AggregateFunction.SUM: sum_values,
    AggregateFunction.MAX: picks.largest,
    AggregateFunction.MIN: picks.smallest,
    AggregateFunction.BOOL_AND: picks.smallest,
    AggregateFunction.BOOL_OR: picks.largest,
    AggregateFunction.LAST_VALUE: picks.last_value,
    AggregateFunction.LAST_NON_NULL_VALUE: picks.last_non_null_value,
    AggregateFunction.FIRST_VALUE: picks.first_value,
    AggregateFunction.FIRST_NON_NULL_VALUE: picks.first_non_null_value,
    AggregateFunction.MERGE_MAP: nested_rows.merge_maps,
    AggregateFunction.PRIMARY_KEY: picks.key_value,
}
_OF_SKETCHES = frozenset({AggregateFunction.THETA_SKETCH, AggregateFunction.HLL_SKETCH})
"""Functions of a library that may not be installed."""
_OF_SETTINGS: Mapping[AggregateFunction, Callable[..., Array]] = {
    AggregateFunction.PRODUCT: multiply_values,
    AggregateFunction.LISTAGG: join_texts,
    AggregateFunction.COLLECT: collect_elements,
    AggregateFunction.MERGE_MAP_WITH_KEYTIME: nested_rows.merge_maps_by_time,
    AggregateFunction.NESTED_UPDATE: nested_rows.update_nested_rows,
    AggregateFunction.NESTED_PARTIAL_UPDATE: nested_rows.update_nested_fields,
    AggregateFunction.RBM32: unite_sets,
    AggregateFunction.RBM64: unite_sets,
    AggregateFunction.THETA_SKETCH: unite_sets,
    AggregateFunction.HLL_SKETCH: unite_sets,
}
_RETRACTABLE = frozenset(
    {
        AggregateFunction.SUM,
        AggregateFunction.PRODUCT,
        AggregateFunction.COLLECT,
        AggregateFunction.MERGE_MAP,
        AggregateFunction.NESTED_UPDATE,
        AggregateFunction.LAST_VALUE,
        AggregateFunction.LAST_NON_NULL_VALUE,
        AggregateFunction.PRIMARY_KEY,
    }
)


class Aggregate(Struct, frozen=True):
    """The aggregate function of one column, ready to compute."""

    settings: FieldAggregation
    table: str
    """For messages."""
    _kernel: Kernel

    @staticmethod
    def of(settings: FieldAggregation, table: str) -> Aggregate:
        function = settings.function
        if function in _OF_SKETCHES and not has_sketches():
            raise UnsupportedFeatureError(
                f"Column '{settings.column}' of table '{table}' has the aggregate function"
                f" {function}, which needs the package 'datasketches': pip install"
                f" '{SKETCHES_EXTRA}'. Files that need no merging (after a full compaction) can be"
                " read without.",
                kind=f"aggregate-function-{function}",
                table=table,
                column=settings.column,
                function=function,
            )
        of_settings = _OF_SETTINGS.get(function)
        kernel = partial(of_settings, settings=settings) if of_settings else _PLAIN[function]
        return Aggregate(settings, table, kernel)

    def __call__(self, values: Array, grouped: Grouped) -> Outcome:
        retracts = grouped.retracts is not None and grouped.retracts.any()
        if not retracts or self.settings.ignore_retract:
            return self._kernel(values, grouped.without_retracts())
        if self.settings.function not in _RETRACTABLE:
            column, function = self.settings.column, self.settings.function
            raise InvalidInputError(
                f"Column '{column}' of table '{self.table}' has the aggregate function {function},"
                " which cannot retract the values of -U and -D records. Set"
                f" 'fields.{column}.ignore-retract' to true to ignore them.",
                kind="retraction",
                table=self.table,
                column=column,
                function=function,
            )
        return self._kernel(values, grouped)
