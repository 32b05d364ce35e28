"""Changes of rows as bytes, there and back."""

from dataclasses import replace
from decimal import Decimal

import pytest

from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement, WriteResult
from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.tasks.row_change_task import (
    RowChange,
    RowChangeResult,
    RowChangeTask,
)
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.metadata.index_file import IndexFileMeta
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from paimon_assets.engine.spec.predicate.predicate import (
    Assignment,
    ColumnValue,
    LiteralValue,
    Operation,
    Operator,
    SourceValue,
)
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from tests.testkit.builders import data_file

SCHEMA = first_table_schema(Schema.of({"a": "INT", "d": "DECIMAL(5, 2)"}), time_millis=0)
STORAGE = FileIOSpec(scheme="file", options={})
CHANGE = RowChange(
    read=ReadContext(
        table="db.t", schema=SCHEMA, file_schemas=(), columns=("a", "d"), file_io=STORAGE
    ),
    write=WriteContext(table="db.t", table_path="/t", schema=SCHEMA, file_io=STORAGE),
    assignments=(
        Assignment("a", LiteralValue(None)),
        Assignment(
            "d",
            Operation(
                Operator.COALESCE,
                (ColumnValue("d"), SourceValue("x"), LiteralValue(Decimal("1.10"))),
            ),
        ),
    ),
    marks=True,
    source=b"rows",
    on=("a",),
)


@pytest.mark.parametrize(
    "change",
    [CHANGE, replace(CHANGE, assignments=None, marks=False, only_counts=True, source=None, on=())],
)
def test_what_tasks_share(change):
    assert load(RowChange, dump(change)) == change


def test_tasks_and_results():
    split = DataSplit(
        snapshot_id=3,
        partition=EMPTY_ROW,
        bucket=0,
        bucket_path="/t/bucket-0",
        data_files=(data_file(),),
    )
    index = IndexFileMeta(
        index_type="DELETION_VECTORS", file_name="index-1", file_size=9, row_count=1
    )
    task = RowChangeTask(splits=(split, split), index_files=(index,), index_directory="/t/index")
    assert load(RowChangeTask, dump(task)) == task
    assert task.input_bytes == 2000
    message = CommitMessage(
        partition=EMPTY_ROW,
        bucket=0,
        total_buckets=-1,
        data_increment=DataIncrement(deleted_files=(data_file(),), new_index_files=(index,)),
    )
    result = RowChangeResult(
        rows_matched=4, result=WriteResult(messages=(message,)), source_rows=b"\x01" * 8
    )
    assert load(RowChangeResult, dump(result)) == result


def test_other_bytes_are_refused():
    with pytest.raises(FormatError):
        load(RowChange, dump(RowChangeResult()))
