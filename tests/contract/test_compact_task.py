import pytest

from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata.index_file import (
    DELETION_VECTORS_INDEX,
    DeletionVectorMeta,
    IndexFileMeta,
)
from paimon_assets.engine.spec.metadata.simple_stats import EMPTY_ROW
from tests.testkit.builders import data_file


def split(*files, deletion_files=None):
    return DataSplit(
        snapshot_id=4,
        partition=EMPTY_ROW,
        bucket=2,
        bucket_path="/t/bucket-2",
        total_buckets=3,
        data_files=files,
        deletion_files=deletion_files,
    )


VECTOR = DeletionFile(path="/t/index/i", offset=1, length=22, cardinality=1)
INDEX = IndexFileMeta(
    index_type=DELETION_VECTORS_INDEX,
    file_name="i",
    file_size=31,
    row_count=1,
    deletion_vectors=(DeletionVectorMeta(data_file_name="f", offset=1, length=22, cardinality=1),),
)
TASKS = [
    CompactTask(split=split(data_file())),
    CompactTask(
        split=split(data_file(), data_file(file_name="f"), deletion_files=(None, VECTOR)),
        above=split(data_file(level=5, file_size=70)),
        output_level=3,
        max_level=5,
        drops_deletes=True,
        rewrites_files=True,
        index_files=(INDEX,),
        index_directory="/t/index",
    ),
]


@pytest.mark.parametrize("task", TASKS)
def test_tasks_come_back_as_they_were(task):
    assert load(CompactTask, dump(task)) == task


def test_bytes_of_a_task():
    assert TASKS[1].input_bytes == 2070


@pytest.mark.parametrize("end", [3, 40, -1])
def test_damaged_bytes_are_refused(end):
    with pytest.raises(FormatError):
        load(CompactTask, dump(TASKS[1])[:end])
