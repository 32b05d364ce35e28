"""Splits as a product: planned here and read there, as Java's DataSplits."""

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets import FormatError, InvalidInputError, Schema, open_table
from paimon_assets.engine.contract.wire import dump_split, load_splits
from paimon_assets.engine.spec.evolution.schema_change import RenameColumn
from tests.testkit.errors import refused
from tests.testkit.foreign import add_segment
from tests.testkit.tables import new_table, write

_WRAPPED = (0x53504C49545F5631).to_bytes(8, "big") + (1).to_bytes(4, "big")


def rows(*ids, text="a"):
    return pa.table({"id": pa.array(ids, pa.int32()), "s": [text] * len(ids)})


def read(builder, data):
    return sorted(
        tuple(row.values()) for row in builder.read(builder.plan_from(data)).read_all().to_pylist()
    )


@pytest.fixture
def table(catalog):
    schema = Schema.of({"id": "INT", "s": "STRING"}, primary_keys=["id"], options={"bucket": "2"})
    table = new_table(catalog, schema, rows(*range(20)))
    write(table, rows(*range(10), text="b"))
    return table


@pytest.mark.parametrize("version", range(2, 9))
def test_splits_alone_carry_plan(table, version):
    data = table.new_read_builder().plan().to_bytes(version)
    write(table, rows(3, text="later"))
    elsewhere = open_table(table.path)
    expected = [(n, "b" if n < 10 else "a") for n in range(20)]
    assert read(elsewhere.new_read_builder(), data) == expected
    builder = elsewhere.new_read_builder().with_columns(["s"]).with_filter("id = 3")
    assert read(builder, data) == [("b",)]


def test_reader_sees_splits_in_its_own_schema(table):
    data = table.new_read_builder().plan().to_bytes()
    table.alter([RenameColumn(field_names=("s",), new_name="z")])
    assert open_table(table.path).new_read_builder().plan_from(data).arrow_schema.names == [
        "id",
        "z",
    ]


def test_splits_are_read_in_pieces_and_versions(table):
    splits = table.new_read_builder().plan().splits
    data = dump_split(splits[0], 3) + dump_split(splits[1], 8)
    assert load_splits(data)[1] == splits[1]
    assert len(read(table.new_read_builder(), data)) == 20


def test_empty_bytes_are_no_plan(table):
    with refused(FormatError, "no bytes", kind="split-empty"):
        table.new_read_builder().plan_from(b"")


def test_splits_of_another_table_are_refused(catalog, table):
    other = new_table(catalog, {"id": "INT", "s": "STRING"}, name="db.other")
    data = table.new_read_builder().plan().to_bytes()
    with refused(InvalidInputError, r"none of table 'db\.other'", kind="split-table"):
        other.new_read_builder().plan_from(data)
    with pytest.raises(FormatError):
        table.new_read_builder().plan_from(data[:-1])


def test_text_splits_are_for_this_engine_only(catalog, tmp_path):
    table = new_table(catalog, {"id": "INT", "s": "STRING"}, name="db.c")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1").write_text("1;x\n")
    add_segment(table, tmp_path / "c", "csv", options={"sep": ";", "header": "false"})
    plan = table.new_read_builder().plan()
    with refused(InvalidInputError, r"/c/1', a csv file of a segment", kind="split-text"):
        plan.to_bytes()
    assert read(table.new_read_builder(), plan.to_bytes(for_java=False)) == [(1, "x")]
    with pytest.raises(InvalidInputError, match="newer version"):
        plan.to_bytes(2, for_java=False)
    with pytest.raises(InvalidInputError, match="versions 2 to 9"):
        plan.to_bytes(10, for_java=False)


@pytest.mark.parametrize("version", [2, 8, 9])
def test_fallback_branch_splits_are_marked(catalog, version):
    schema = Schema.of({"p": "INT", "id": "INT", "s": "STRING"}, partition_keys=["p"])
    table = new_table(catalog, schema, name="db.f")
    table.branches.create("b")
    branch = catalog.get_table("db.f$branch_b")
    both = pa.table({"p": pa.array([1, 2], pa.int32()), "id": pa.array([1, 2], pa.int32()),
                     "s": ["branch", "branch"]})  # fmt: skip
    branch.append(both)
    table.alter([RenameColumn(field_names=("s",), new_name="z")])
    branch.alter([RenameColumn(field_names=("s",), new_name="z")])
    table = table.refresh()
    table.append(both.slice(0, 1).rename_columns(["p", "id", "z"]))
    builder = table.copy({"scan.fallback-branch": "b"}).new_read_builder()
    plan = builder.plan()
    expected = builder.read(plan).read_all()
    assert sorted(expected.column("p").to_pylist()) == [1, 2]
    data = plan.to_bytes(version)
    flags = {split.is_fallback: split for split in load_splits(data)}
    assert flags.keys() == {False, True}
    assert flags[True].data_files[0].schema_id == 0
    elsewhere = open_table(table.path).copy({"scan.fallback-branch": "b"}).new_read_builder()
    assert elsewhere.read_splits(data).read_all().equals(expected)
    assert b"".join(dump_split(split, version) for split in load_splits(data)) == data
    with refused(InvalidInputError, "Set 'scan.fallback-branch'", kind="split-table"):
        table.new_read_builder().plan_from(data)
    wrapped = _WRAPPED + (6).to_bytes(4, "big") + dump_split(flags[True], version)
    twice = _WRAPPED + (7).to_bytes(4, "big") + b"\1" + _WRAPPED + (1).to_bytes(4, "big")
    plain = dump_split(replace(flags[True], is_fallback=None), version)
    assert load_splits(wrapped + twice + plain) == (flags[True], flags[True])


@pytest.mark.parametrize("mode", ["delta", "diff"])
def test_changes_are_exported_as_splits_with_kinds(table, mode):
    builder = table.new_read_builder().between(1, 2, mode).with_row_kinds()
    plan = builder.plan()
    expected = builder.read(plan).read_all()
    elsewhere = open_table(table.path).new_read_builder().with_row_kinds()
    found = elsewhere.read_splits(plan.to_bytes()).read_all()
    assert found.sort_by("id").equals(expected.sort_by("id"))
    assert found.num_rows == 10


def test_changelog_without_kinds_is_not_exported(catalog):
    schema = Schema.of(
        {"id": "INT", "s": "STRING"},
        primary_keys=["id"],
        options={"bucket": "1", "changelog-producer": "input"},
    )
    table = new_table(catalog, schema, rows(1), name="db.log")
    builder = table.new_read_builder().between(0, 1, "changelog")
    with pytest.raises(InvalidInputError, match="plan them with row kinds"):
        builder.plan().to_bytes()
    assert builder.with_row_kinds().plan().to_bytes()
