"""Contexts, tasks and their results cross between processes as they were."""

from decimal import Decimal

import pytest
from msgspec.structs import replace

from paimon_assets.engine.contract import report_tasks, write_tasks
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement, WriteResult
from paimon_assets.engine.contract.context import HashIndexState, KeyRead, ReadContext, WriteContext
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW, SimpleStats
from paimon_assets.engine.spec.metadata.manifest import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DeletionVectorMeta,
    IndexFileMeta,
)
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.segments.segment import FileColumn
from paimon_assets.engine.spec.types.cast_fit import Loss
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.builders import data_file
from tests.testkit.tables import table_schema

STORAGE = FileIOSpec(scheme="file", options={})
SCHEMA = table_schema({"a": "INT", "d": "DECIMAL(5, 2)"})
KEYED = table_schema({"p": "INT", "k": "INT"}, primary_keys=["k"], partition_keys=["p"])
POSTPONED = table_schema({"k": "INT"}, primary_keys=["k"], options={"bucket": "-2"})


def split(*files, **members):
    members = {"partition": EMPTY_ROW, "bucket": 2, "bucket_path": "/t/bucket-2", **members}
    return DataSplit(snapshot_id=4, data_files=files, **members)


def read_context(schema, *columns):
    return ReadContext(
        table="db.t", schema=schema, file_schemas=(), columns=columns, file_io=STORAGE
    )


def write_context(schema, **members):
    return WriteContext(table="db.t", table_path="/t", schema=schema, file_io=STORAGE, **members)


VECTOR = DeletionFile(path="/t/index/i", offset=1, length=22, cardinality=1)
INDEX = IndexFileMeta(
    index_type=DELETION_VECTORS_INDEX,
    file_name="i",
    file_size=31,
    row_count=1,
    deletion_vectors=(DeletionVectorMeta(data_file_name="f", offset=1, length=22, cardinality=1),),
)
COMPACTION = write_tasks.CompactTask(
    split=split(data_file(), data_file(file_name="f"), deletion_files=(None, VECTOR)),
    above=split(data_file(level=5, file_size=70), total_buckets=3),
    output_level=3,
    max_level=5,
    drops_deletes=True,
    rewrites_files=True,
    index_files=(INDEX,),
    index_directory="/t/index",
)
POSTPONE = write_tasks.PostponeContext(
    read=read_context(POSTPONED, "rowkind", "k"), write=write_context(POSTPONED)
)
FIRST_VALUE = pred.Operation(
    pred.Operator.COALESCE,
    (pred.ColumnValue("d"), pred.SourceValue("x"), pred.LiteralValue(Decimal("1.10"))),
)
CHANGE = write_tasks.RowChange(
    read=read_context(SCHEMA, "a", "d"),
    write=write_context(SCHEMA),
    assignments=(pred.Assignment("a", pred.LiteralValue(None)), pred.Assignment("d", FIRST_VALUE)),
    marks=True,
    source=b"rows",
    on=("a",),
)
CHANGE_TASK = write_tasks.RowChangeTask(
    splits=(split(data_file()), split(data_file())), index_files=(INDEX,), index_directory="/t/i"
)
CHANGE_RESULT = write_tasks.RowChangeResult(
    rows_matched=4,
    result=WriteResult(
        messages=(
            CommitMessage(
                partition=EMPTY_ROW,
                bucket=0,
                total_buckets=-1,
                data_increment=DataIncrement(
                    deleted_files=(data_file(),), new_index_files=(INDEX,)
                ),
            ),
        )
    ),
    source_rows=b"\x01" * 8,
)
CAST = report_tasks.CastColumn(
    held=DataField(id=3, name="old", type=parse_type("STRING")),
    wanted=DataField(id=3, name="new", type=parse_type("INT NOT NULL"), description="d"),
    forbids_null=True,
)
LOSSES = report_tasks.ColumnLosses(
    column="new",
    rows=7,
    counts={Loss.FAILED: 1},
    unjudged=2,
    examples=(report_tasks.LostValue(loss=Loss.FAILED, value="x"),),
)
VALUES = [
    write_tasks.CompactTask(split=split(data_file())),
    COMPACTION,
    POSTPONE,
    CHANGE,
    replace(CHANGE, assignments=None, marks=False, only_counts=True, source=None, on=()),
    CHANGE_TASK,
    CHANGE_RESULT,
    report_tasks.FooterRequest(paths=("file:/ä", "b"), sizes=(1, 2**40)),
    report_tasks.FooterContext(format="orc", schema=SCHEMA, options={"sep": ";"}),
    report_tasks.OverflowContext(
        table="db.t", options={"cast.dialect": "cpp"}, batch_rows=9, examples=2
    ),
    report_tasks.OverflowRequest(path="/w/t/f.parquet", file=data_file(), columns=(CAST,)),
    report_tasks.OverflowResult(
        columns=(LOSSES, report_tasks.ColumnLosses(column="other", rows=7))
    ),
]


@pytest.mark.parametrize("value", VALUES)
def test_values_round_trip(value):
    assert load(type(value), dump(value)) == value


def test_task_has_golden_bytes():
    assert COMPACTION.input_bytes == 2070
    assert CHANGE_TASK.input_bytes == 2000


@pytest.mark.parametrize("value", [COMPACTION, POSTPONE], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("end", [0, 3, 10, 40, -5, -1])
def test_damaged_bytes_are_refused(value, end):
    with pytest.raises(FormatError):
        load(type(value), dump(value)[:end])


def test_other_bytes_are_refused():
    with pytest.raises(FormatError):
        load(write_tasks.RowChange, dump(write_tasks.RowChangeResult()))


def test_footers_round_trip_and_share_columns():
    columns = (
        FileColumn(name="ä", type_text="INT"),
        FileColumn(name="b", type_text="x", may_be_null=False),
    )
    stats = SimpleStats(min_values=b"low", max_values=b"high", null_counts=(3, None))
    footers = [
        report_tasks.FileFooter(rows=2**40, columns=columns, stats_columns=("ä", "b"), stats=stats),
        report_tasks.FileFooter(rows=0, columns=columns),
        report_tasks.FileFooter(rows=1, columns=columns, stats_columns=("ä", "b"), stats=stats),
    ]
    data = report_tasks.dump_footers(footers)
    loaded = report_tasks.load_footers(data)
    assert loaded == footers
    assert loaded[0].columns is loaded[2].columns
    assert report_tasks.load_footers(report_tasks.dump_footers([])) == []
    with pytest.raises(FormatError):
        report_tasks.load_footers(data[:-3])


def test_write_context_has_index_options():
    file = IndexFileMeta(index_type=HASH_INDEX, file_name="index-1", file_size=8, row_count=2)
    state = HashIndexState(partition=b"\x00\x01", bucket=3, path="/t/index/index-1", file=file)
    keys = split(data_file(), partition=b"\x00", total_buckets=-1, raw_convertible=True)
    context = write_context(
        KEYED,
        hash_indexes=(state,),
        key_read=KeyRead(context=read_context(KEYED, "k"), splits=(keys,)),
        keys_known_at=7,
    )
    loaded = load(WriteContext, dump(context))
    assert loaded == context
    assert loaded.indexes_by_partition == {b"\x00\x01": {3: state}}
