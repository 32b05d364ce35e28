"""Tables opened before their schema changed: they write by the newest, or nothing changes."""

import pyarrow as pa
import pytest

from paimon_assets.engine.control.compact import CompactStrategy
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import (
    AddColumn,
    UpdateColumnType,
    drop_column,
)
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import bigint, integer
from paimon_assets.engine.table.api import open_catalog

EXECUTOR = EmbeddedExecutor()
TO_BIGINT = UpdateColumnType(field_names=("v",), new_data_type=bigint())


@pytest.fixture
def catalog(tmp_path):
    catalog = open_catalog(str(tmp_path / "warehouse"))
    catalog.create_database("db")
    return catalog


@pytest.fixture
def table(catalog):
    table = catalog.create_table("db.t", Schema.of({"id": "BIGINT", "v": "DOUBLE"}))
    table.new_write_builder().write(rows(1, 2.0), EXECUTOR)
    return table


def rows(number, value, **more):
    columns = {name: pa.array([item]) for name, item in more.items()}
    return pa.table({"id": pa.array([number], pa.int64()), "v": pa.array([value]), **columns})


def read(catalog):
    return catalog.get_table("db.t").new_read_builder().to_arrow(EXECUTOR).to_pylist()


def test_a_value_the_newest_type_has_not_is_refused(catalog, table):
    table.alter_checked([TO_BIGINT])
    with pytest.raises(InvalidInputError, match=r"column 'v' is BIGINT.*2\.5"):
        table.new_write_builder().write(rows(2, 2.5), EXECUTOR)
    table.new_write_builder().write(rows(3, 3), EXECUTOR)
    assert [row["v"] for row in read(catalog)] == [2, 3]


def test_a_column_that_was_dropped_takes_no_values(catalog, table):
    table.alter([drop_column("v")])
    with pytest.raises(InvalidInputError, match=r"columns.* v"):
        table.new_write_builder().write(rows(2, 2.5), EXECUTOR)
    assert read(catalog) == [{"id": 1}]


def test_new_columns_and_wider_integers_disturb_no_writer(catalog, table):
    table.alter([AddColumn(field_names=("w",), data_type=integer())])
    table.new_write_builder().write(rows(2, 2.5), EXECUTOR)
    assert read(catalog)[1] == {"id": 2, "v": 2.5, "w": None}


def test_a_change_between_planning_and_commit_is_a_conflict(catalog, table):
    builder = table.new_write_builder()
    messages = EXECUTOR.map_rows(builder.prepare(), rows(2, 2.5)).messages
    table.alter([TO_BIGINT])
    with pytest.raises(CommitConflictError, match="column 'v'") as caught:
        builder.commit(messages)
    assert caught.value.kind == "schema-changed"
    assert read(catalog) == [{"id": 1, "v": 2}]


def test_rows_at_hand_are_written_anew_when_the_schema_changes_meanwhile(catalog):
    table = catalog.create_table("db.t", Schema.of({"id": "BIGINT", "v": "BIGINT"}))
    to_int = UpdateColumnType(field_names=("v",), new_data_type=integer())

    def alter():
        if catalog.get_table("db.t").schema.id == 0:
            table.alter([to_int])

    table.new_write_builder().with_last_check(alter).write(rows(2, 3), EXECUTOR)
    assert read(catalog) == [{"id": 2, "v": 3}]
    (entry,) = table.state.live_files()
    assert entry.file.schema_id == 1


@pytest.mark.parametrize("keyed", [False, True])
def test_a_compaction_of_a_table_opened_before_keeps_new_columns(catalog, keyed):
    keys = {"primary_keys": ["id"], "options": {"bucket": "1"}} if keyed else {}
    table = catalog.create_table("db.t", Schema.of({"id": "BIGINT", "v": "DOUBLE"}, **keys))
    table.new_write_builder().write(rows(1, 2.0), EXECUTOR)
    newer = table.alter([AddColumn(field_names=("w",), data_type=integer())])
    newer.new_write_builder().write(rows(2, 2.5, w=7), EXECUTOR)
    compaction = table.new_compaction_builder().with_strategy(CompactStrategy.FULL)
    assert compaction.run(EXECUTOR).snapshot is not None
    assert read(catalog) == [{"id": 1, "v": 2.0, "w": None}, {"id": 2, "v": 2.5, "w": 7}]


def test_an_update_of_a_table_opened_before_keeps_new_columns(catalog, table):
    newer = table.alter([AddColumn(field_names=("w",), data_type=integer())])
    newer.new_write_builder().write(rows(2, 2.5, w=7), EXECUTOR)
    table.new_row_change_builder().update({"v": 9.0}, "id = 2", EXECUTOR)
    assert read(catalog)[1] == {"id": 2, "v": 9.0, "w": 7}
