"""Values that are sets in the bytes of some library: the union of each group's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.merge.aggregate.lists import nested_list
from paimon_assets.engine.data.merge.records import Array, Grouped, run_starts
from paimon_assets.engine.errors import FormatError

Unite = Callable[[list[bytes]], bytes]
"""Two sets or more, oldest first → their union."""


def united_values(
    values: Array, grouped: Grouped, unite: Unite, *, what: str, column: str
) -> Array:
    """Unite the sets of each group; one alone is taken as it is.

    Args:
        values: The column, by row number.
        grouped: Which records make each group.
        unite: Raises one of what libraries raise on bytes that are something else.
        what: A value, in words, for messages.
        column: Its name, for messages.

    Raises:
        FormatError: A value is no such set; names the column.

    Cost:
        A Python loop over the groups that have a value; uniting two sets costs far more.
    """
    present = grouped.valid(values)
    sets: Any = values.take(from_numpy(present.rows))
    lists: Any = nested_list(present.groups, sets, grouped.count)
    united: list[bytes | None] = [None] * grouped.count
    try:
        for group in present.groups[run_starts(present.groups)].tolist():
            members = lists[group].as_py()
            united[group] = members[0] if len(members) == 1 else unite(members)
    except (FormatError, IndexError, MemoryError, RuntimeError, ValueError) as error:
        raise FormatError(
            f"Column '{column}' holds a value that is no {what} ({error}).",
            kind="aggregated-set",
            details={"column": column},
        ) from error
    result: Array = pa.array(united, values.type)
    return result
