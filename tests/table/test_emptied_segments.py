"""TRUNCATE and INSERT OVERWRITE take out segments of every format, by their snapshot alone."""

from collections import Counter
from itertools import count
from random import Random

import pyarrow as pa
import pytest

from paimon_assets import Schema, Table
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.errors import CommitUnknownError, InvalidInputError, StorageError
from paimon_assets.engine.spec.segments.segment import SegmentStatus
from tests.testkit.effort import often
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.foreign import add_segment, rows, states, write

_ONE = Retention(min_count=1, max_count=1, time_ms=0, limit=99)
OVERWRITES = {
    "truncate": lambda table: table.truncate(),
    "overwrite": lambda table: table.overwrite(rows((9, "z"))),
}
FORMATS = ["parquet", "orc", "avro", "csv", "json"]


def new_table(catalog, name="db.t", **declared):
    return catalog.create_table(name, Schema.of({"a": "INT", "b": "STRING"}, **declared))


def row_counts(table, **options):
    return Counter(tuple(row.values()) for row in table.copy(options).to_arrow().to_pylist())


def file_of(folder, file_format, *pairs):
    write(folder / f"1.{file_format}", rows(*pairs))
    return folder


@pytest.mark.parametrize("way", OVERWRITES)
@pytest.mark.parametrize("file_format", [*FORMATS, "text"])
def test_segments_of_all_formats_behave_same(catalog, tmp_path, file_format, way):
    folder = tmp_path / "foreign"
    if file_format == "text":
        table = catalog.create_table("db.t", Schema.of({"value": "STRING"}))
        write(folder / "1.txt", pa.table({"value": ["a", "b"]}))
        table.append(pa.table({"value": ["own"]}))
        new = pa.table({"value": ["z"]})
    else:
        table, new = new_table(catalog), rows((9, "z"))
        file_of(folder, file_format, (1, "x"), (2, "y"))
        table.append(rows((0, "own")))
    add_segment(table, folder, file_format)
    untouched, before = states(folder), row_counts(table)
    table.truncate() if way == "truncate" else table.overwrite(new)
    assert table.latest_snapshot().id == 3
    assert row_counts(table) == row_counts(catalog.get_table("db.t"))
    assert table.to_arrow().num_rows == (way == "overwrite")
    assert row_counts(table, **{"scan.snapshot-id": "2"}) == before
    listed = [s for s in table.segments().listed() if s.id == 1 or s.data_size]
    assert SegmentStatus.MARKED_FOR_DELETE in {each.status for each in listed}
    assert table.segments().live() == []
    assert states(folder) == untouched
    add_segment(table, folder, file_format)
    assert table.to_arrow().num_rows == 2 + (way == "overwrite")
    table.rollback_to(2)
    assert row_counts(table) == before


class Death(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("way", OVERWRITES)
@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_ANSWER, "dies"])
def test_faults_keep_segment_and_table_rows_together(catalog, tmp_path, way, fault):
    file_of(tmp_path / "foreign", "csv", (1, "x"))
    outcomes = Counter()
    for call in count():
        name = f"db.t{call}"
        table = new_table(catalog, name)
        table.append(rows((0, "own")))
        add_segment(table, tmp_path / "foreign", "csv")
        before = row_counts(table)

        def dies(number, _method, _path, call=call):
            if number == call:
                raise Death

        inner = table._store.file_io
        file_io = (
            FaultyFileIO(inner, before=dies)
            if fault == "dies"
            else FaultyFileIO(inner, faults={call: fault})
        )
        store = FileStore(
            file_io=file_io, table_path=table._store.table_path, schema=table._store.schema
        )
        is_done = is_known = True
        try:
            OVERWRITES[way](Table(store))
        except (StorageError, Death):
            is_done = False
        except CommitUnknownError:
            is_known = False
        after = Counter({(9, "z"): 1} if way == "overwrite" else {})
        other = catalog.get_table(name)
        now = row_counts(other)
        assert now in (before, after), call
        assert now == after or not (is_done and is_known), call
        outcomes[now == after, is_done and is_known] += 1
        other.append(rows((5, "more")))
        expire_snapshots(other._store, retention=_ONE)
        assert row_counts(other) == now + Counter({(5, "more"): 1}), call
        if len(file_io.calls) <= call:
            break
    assert call > 10
    assert len(outcomes) > 1


def test_branch_refuses_changes_of_main_segments(catalog, tmp_path):
    table = new_table(catalog)
    table.append(rows((0, "own")))
    add_segment(table, file_of(tmp_path / "foreign", "csv", (1, "x")), "csv")
    table.branches.create("b", snapshot_id=2)
    with pytest.raises(InvalidInputError, match="open the main branch") as caught:
        table.copy({"branch": "b"}).truncate()
    assert caught.value.kind == "segment-overwrite"
    assert len(row_counts(table)) == len(row_counts(table.copy({"branch": "b"}))) == 2


@pytest.mark.parametrize("partitioned", [False, True])
def test_snapshots_of_any_history_have_their_rows(catalog, tmp_path, partitioned):
    for seed in range(often(12)):
        draw = Random(seed)  # noqa: S311
        declared = {"partition_keys": ["a"]} if partitioned else {}
        table = new_table(catalog, f"db.t{seed}", **declared)
        history: dict[int, Counter] = {}
        now: Counter = Counter()
        for step in range(12):
            operation = draw.choice(
                ["append", "segment", "segment", "truncate", "overwrite", "drop", "back", "expire"]
            )
            part = draw.randrange(2)
            if operation == "append":
                table.append(rows((part, f"{step}")))
                now = now + Counter({(part, f"{step}"): 1})
            elif operation == "segment":
                kind, folder = (
                    draw.choice(["parquet", "csv", "json"]),
                    tmp_path / f"{partitioned}-{seed}-{step}",
                )
                below = folder / f"a={part}" if partitioned else folder
                data = rows((part, f"{step}")).select(["b"] if partitioned else ["a", "b"])
                write(below / f"1.{kind}", data)
                more = {"partition": "a:int"} if partitioned else {}
                add_segment(table, folder, kind, **more)
                now = now + Counter({(part, f"{step}"): 1})
            elif operation == "truncate":
                table.truncate()
                now = Counter()
            elif operation == "overwrite":
                table.overwrite(rows((part, f"{step}")))
                stay = {row: n for row, n in now.items() if partitioned and row[0] != part}
                now = Counter({**stay, (part, f"{step}"): 1})
            elif operation == "drop" and partitioned:
                table.drop_partitions([{"a": part}])
                now = Counter({row: n for row, n in now.items() if row[0] != part})
            elif operation == "back" and history:
                target = draw.choice(sorted(history))
                table.rollback_to(target)
                now = history[target]
                history = {number: seen for number, seen in history.items() if number <= target}
            elif operation == "expire" and history:
                expire_snapshots(table._store, retention=_ONE)
                history = {max(history): now}
            else:
                continue
            if (newest := table.latest_snapshot()) is not None:
                history[newest.id] = now
            for number, seen in history.items():
                assert row_counts(table, **{"scan.snapshot-id": str(number)}) == seen, (seed, step)
