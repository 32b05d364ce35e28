"""Rows with new columns or wider types: refused, or the table changes before they are written."""

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import CommitConflictError, EmbeddedExecutor, InvalidInputError, Schema
from paimon_assets.engine.control.compact import CompactStrategy
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.types.data_types import bigint, integer
from paimon_assets.engine.table.schema_merging import merging_changes
from tests.testkit.errors import refused
from tests.testkit.tables import new_table

EXECUTOR = EmbeddedExecutor()
MERGING = {"write.merge-schema": "true"}
WIDENING = {**MERGING, "write.merge-schema.type-widening": "true"}


def table_of(catalog, columns=None, *, name="db.t", options=None, **declared):
    schema = Schema.of(columns or {"id": "INT", "v": "INT"}, options=options or {}, **declared)
    return new_table(catalog, schema, name=name)


def write(table, rows):
    return table.new_write_builder().write(rows)


def rows_of(table):
    return table.refresh().to_arrow().to_pylist()


def ints(*values):
    return pa.array(values, pa.int32())


def types_of(table):
    return {field.name: str(field.type) for field in table.refresh().schema.fields}


def test_new_column_is_refused_unless_allowed(catalog):
    table = table_of(catalog)
    with refused(
        InvalidInputError, r"does not have.*write\.merge-schema.*: w\.", kind="input-columns"
    ):
        write(table, pa.table({"id": ints(1), "v": ints(2), "w": ["x"]}))
    assert len(table.schemas()) == 1


def test_new_columns_are_added_and_absent_ones_are_null(catalog):
    table = table_of(catalog, options=MERGING)
    write(table, pa.table({"id": ints(1), "v": ints(2)}))
    write(table, pa.table({"id": ints(2), "w": ["x"], "at": [dt.date(2024, 1, 2)]}))
    write(table, pa.table({"id": ints(3), "w": ["y"]}))
    assert rows_of(table) == [
        {"id": 1, "v": 2, "w": None, "at": None},
        {"id": 2, "v": None, "w": "x", "at": dt.date(2024, 1, 2)},
        {"id": 3, "v": None, "w": "y", "at": None},
    ]
    assert len(table.refresh().schemas()) == 2


def test_type_is_widened_only_on_request(catalog):
    table = table_of(catalog, options=MERGING)
    with pytest.raises(InvalidInputError, match="not every value"):
        write(table, pa.table({"id": ints(1), "v": pa.array([2**40])}))
    wide = table_of(catalog, name="db.wide", options=WIDENING)
    write(wide, pa.table({"id": ints(1), "v": ints(7)}))
    write(wide, pa.table({"id": ints(2), "v": pa.array([2**40])}))
    write(wide.refresh(), pa.table({"id": ints(3), "v": ints(9)}))
    assert [row["v"] for row in rows_of(wide)] == [7, 2**40, 9]
    assert types_of(wide)["v"] == "BIGINT"


def test_key_is_never_widened(catalog):
    table = table_of(catalog, primary_keys=["id"], options={**WIDENING, "bucket": "1"})
    write(table, pa.table({"id": pa.array([1]), "v": ints(7)}))
    assert types_of(table) == {"id": "INT NOT NULL", "v": "INT"}
    with pytest.raises(InvalidInputError, match="column 'id'"):
        write(table, pa.table({"id": pa.array([2**40]), "v": ints(7)}))


def test_refused_value_leaves_schema_as_it_was(catalog):
    draw = random.Random(50)  # noqa: S311
    bad_columns = {  # each refused by another check, while the rows are read or written
        "id": pa.array([1, None]),
        "v": pa.array([5, 2**40]),
        "text": pa.array(["fits", "is too long"]),
        "at": pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, microsecond=1)]),
    }
    good = {
        "id": pa.array([1, 2]), "v": pa.array([5, 6]), "text": pa.array(["a", "b"]),
        "at": pa.array([dt.datetime(2024, 1, 1)] * 2),
    }  # fmt: skip
    added = {"more": pa.array([0.5, None]), "words": pa.array([["a"], []])}
    declared = {"id": "INT NOT NULL", "v": "INT", "text": "VARCHAR(4)", "at": "TIMESTAMP(3)"}
    for number, name in enumerate(draw.choices([*bad_columns], k=24)):
        keys = draw.choice([[], ["id"]])
        table = table_of(
            catalog, declared, name=f"db.t{number}", primary_keys=keys,
            options=MERGING | ({"bucket": draw.choice(["1", "-1"])} if keys else {}),
        )  # fmt: skip
        extra = {key: added[key] for key in draw.sample([*added], k=draw.randint(1, 2))}
        bad = {**good, name: bad_columns[name], **extra}
        as_frame = draw.choice([lambda rows: rows, pa.Table.to_reader])
        with pytest.raises(InvalidInputError, match=f"column '{name}'|'{name}'"):
            write(table, as_frame(pa.table(bad)))
        assert len(table.refresh().schemas()) == 1
        assert not list(Path(table.path).rglob("data-*"))
        write(table, as_frame(pa.table({**good, **extra})))
        assert {*rows_of(table)[0]} == {*declared, *extra}


