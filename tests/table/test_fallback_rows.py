"""Rows of a fallback branch are merged by its own key and options."""

import pytest

from paimon_assets.engine.codec.json.metadata_json import schema_to_json
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from tests.testkit.tables import read, write

COLUMNS = {"day": "STRING", "id": "INT", "v": "INT"}
KEY = {"primary-key": "day,id", "bucket": "1"}
"""Java sets these on a branch that has no rows yet; its key columns become NOT NULL."""
FALLBACK = {"scan.fallback-branch": "stream"}


def schema_with(options):
    return Schema.of(COLUMNS, partition_keys=["day"], options=options)


@pytest.fixture
def create_branched(catalog):
    """Return a function from the options of the main table and of its branch to both."""

    def make(main, branch):
        table = catalog.create_table("db.t", schema_with(main))
        table.branches.create("stream")
        opened = FileStore.open(LocalFileIO(), table.path, options={"branch": "stream"})
        own = first_table_schema(schema_with(branch), time_millis=0)
        LocalFileIO().replace(opened.paths.schema(0), schema_to_json(own))
        for rows in ([("b", 1, 10), ("b", 2, 20), ("a", 1, 0)], [("b", 1, 11)]):
            write(table.at_branch("stream"), *rows)
        write(table, ("a", 7, 70), ("a", 7, 71))
        return table.copy(FALLBACK)

    return make


def test_keyed_branch_of_append_main_is_merged(create_branched):
    table = create_branched({}, KEY)
    assert read(table) == [("a", 7, 70), ("a", 7, 71), ("b", 1, 11), ("b", 2, 20)]
    assert read(table, where="v = 10") == []
    assert read(table, where="id = 1") == [("b", 1, 11)]
    assert read(table, columns=["v"]) == [(11,), (20,), (70,), (71,)]
    assert table.new_read_builder().plan().context.schema.primary_keys == ()


def test_each_branch_is_merged_by_its_own_engine(create_branched):
    summed = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    table = create_branched(KEY, KEY | summed)
    assert read(table) == [("a", 7, 71), ("b", 1, 21), ("b", 2, 20)]
    assert read(table.copy({"read.batch-size": "1"})) == read(table)


def test_count_merges_branch(create_branched):
    assert create_branched({}, KEY).count() == 4


def test_native_reader_skips_unmerged_rows(create_branched):
    plain_files = pytest.importorskip("paimon_assets.spark.shortcuts.native_read.plain_files")
    plan = create_branched({}, KEY).new_read_builder().plan()
    schemas = plain_files.PlainSchemas.of(plan.context)
    plain = [plain_files.is_plain(plan.context, split, schemas) for split in plan.splits]
    assert plain == [True, False]
