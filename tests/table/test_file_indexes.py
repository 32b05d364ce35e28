"""File indexes from the options of a table to files that are not opened."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_assets import Table, open_table, update_column_type
from paimon_assets.engine import errors
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.predicate.predicate import equal
from tests.testkit.tables import arrow, new_table, read, values, write

INDEXED = {
    "file-index.bloom-filter.columns": "id, name",
    "file-index.bloom-filter.id.items": "50",
    "file-index.bloom-filter.id.fpp": "0.01",
    "file-index.bloom-filter.name.items": "50",
    "file-index.bitmap.columns": "kind",
    "metadata.stats-mode": "none",
    "bucket": "1",
    "bucket-key": "id",
}
COLUMNS = {"id": "BIGINT", "name": "STRING", "kind": "INT", "amount": "DECIMAL(9, 2)"}


def table_of(catalog, **options):
    return new_table(catalog, COLUMNS, options={**INDEXED, **options})


def rows(*ids):
    return arrow(COLUMNS, *((n, f"name {n}", n % 3, Decimal(n)) for n in ids))


def data_files(table):
    return sorted(Path(table.path).glob("bucket-*/data-*.parquet"))


def index_files(table):
    return sorted(Path(table.path).glob("bucket-*/*.index"))


@pytest.mark.parametrize("threshold", ["1 mb", "1 b"])
def test_file_without_matching_rows_is_not_opened(catalog, threshold):
    table = table_of(catalog, **{"file-index.in-manifest-threshold": threshold})
    write(table, rows(3, 6, 9))
    assert len(index_files(table)) == (threshold == "1 b")
    for where in ("id = 6", "name IN ('name 9', 'x')", "kind = 0", "kind <> 1"):
        assert values(table, where=where)
    (data,) = data_files(table)
    data.unlink()
    for where in ("id = 7", "name = 'name 4'", "kind = 1", "kind IS NULL"):
        assert values(table, where=where) == []
    with pytest.raises(errors.NotFoundError):
        values(table, where="id = 6")


def test_index_in_manifest_prunes_split(catalog):
    table = table_of(catalog, **{"file-index.in-manifest-threshold": "1 mb"})
    write(table, rows(3, 6, 9))
    write(table, rows(4, 7))
    plans = table.new_read_builder()
    assert len(plans.with_filter("id = 7").plan().splits[0].data_files) == 1
    assert plans.with_filter("id = 5 OR kind = 2").plan().splits == ()


def test_files_without_index_are_opened(catalog):
    table = table_of(catalog, **{"file-index.read.enabled": "false"})
    write(table, rows(3))
    data_files(table)[0].unlink()
    with pytest.raises(errors.NotFoundError):
        values(table, where="id = 7")


def test_absent_key_opens_no_file_of_merged_bucket(catalog):
    options = {key: value for key, value in INDEXED.items() if not key.startswith("bucket")}
    table = new_table(catalog, COLUMNS, primary_keys="id", options={**options, "bucket": "1"})
    write(table, rows(1, 3, 9))
    write(table, rows(3, 5))
    assert values(table, where="id = 3") == [3]
    assert values(table, where="kind = 0") == [3, 9]
    for path in data_files(table):
        path.unlink()
    assert values(table, where="id = 4") == []


def test_index_does_not_revive_older_record(catalog):
    options = {"bucket": "1", "file-index.bitmap.columns": "v"}
    table = new_table(catalog, {"k": "INT", "v": "INT"}, (1, 10), primary_keys="k", options=options)
    write(table, (1, 20))
    assert read(table, where="v = 10") == []


@pytest.mark.parametrize("kept_bytes", [0, 60, -1])
def test_damaged_index_file_is_named_and_skippable(catalog, kept_bytes):
    table = table_of(catalog, **{"file-index.in-manifest-threshold": "1 b"})
    write(table, rows(3, 6))
    (path,) = index_files(table)
    path.write_bytes(path.read_bytes()[:kept_bytes])
    with pytest.raises(errors.FormatError, match=path.name) as caught:
        values(table, where="kind = 0 AND amount = 3")
    assert (caught.value.kind, caught.value.details["path"]) == ("file-index", str(path))
    options = {"file-index.read.enabled": "false"}
    without = Table(FileStore.open(table.state.file_io, table.path, options=options))
    assert values(without, where="kind = 0 AND amount = 3") == [3]


def test_lost_index_file_is_named(catalog):
    table = table_of(catalog, **{"file-index.in-manifest-threshold": "1 b"})
    write(table, rows(3))
    (path,) = index_files(table)
    path.unlink()
    with pytest.raises(errors.NotFoundError, match=path.name):
        values(table, where="id = 3")
    assert values(table, where=None) == [3]


@pytest.mark.parametrize("kind", ["bsi", "range-bitmap"])
def test_index_that_is_not_written_is_refused(catalog, kind):
    with pytest.raises(errors.InvalidInputError, match="not written here"):
        table_of(catalog, **{f"file-index.{kind}.columns": "amount"})


def test_type_unsupported_by_index_is_refused(catalog):
    with pytest.raises(errors.InvalidInputError, match=r"DECIMAL.* cannot have such an index"):
        table_of(catalog, **{"file-index.bitmap.columns": "amount"})
    table = table_of(catalog, **{"file-index.bloom-filter.columns": "kind"})
    with pytest.raises(errors.InvalidInputError, match="BOOLEAN columns cannot have such an index"):
        table.alter([update_column_type("kind", "BOOLEAN")])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file-index.bitmap.columns": "nothing"}, "no such column"),
        ({"file-index.bitmap.columns": "amount"}, "cannot have such an index"),
        ({"file-index.bloom-filter.id.fpp": "2"}, "between 0 and 1"),
        ({"file-index.bloom-filter.id.items": "0"}, "above zero"),
        ({"file-index.bitmap.kind.version": "3"}, "expected 1 or 2"),
    ],
)
def test_wrong_index_option_is_named_before_anything_is_written(catalog, options, message):
    table = table_of(catalog).copy(options)
    with pytest.raises(errors.InvalidInputError, match=message) as caught:
        write(table, rows(3))
    assert caught.value.details["option"] in str(options)
    assert data_files(table) == []


def test_write_that_fails_leaves_no_index_file(catalog):
    table = table_of(
        catalog, **{"file-index.in-manifest-threshold": "1 b", "target-file-size": "1 b"}
    )
    good = rows(*range(10)).to_batches()
    bad = rows(1).set_column(2, "kind", pa.array([2**40])).to_batches()
    with pytest.raises(errors.InvalidInputError):
        table.new_write_builder().write(iter([*good, *bad]))
    assert data_files(table) == index_files(table) == []


JAVA = sorted((Path(__file__).parents[3] / "shared" / "tables").glob("*/*bitmap*.db/*bitmap*"))


@pytest.mark.parametrize("path", JAVA, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_java_indexes_do_not_change_rows(path):
    table = open_table(str(path))
    options = {"file-index.read.enabled": "false"}
    without = Table(FileStore.open(table.state.file_io, table.path, options=options))
    for field in table.schema.fields:
        values = without.to_arrow([field.name]).column(0)
        for value in [*values.unique().to_pylist(), "nothing", -77]:
            where = equal(field.name, value)
            try:
                wanted = without.to_arrow(where=where)
            except errors.InvalidInputError:
                continue  # no value of the column's type
            assert table.to_arrow(where=where).equals(wanted)
