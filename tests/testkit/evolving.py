"""Tables whose columns are in several files: changes of them, also beside other writers."""

import pyarrow as pa
import pyarrow.compute as pc

from tests.testkit.tables import EXECUTOR

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def update(table, assignments, where=None):
    return table.new_row_change_builder().update(assignments, where, EXECUTOR)


def files(table, *facts):
    """Return facts of the live data files, sorted."""
    splits = table.new_read_builder().plan().splits
    listed = [file for split in splits for file in split.data_files]
    return sorted(tuple(getattr(file, fact) for fact in facts) for file in listed)


def beside(table, first, other):
    """Let another commit come between the plan of a change and its commit."""
    done = []

    def condition(_latest):
        if not done:
            done.append(other())

    return first(table.new_row_change_builder().with_condition(condition))


class Doubling:
    """Doubles n, and remembers which keys it was given; how many rows, if keys are not read."""

    def __init__(self, factor=2, then=None):
        self.seen, self.factor, self.then = [], factor, then

    def __call__(self, rows):
        has_keys = "k" in rows.column_names
        self.seen.append(sorted(rows["k"].to_pylist()) if has_keys else rows.num_rows)
        if self.then is not None:
            then, self.then = self.then, None
            then()
        return pa.table({"score": pc.multiply(rows["n"].cast(pa.int64()), self.factor)})