def test_rows_are_rewritten_after_concurrent_new_column(catalog):
    """A stream is read once: its write is refused, and its files are removed."""
    table = table_of(catalog, options=MERGING)

    def adding(name):
        def check():
            if name not in table.refresh().schema.by_name:
                table.refresh().alter([sc.AddColumn(field_names=(name,), data_type=integer())])

        return table.new_write_builder().with_last_check(check)

    mine = pa.table({"id": ints(1), "v": ints(2), "w": ints(3)})
    adding("other").write(mine)
    assert rows_of(table) == [{"id": 1, "v": 2, "other": None, "w": 3}]
    adding("x").write(mine.rename_columns(["id", "v", "x"]))  # the very same column
    assert rows_of(table)[1]["x"] == 3
    with refused(CommitConflictError, "write the rows again", kind="schema-conflict"):
        adding("third").write(mine.rename_columns(["id", "v", "y"]).to_reader())
    assert [*types_of(table)] == ["id", "v", "other", "w", "x", "third"]
    live = {entry.file.file_name for entry in table.refresh().state.live_files()}
    assert {path.name for path in Path(table.path).rglob("data-*")} == live


@pytest.mark.parametrize(
    ("column", "given", "becomes"),
    [
        ("FLOAT", pa.float64(), "DOUBLE"),
        ("DOUBLE", pa.float32(), None),
        ("BIGINT", pa.int8(), None),
        ("BIGINT", pa.float64(), None),
        ("INT", pa.string(), None),
        ("DECIMAL(5, 2)", pa.decimal128(9, 2), "DECIMAL(9, 2)"),
        ("DECIMAL(5, 2)", pa.decimal128(9, 3), None),
        ("VARCHAR(5)", pa.string(), "STRING"),
        ("CHAR(5)", pa.string(), "STRING"),
        ("STRING", pa.large_string(), None),
        ("TIMESTAMP(3)", pa.timestamp("us"), "TIMESTAMP(6)"),
        ("TIMESTAMP(6)", pa.timestamp("ms"), None),
        ("TIMESTAMP(3)", pa.timestamp("us", "UTC"), None),
        ("INT", pa.null(), None),
    ],
)
def test_widened_types_keep_values(column, given, becomes, catalog):
    table = table_of(catalog, {"id": "INT", "c": column}, options=WIDENING)
    changes = merging_changes(table.schema, pa.schema([("c", given)]), table="db.t")
    assert [str(change.new_data_type) for change in changes] == ([becomes] if becomes else [])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"ID": ints(1)}, "the table has 'id'"),
        ({"w": pa.nulls(1)}, "cast the column first"),
        ({"w": pa.array([dt.timedelta(1)])}, "cast the column first"),
    ],
)
def test_unaddable_column_is_named_and_changes_nothing(catalog, column, message):
    table = table_of(catalog, options=MERGING)
    with pytest.raises(InvalidInputError, match=message) as caught:
        write(table, pa.table({"id": ints(1), "v": ints(2), **column}))
    assert (caught.value.kind, caught.value.details["table"]) == ("merge-schema", "db.t")
    assert len(table.schemas()) == 1


def test_writer_opened_before_change_continues(catalog):
    first, second = table_of(catalog, options=MERGING), catalog.get_table("db.t")
    write(first, pa.table({"id": ints(1), "v": ints(1), "w": ints(1)}))
    write(second, pa.table({"id": ints(2), "v": ints(2), "w": ints(2)}))
    assert [row["w"] for row in rows_of(first)] == [1, 2]
    assert len(first.refresh().schemas()) == 2


def with_default(table, text, name="v"):
    return table.alter([sc.UpdateColumnDefaultValue(field_names=(name,), new_default_value=text)])


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("INT", "5", 5),
        ("STRING", "'a b'", "a b"),
        ("STRING", "it's", "it's"),
        ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
        ("BOOLEAN", "true", True),
    ],
)
def test_nulls_and_absent_columns_become_default(catalog, column, text, value):
    table = with_default(table_of(catalog, {"id": "INT", "v": column}), text)
    write(table, pa.table({"id": ints(1)}))
    write(table, pa.table({"id": ints(2, 3), "v": pa.array([None, value])}))
    assert [row["v"] for row in rows_of(table)] == [value] * 3


