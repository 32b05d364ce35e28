"""Deleted rows never come back, whatever of a file is decoded; the oracle is a list of rows."""

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.bitmaps.deletion_vector import DeletionVector
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.data.read.data_files import live_rows
from paimon_assets.engine.errors import FormatError, NotFoundError
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison, In, IsNull, any_of
from tests.testkit import split_reads as kit
from tests.testkit.effort import often
from tests.testkit.tables import table_schema

APPEND = table_schema({"a": "INT", "b": "STRING"})
KEYED = table_schema({"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": "1"})


def write_file(directory, name, rows, *, rows_per_group=1000, file_format="parquet"):
    """Write rows of the append table as one file."""
    table = pa.Table.from_pylist(rows, schema=to_arrow_schema(APPEND.fields))
    path = directory / f"{name}.{file_format}"
    if file_format == "parquet":
        return kit.parquet_file(path, table, rows_per_group)
    orc.write_table(table, path, stripe_size=1)
    return kit.file_entry(path, len(rows))


def keyed_file(directory, name, records, rows_per_group, level):
    """Write {key: (sequence number, value)} as one file."""
    keys = sorted(records)
    numbers, values = zip(*(records[key] for key in keys), strict=True)
    table = pa.table(
        {
            "_KEY_k": pa.array(keys, pa.int32()),
            "_SEQUENCE_NUMBER": pa.array(numbers, pa.int64()),
            "_VALUE_KIND": pa.array([0] * len(keys), pa.int8()),
            "k": pa.array(keys, pa.int32()),
            "v": pa.array(values, pa.int32()),
        }
    )
    types = [field.type for field in KEYED.key_fields]
    return kit.parquet_file(
        directory / f"{name}.parquet",
        table,
        rows_per_group,
        level=level,
        min_key=serialize_row([keys[0]], types),
        max_key=serialize_row([keys[-1]], types),
        min_sequence_number=min(numbers),
        max_sequence_number=max(numbers),
    )


@given(
    st.lists(st.integers(0, 40), max_size=6),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=6),
    st.lists(st.sets(st.integers(0, 400)), max_size=3),
)
def test_rows_are_dropped_by_position_in_any_batches(cuts, steps, deleted):
    ranges, at = [], 0
    for length, gap in steps:
        ranges.append((at, at + length))
        at += length + gap
    rows = [row for start, stop in ranges for row in range(start, stop)]
    batches, rest = [], rows
    for cut in [*cuts, len(rows)]:
        batches.append(pa.RecordBatch.from_pydict({"row": pa.array(rest[:cut], pa.int64())}))
        rest = rest[cut:]
    vectors = [DeletionVector.of(positions) for positions in deleted]
    found = [row for batch in live_rows(batches, vectors, ranges) for row in batch["row"].tolist()]
    assert found == [row for row in rows if not any(row in positions for positions in deleted)]


def test_batch_without_columns_keeps_row_count():
    batch = pa.RecordBatch.from_pydict({"a": [1, 2, 3]}).select([])
    (found,) = live_rows([batch], [DeletionVector.of([1])], [(0, 3)])
    assert found.num_rows == 2


VALUES = st.integers(-2, 25)
LEAVES = st.one_of(
    st.builds(Comparison, field=st.just("a"), op=st.sampled_from(CompareOp), literal=VALUES),
    st.builds(
        In, field=st.just("a"), literals=st.lists(VALUES, max_size=3).map(tuple),
        negated=st.booleans(),
    ),
    st.builds(IsNull, field=st.sampled_from(["a", "b"]), negated=st.booleans()),
)  # fmt: skip
PREDICATES = LEAVES | st.lists(LEAVES, min_size=2, max_size=2).map(any_of)


@st.composite
def append_files(draw):
    """Draw rows of a file, sorted so that row groups can be left out, and which of them go."""
    values = sorted(draw(st.lists(st.integers(0, 22), min_size=4, max_size=30)))
    nulls = draw(st.integers(0, 4))
    rows = [
        {"a": value, "b": None if number % 7 == 3 else str(number)}
        for number, value in enumerate([*values, *[None] * nulls])
    ]
    deleted = draw(st.none() | st.sets(st.integers(0, len(rows) - 1), min_size=1))
    return rows, deleted, draw(st.integers(1, 6))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=often(40))
