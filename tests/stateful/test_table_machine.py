"""A table does what a dict does, whatever is written and whenever it is read."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, stateful
from hypothesis import strategies as st

from paimon_assets import EmbeddedExecutor, Schema, open_catalog, open_table
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome
from tests.testkit.effort import often
from tests.testkit.model import ModelTable, Row
from tests.testkit.rows import plain_rows, rows_to_arrow
from tests.testkit.strategies import TEXTS, rows_of

COLUMNS = {
    "part": "STRING",
    "id": "INT",
    "op_time": "INT",
    "kind": "STRING",
    "amount": "DECIMAL(12, 2)",
    "text": "STRING",
    "at": "TIMESTAMP(6)",
}
PARTS = ["a", "b/ä", "c=1"]
KINDS = ["+I", "-U", "+U", "-D"]
PADDINGS = ["", "row-kind-flag", "second-to-micro", "row-kind-flag,second-to-micro"]

_SETTINGS = settings(
    max_examples=often(16),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def _schemas(draw: st.DrawFn) -> Schema:
    """Draw a table of one of all kinds this engine writes."""
    partitioned = draw(st.booleans())
    partition_keys = ["part"] if partitioned else []
    if not draw(st.integers(0, 3)):
        return Schema.of(COLUMNS, partition_keys=partition_keys, options={"bucket": "-1"})
    options = {"bucket": str(draw(st.integers(1, 3)))}
    if draw(st.booleans()):
        options["rowkind.field"] = "kind"
    if draw(st.booleans()):
        options["sequence.field"] = "op_time"
        if padding := draw(st.sampled_from(PADDINGS)):
            options["sequence.auto-padding"] = padding
            options["bucket"] = "1"  # the model knows no buckets
    if draw(st.booleans()):
        options[draw(st.sampled_from(["ignore-delete", "ignore-update-before"]))] = "true"
    return Schema.of(
        COLUMNS,
        partition_keys=partition_keys,
        primary_keys=[*partition_keys, "id"],
        options=options,
    )


class TableMachine(stateful.RuleBasedStateMachine):
    """Writes to a table and to a model; both must hold the same rows ever after."""

    def __init__(self) -> None:
        super().__init__()
        self._warehouse = Path(tempfile.mkdtemp(prefix="table-machine-"))

    def teardown(self) -> None:
        shutil.rmtree(self._warehouse, ignore_errors=True)

    @stateful.initialize(schema=_schemas())
    def create(self, schema: Schema) -> None:
        catalog = open_catalog(str(self._warehouse))
        catalog.create_database("d")
        self._schema = schema
        self._table = catalog.create_table("d.t", schema)
        self._model = ModelTable(schema)
        self._snapshot_ids: list[int] = []

    @stateful.rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        self._commit(self._draw_rows(data, PARTS))

    @stateful.rule(data=st.data())
    def overwrite_the_partitions_of_the_rows(self, data: st.DataObject) -> None:
        rows = self._draw_rows(data, PARTS)
        outcome = self._write(self._table.new_write_builder().with_dynamic_overwrite(), rows)
        assert (outcome.snapshot is not None) == self._model.overwrite(rows, None)
        self._remember(outcome)

    @stateful.rule(data=st.data(), part=st.sampled_from(PARTS))
    def overwrite_one_partition(self, data: st.DataObject, part: str) -> None:
        partitioned = bool(self._schema.partition_keys)
        spec = {"part": part} if partitioned else {}
        rows = self._draw_rows(data, [part])
        outcome = self._write(self._table.new_write_builder().with_overwrite(spec), rows)
        self._model.overwrite(rows, lambda row: row["part"] == part or not partitioned)
        self._remember(outcome)

    @stateful.precondition(lambda self: self._schema.partition_keys)
    @stateful.rule(parts=st.sets(st.sampled_from(PARTS), min_size=1))
    def drop_partitions(self, parts: set[str]) -> None:
        made = self._table.drop_partitions([{"part": part} for part in sorted(parts)])
        self._model.overwrite([], lambda row: row["part"] in parts)
        self._snapshot_ids.append(made.id)

    def _draw_rows(self, data: st.DataObject, parts: list[str]) -> list[Row]:
        padded = "sequence.auto-padding" in self._schema.options
        op_times = st.integers(0, 5)
        given: dict[str, st.SearchStrategy[Any]] = {
            "part": st.sampled_from(parts),
            "id": st.integers(0, 8),
            "op_time": op_times if padded else st.none() | op_times,
            "kind": st.sampled_from(KINDS),
            "text": st.none() | TEXTS,
        }
        return data.draw(st.lists(rows_of(self._schema, given), max_size=12))

    @stateful.precondition(lambda self: self._model.version_count)
    @stateful.rule()
    def write_the_same_rows_again(self) -> None:
        self._commit(self._model.rows())

    @stateful.rule()
    def reopen(self) -> None:
        self._table = open_table(str(self._table.path))

    @stateful.precondition(lambda self: self._model.version_count)
    @stateful.rule(data=st.data())
    def travel_in_time(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(1, self._model.version_count))
        reader = self._table.new_read_builder().at_snapshot(self._snapshot_ids[version - 1])
        self._agree(reader.to_arrow(), self._model.rows(version))

    @stateful.rule(key=st.integers(0, 8), part=st.sampled_from(PARTS))
    def filter(self, key: int, part: str) -> None:
        where = f"id = {key} AND part = '{part}'"
        found = self._table.new_read_builder().with_filter(where).to_arrow()
        kept = [row for row in self._model.rows() if row["id"] == key and row["part"] == part]
        self._agree(found, kept)

    @stateful.invariant()
    def table_and_model_hold_the_same_rows(self) -> None:
        self._agree(self._table.new_read_builder().to_arrow(), self._model.rows())

    def _commit(self, rows: list[Row]) -> None:
        outcome = self._write(self._table.new_write_builder(), rows)
        assert (outcome.snapshot is not None) == self._model.write(rows)
        self._remember(outcome)

    def _write(self, writer: WriteBuilder, rows: list[Row]) -> WriteOutcome:
        return writer.write(rows_to_arrow(rows, self._schema), EmbeddedExecutor(threads=1))

    def _remember(self, outcome: WriteOutcome) -> None:
        if outcome.snapshot is not None:
            self._snapshot_ids.append(outcome.snapshot.id)

    def _agree(self, found: Any, expected: list[Row]) -> None:
        table = rows_to_arrow(expected, self._schema)
        assert plain_rows(found, COLUMNS) == plain_rows(table, COLUMNS)


@pytest.mark.hunt
def test_a_table_and_its_model_agree() -> None:
    stateful.run_state_machine_as_test(TableMachine, settings=_SETTINGS)
