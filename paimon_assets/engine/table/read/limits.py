"""Parts that a read can leave out: splits and rows beyond a limit, unsupported filters."""

from collections.abc import Generator, Iterable, Sequence

import pyarrow as pa

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import (
    Predicate,
    all_of,
    bind,
    conjuncts,
    fields_of,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.table.read.row_count import is_counted, visible_rows


def first_splits(
    context: ReadContext, splits: Sequence[DataSplit], limit: int | None
) -> tuple[DataSplit, ...]:
    """Return splits that definitely hold `limit` rows, by metadata; all for None."""
    whole = fields_of(context.predicate) <= set(context.schema.partition_keys)
    if limit is None or not whole:
        return tuple(splits)
    chosen, left = [], limit
    for split in splits:
        if left <= 0:
            break
        chosen.append(split)
        left -= visible_rows(split) if is_counted(split) else 0
    return tuple(chosen)


def first_rows(
    batches: Iterable[pa.RecordBatch], limit: int
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the first rows, and read no further."""
    left = limit
    if left <= 0:
        return
    for batch in batches:
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def fitting_parts(predicate: Predicate | None, schema: TableSchema) -> Predicate | None:
    """Return the conjuncts that look at columns of a table, with values of their types."""
    return all_of(part for part in conjuncts(predicate) if _fits(part, schema))


def _fits(part: Predicate, schema: TableSchema) -> bool:
    try:
        bind(part, schema)
    except InvalidInputError:
        return False
    return True