@given(
    st.lists(append_files(), min_size=1, max_size=3),
    PREDICATES,
    st.booleans(),
    st.sampled_from(["parquet", "parquet", "orc"]),
    st.sampled_from(["1", "3", "1000"]),
    st.sampled_from([("a", "b"), ("b",), ("a",)]),
)
def test_pruning_keeps_deleted_rows_deleted(
    tmp_path, drawn, predicate, bitmap64, file_format, batch_rows, columns
):
    files = [
        write_file(tmp_path, f"f{number}", rows, rows_per_group=size, file_format=file_format)
        for number, (rows, _, size) in enumerate(drawn)
    ]
    gone = {f.file_name: gone for f, (_, gone, _) in zip(files, drawn, strict=True) if gone}
    by_name = kit.deletion_files(tmp_path, gone, bitmap64=bitmap64)
    deletions = tuple(by_name.get(file.file_name) for file in files)
    split = kit.split_of(tmp_path, files, deletion_files=deletions)
    alive = [
        row
        for rows, gone, _ in drawn
        for position, row in enumerate(rows)
        if position not in (gone or ())
    ]
    assert kit.read(kit.context_of(APPEND, **{"read.batch-size": batch_rows}), split) == alive
    # Filters are proven elsewhere; here they must choose among the rows alive, and nothing else.
    everything = kit.split_of(tmp_path, [write_file(tmp_path, "alive", alive)]) if alive else None
    context = kit.context_of(APPEND, columns, predicate, **{"read.batch-size": batch_rows})
    assert kit.read(context, split) == (kit.read(context, everything) if everything else [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=often(40))
@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 40), min_size=1), st.sets(st.integers(0, 40))),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 9),
    st.none() | st.integers(-1, 41),
)
@example([({1, 2}, set()), ({2}, {0})], 1, None)
def test_deleted_record_does_not_take_part_in_merge(tmp_path, runs, rows_per_group, above):
    files, deleted, best = [], {}, {}
    for number, (keys, positions) in enumerate(runs):
        records = {key: (100 * number + key, 1000 * number + key) for key in keys}
        level = 5 if number == 0 else 0
        files.append(keyed_file(tmp_path, f"r{number}", records, rows_per_group, level))
        gone = {position for position in positions if position < len(keys)}
        deleted[files[-1].file_name] = gone
        for position, key in enumerate(sorted(keys)):
            if position not in gone:
                best[key] = records[key][1]
    deletions = tuple(kit.deletion_files(tmp_path, deleted).values())
    split = kit.split_of(tmp_path, files, deletion_files=deletions)
    predicate = None
    if above is not None:
        predicate = Comparison(field="k", op=CompareOp.GT, literal=above)
        best = {key: value for key, value in best.items() if key > above}
    found = kit.read(kit.context_of(KEYED, predicate=predicate), split)
    assert found == [{"k": key, "v": best[key]} for key in sorted(best)]


def one_file(tmp_path, deleted):
    file = write_file(tmp_path, "f", [{"a": number, "b": str(number)} for number in range(10)])
    return file, kit.deletion_files(tmp_path, {file.file_name: deleted})[file.file_name]


def read_one(directory, file, deletion):
    return kit.read(
        kit.context_of(APPEND), kit.split_of(directory, [file], deletion_files=(deletion,))
    )


def test_missing_index_file_hints_at_expired_snapshot(tmp_path):
    file, deletion = one_file(tmp_path, {1})
    (tmp_path / "index-1").unlink()
    with pytest.raises(NotFoundError, match="may have expired") as caught:
        read_one(tmp_path, file, deletion)
    assert caught.value.kind == "file-not-found"


@pytest.mark.parametrize("at", [1, 5, 20, -1])
def test_damaged_vector_returns_no_rows(tmp_path, at):
    file, deletion = one_file(tmp_path, {1})
    data = bytearray((tmp_path / "index-1").read_bytes())
    data[at] ^= 0xFF
    (tmp_path / "index-1").write_bytes(bytes(data))
    with pytest.raises(FormatError, match="index-1: damaged deletion vector"):
        read_one(tmp_path, file, deletion)


def test_vector_that_does_not_fit_file_is_refused(tmp_path):
    file, deletion = one_file(tmp_path, {10})
    with pytest.raises(FormatError, match=r"deletes row 10 of 'f\.parquet', which has 10 rows"):
        read_one(tmp_path, file, deletion)
    file, deletion = one_file(tmp_path, {1, 2})
    wrong = replace(deletion, cardinality=3)
    with pytest.raises(FormatError, match="it holds 2 rows, and 3 by the table"):
        read_one(tmp_path, file, wrong)
    assert len(read_one(tmp_path, file, replace(deletion, cardinality=None))) == 8


def test_deletion_keeps_row_group_pruning(tmp_path):
    file = write_file(
        tmp_path, "f", [{"a": number, "b": "x"} for number in range(1000)], rows_per_group=100
    )
    deletions = tuple(kit.deletion_files(tmp_path, {file.file_name: {0, 850, 851}}).values())
    # Damage the pages of the first row groups: a read that opened them would notice.
    path = tmp_path / file.file_name
    metadata = pq.ParquetFile(path).metadata
    first = metadata.row_group(0).column(0).dictionary_page_offset
    last = metadata.row_group(8).column(0).dictionary_page_offset
    data = bytearray(path.read_bytes())
    data[first:last] = b"\xff" * (last - first)
    path.write_bytes(bytes(data))
    context = kit.context_of(APPEND, ["a"], Comparison(field="a", op=CompareOp.GE, literal=849))
    found = kit.read(context, kit.split_of(tmp_path, [file], deletion_files=deletions))
    assert [row["a"] for row in found] == [849, *range(852, 1000)]