def test_default_does_not_allow_null_key(catalog):
    table = table_of(catalog, {"id": "INT", "v": "INT NOT NULL"})
    table = with_default(table, "5")
    with pytest.raises(InvalidInputError, match="NOT NULL"):
        write(table, pa.table({"id": ints(1), "v": ints(None)}))
    write(table, pa.table({"id": ints(1)}))
    assert rows_of(table) == [{"id": 1, "v": 5}]


TO_BIGINT = sc.UpdateColumnType(field_names=("v",), new_data_type=bigint())


@pytest.fixture
def table(catalog):
    return new_table(catalog, {"id": "BIGINT", "v": "DOUBLE"}, rows(1, 2.0))


def rows(number, value, **more):
    columns = {name: pa.array([item]) for name, item in more.items()}
    return pa.table({"id": pa.array([number], pa.int64()), "v": pa.array([value]), **columns})


def read(catalog):
    return catalog.get_table("db.t").to_arrow().to_pylist()


def test_value_unfit_for_newest_type_is_refused(catalog, table):
    table.alter_checked([TO_BIGINT])
    with pytest.raises(InvalidInputError, match=r"column 'v' is BIGINT.*2\.5"):
        table.new_write_builder().write(rows(2, 2.5))
    table.new_write_builder().write(rows(3, 3))
    assert [row["v"] for row in read(catalog)] == [2, 3]


def test_column_that_was_dropped_takes_no_values(catalog, table):
    table.alter([sc.drop_column("v")])
    with pytest.raises(InvalidInputError, match=r"columns.* v"):
        table.new_write_builder().write(rows(2, 2.5))
    assert read(catalog) == [{"id": 1}]


def test_new_columns_and_wider_integers_conflict_with_no_writer(catalog, table):
    table.alter([sc.AddColumn(field_names=("w",), data_type=integer())])
    table.new_write_builder().write(rows(2, 2.5))
    assert read(catalog)[1] == {"id": 2, "v": 2.5, "w": None}


@pytest.mark.way_out("schema-changed")
def test_change_between_planning_and_commit_is_conflict(catalog, table):
    builder = table.new_write_builder()
    messages = EXECUTOR.map_rows(builder.prepare(), rows(2, 2.5)).messages
    table.alter([TO_BIGINT])
    with refused(CommitConflictError, "column 'v'", kind="schema-changed"):
        builder.commit(messages)
    assert read(catalog) == [{"id": 1, "v": 2}]
    write(table.refresh(), rows(2, 2))
    assert len(read(catalog)) == 2


def test_rows_in_memory_are_rewritten_after_schema_change(catalog):
    table = new_table(catalog, {"id": "BIGINT", "v": "BIGINT"})
    to_int = sc.UpdateColumnType(field_names=("v",), new_data_type=integer())

    def alter():
        if catalog.get_table("db.t").schema.id == 0:
            table.alter([to_int])

    table.new_write_builder().with_last_check(alter).write(rows(2, 3))
    assert read(catalog) == [{"id": 2, "v": 3}]
    (entry,) = table.state.live_files()
    assert entry.file.schema_id == 1


@pytest.mark.parametrize("keyed", [False, True])
def test_earlier_opened_compaction_keeps_new_columns(catalog, keyed):
    keys = {"primary_keys": ["id"], "options": {"bucket": "1"}} if keyed else {}
    table = new_table(catalog, {"id": "BIGINT", "v": "DOUBLE"}, rows(1, 2.0), **keys)
    newer = table.alter([sc.AddColumn(field_names=("w",), data_type=integer())])
    newer.new_write_builder().write(rows(2, 2.5, w=7))
    compaction = table.new_compaction_builder().with_strategy(CompactStrategy.FULL)
    assert compaction.run().snapshot is not None
    assert read(catalog) == [{"id": 1, "v": 2.0, "w": None}, {"id": 2, "v": 2.5, "w": 7}]


def test_earlier_opened_update_keeps_new_columns(catalog, table):
    newer = table.alter([sc.AddColumn(field_names=("w",), data_type=integer())])
    newer.new_write_builder().write(rows(2, 2.5, w=7))
    table.new_row_change_builder().update({"v": 9.0}, "id = 2")
    assert read(catalog)[1] == {"id": 2, "v": 9.0, "w": 7}
