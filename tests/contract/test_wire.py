import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.codec.rows.binary_row import row_bytes, row_values
from paimon_assets.engine.codec.rows.data_file_row import FILE_ROW_TYPES, file_to_row
from paimon_assets.engine.codec.rows.java_stream import DataInput, DataOutput
from paimon_assets.engine.contract import wire
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
    WriteReport,
    WriteResult,
)
from paimon_assets.engine.contract.context import BucketState, ReadContext, WriteContext
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.contract.wire import RaisedError, dump, dump_error, load, load_error
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.options.all_options import MergeEngine
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.spec.segments.text_options import TextOptions
from tests.testkit.builders import data_file
from tests.testkit.codec_strategies import check_damage, data_files, longs, texts

TABLES = Path(__file__).parents[3] / "shared" / "tables"
JAVA_SPLITS = sorted(TABLES.glob("**/data_splits/*"))
ints = st.integers(-(2**31), 2**31 - 1)
files = st.lists(data_files, max_size=3).map(tuple)
deletions = st.builds(
    DeletionFile,
    path=texts,
    offset=longs,
    length=longs,
    cardinality=st.none() | st.integers(0, 2**62),
)
splits = st.builds(
    DataSplit,
    snapshot_id=longs,
    partition=st.binary(max_size=20),
    bucket=ints,
    bucket_path=texts,
    total_buckets=st.none() | ints,
    data_files=files,
    deletion_files=st.none() | st.lists(st.none() | deletions, max_size=3).map(tuple),
    is_streaming=st.booleans(),
    raw_convertible=st.booleans(),
)
internals = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
)
leaves = st.one_of(
    st.builds(pred.Comparison, texts, st.sampled_from(pred.CompareOp), internals),
    st.builds(pred.In, texts, st.lists(internals).map(tuple), st.booleans()),
    st.builds(pred.IsNull, texts, st.booleans()),
    st.builds(pred.StartsWith, texts, texts),
    st.builds(pred.Like, texts, texts, st.booleans()),
)
functions = st.recursive(
    leaves, lambda inner: st.builds(pred.Applied, texts, texts, inner, internals), max_leaves=3
)
predicates = st.recursive(
    functions,
    lambda inner: st.one_of(
        st.builds(pred.And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(pred.Or, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
SCHEMA = first_table_schema(
    Schema.of(
        {
            "id": "BIGINT NOT NULL",
            "day": "DATE",
            "price": "DECIMAL(10, 2)",
            "tags": "ARRAY<STRING>",
        },
        primary_keys=["id"],
        options={"bucket": "2"},
        comment="Größe",
    ),
    time_millis=5,
)
FILE_IO = FileIOSpec(
    scheme="s3", options={"s3.secret-key": "hush"}, expires_ms=1_700_000_000_123, renewed_by="a"
)


def exact(value):
    """The value and the types inside, because 1 == 1.0 == True."""
    if isinstance(value, pred.In):
        return [(literal, type(literal)) for literal in value.literals], value
    if isinstance(value, pred.Comparison):
        return value, type(value.literal)
    if isinstance(value, pred.And | pred.Or):
        return [exact(child) for child in value.children], type(value)
    return value


@given(splits)
def test_splits_round_trip(split):
    assert wire.load_split(wire.dump_split(split)) == split


def test_split_starts_with_bytes_java_gives_it():
    split = DataSplit(
        snapshot_id=2,
        partition=EMPTY_ROW,
        bucket=0,
        bucket_path="/w/default.db/tableA/bucket-0",
        total_buckets=1,
        data_files=(data_file(),),
    )
    head = (
        "dec3d2302c19ec66 00000008 0000000000000002 0000000c 00000000 0000000000000000"
        f"00000000 001d {split.bucket_path.encode().hex()}"
        "01 00000001 00000000 00 00000001"
    )
    assert wire.dump_split(split).hex().startswith(head.replace(" ", ""))


def as_version(split, version, before=()):
    """A split as older versions of Java wrote it."""
    arity = {2: 16, 3: 17, 4: 17, 5: 18, 6: 18, 7: 19, 8: 20, 9: 21, 10: 21}[version]

    def write_files(items):
        out.write_int(len(items))
        for file in items:
            values = row_values(file_to_row(file), FILE_ROW_TYPES)
            out.write_bytes(row_bytes(values[:arity], FILE_ROW_TYPES[:arity]))

    out = DataOutput()
    out.write_long(wire.SPLIT_MAGIC)
    out.write_int(version)
    out.write_long(split.snapshot_id)
    out.write_bytes(split.partition)
    out.write_int(split.bucket)
    out.write_utf(split.bucket_path)
    if version >= 6:
        out.write_boolean(split.total_buckets is not None)
        if split.total_buckets is not None:
            out.write_int(split.total_buckets)
    write_files(before)
    out.write_boolean(False)
    write_files(split.data_files)
    out.write_boolean(True)
    out.write_int(1)
    out.write_boolean(True)
    out.write_utf("dv")
    out.write_long(1)
    out.write_long(22)
    if version >= 4:
        out.write_long(3)
    out.write_boolean(split.is_streaming)
    out.write_boolean(split.raw_convertible)
    return out.to_bytes()


GOLDEN = Path(__file__).parent.parent / "golden"
SPLIT = DataSplit(
    snapshot_id=1, partition=EMPTY_ROW, bucket=3, bucket_path="/b", data_files=(data_file(),)
)


@pytest.mark.parametrize("version", range(2, 10))
def test_older_versions_are_read(version):
    found = wire.load_split(as_version(SPLIT, version))
    cardinality = 3 if version >= 4 else None
    deletion = DeletionFile(path="dv", offset=1, length=22, cardinality=cardinality)
    assert found.deletion_files == (deletion,)
    assert found.data_files == SPLIT.data_files
    assert found.bucket_path == "/b"


def test_split_of_two_states_round_trips():
    before = (data_file(file_name="old-0.parquet"), data_file(file_name="old-1.parquet"))
    vectors = (DeletionFile(path="dv", offset=1, length=9, cardinality=2), None)
    split = replace(SPLIT, before_files=before, before_deletion_files=vectors)
    assert wire.load_split(wire.dump_split(split)) == split
    assert split.row_count == 30


def test_unreadable_version_is_refused_by_name():
    with pytest.raises(errors.UnsupportedFeatureError, match="version 10 "):
        wire.load_split(as_version(SPLIT, 10))
    with pytest.raises(errors.UnsupportedFeatureError, match="version 1 "):
        wire.load_split(bytes(7) + b"\x05" + bytes(40))
    with pytest.raises(errors.UnsupportedFeatureError, match="before-files"):
        wire.load_split(as_version(replace(SPLIT, is_streaming=True), 8, before=(data_file(),)))
    with pytest.raises(errors.UnsupportedFeatureError, match="SPLIT_V1"):
        wire.load_split(b"SPLIT_V1" + bytes(40))


def test_wrapped_split_of_pypaimon_is_read_and_its_version_written():
    """The splits of a data-evolution table, by pypaimon 2.1.0: SPLIT_V1 around version 9."""
    data = bytes.fromhex((GOLDEN / "split_v9_pypaimon_2_1_0.hex").read_text())
    (split,) = wire.load_splits(data)
    (file,) = split.data_files
    assert (split.snapshot_id, split.bucket, split.total_buckets) == (1, 0, None)
    assert (file.row_count, file.column_sequences) == (2, (7, 9))
    assert wire.dump_split(split, 9) == data[16:]
    with pytest.raises(errors.InvalidInputError, match="newer version"):
        wire.dump_split(split, 8)
    with pytest.raises(errors.UnsupportedFeatureError, match="SPLIT_V1"):
        wire.load_split(data[:15] + b"\3" + data[16:])


def test_trailing_bytes_of_split_are_refused():
    with pytest.raises(errors.FormatError, match="left behind"):
        wire.load_split(wire.dump_split(SPLIT) + b"\2")


def test_truncated_split_is_refused():
    data = wire.dump_split(SPLIT)
    for length in range(len(data)):
        with pytest.raises(errors.FormatError):
            wire.load_split(data[:length])


@given(st.data())
def test_damaged_split_raises_typed_error(data):
    check_damage(data, wire.dump_split(SPLIT), wire.load_split)


@pytest.mark.skipif(not JAVA_SPLITS, reason="needs ../shared/tables, written by Java Paimon")
@pytest.mark.parametrize("path", JAVA_SPLITS, ids=lambda path: "/".join(path.parts[-3:]))
def test_splits_of_java_are_read_and_their_file_rows_have_our_bytes(path):
    data = path.read_bytes()
    split = wire.load_split(data)
    assert wire.load_split(wire.dump_split(split)) == split
    arity = {2: 16, 3: 17, 5: 18, 6: 18, 7: 19, 8: 20}[int.from_bytes(data[8:12], "big")]
    for file in split.data_files:
        values = row_values(file_to_row(file), FILE_ROW_TYPES)
        assert row_bytes(values[:arity], FILE_ROW_TYPES[:arity]) in data


@given(st.none() | predicates)
def test_read_contexts_round_trip(predicate):
    context = ReadContext(
        table="db.t",
        schema=SCHEMA,
        file_schemas=(SCHEMA,),
        columns=("id", "day"),
        predicate=predicate,
        file_io=FILE_IO,
        text_options={"segment-0-x": TextOptions(names=("a",)), "segment-1-y": TextOptions()},
        fallback=None if predicate is None else SCHEMA,
    )
    assert load(ReadContext, dump(context)) == context


@given(
    st.lists(st.builds(BucketState, partition=st.binary(), bucket=ints, max_sequence_number=longs)),
    st.lists(st.tuples(st.binary(), ints)),
)
def test_write_contexts_round_trip(states, buckets):
    context = WriteContext(
        table="db.t",
        table_path="/w/db.db/t",
        schema=SCHEMA,
        bucket_states=tuple(states),
        partition_buckets=tuple(buckets),
        file_io=FILE_IO,
    )
    assert load(WriteContext, dump(context)) == context


def test_writable_partitions_round_trip():
    context = WriteContext(
        table="t", table_path="/t", schema=SCHEMA, partitions=pred.IsNull("a"), file_io=FILE_IO
    )
    assert load(WriteContext, dump(context)) == context


messages = st.builds(
    CommitMessage,
    partition=st.binary(max_size=20),
    bucket=ints,
    total_buckets=st.none() | ints,
    keys_known_at=st.none() | ints,
    data_increment=st.builds(
        DataIncrement, new_files=files, deleted_files=files, changelog_files=files
    ),
    compact_increment=st.builds(
        CompactIncrement, compact_before=files, compact_after=files, changelog_files=files
    ),
)
counts = st.integers(0, 2**62)
reports = st.builds(
    WriteReport, rows_in=counts, rows_ignored=counts, rows_written=counts, sequence_wraps=counts
)


@given(st.builds(WriteResult, messages=st.lists(messages, max_size=2).map(tuple), report=reports))
def test_write_results_round_trip(result):
    assert load(WriteResult, dump(result)) == result


def send(predicate):
    return load(type(predicate), dump(predicate))


@given(predicates)
def test_literals_keep_their_exact_types(predicate):
    assert exact(send(predicate)) == exact(predicate)


def test_decimal_keeps_its_digits():
    loaded = send(pred.Comparison("price", pred.CompareOp.EQ, Decimal("1.50")))
    assert isinstance(loaded, pred.Comparison)
    assert str(loaded.literal) == "1.50"


def test_unbound_predicate_is_not_encoded():
    raw = pred.Comparison("day", pred.CompareOp.EQ, dt.date(2024, 1, 1))
    with pytest.raises(errors.InvalidInputError, match="bind"):
        send(raw)
    assert send(pred.bind(raw, SCHEMA)) == pred.bind(raw, SCHEMA)


@given(
    st.sampled_from(sorted(errors.ERROR_CLASSES)),
    st.text(),
    st.text(min_size=1),
    st.dictionaries(
        texts.filter(lambda name: name != "kind"),
        st.none() | st.booleans() | longs | texts | st.floats(allow_nan=False),
    ),
)
def test_errors_round_trip(name, message, kind, details):
    error = errors.ERROR_CLASSES[name](message, kind=kind, **details)
    loaded = load_error(dump_error(error))
    assert type(loaded) is type(error)
    assert (loaded.message, loaded.kind, loaded.details) == (message, kind, details)


def test_format_words_decode_as_text():
    error = errors.InvalidInputError("no", kind="x", function=MergeEngine.FIRST_ROW)
    assert load_error(dump_error(error)).details == {"function": "first-row"}


def test_another_version_or_another_value_is_refused():
    data = dump_error(errors.CommitConflictError("lost"))
    with pytest.raises(errors.FormatError, match="same version"):
        load_error(data.replace(b'"version":2', b'"version":3'))
    with pytest.raises(errors.FormatError, match="Expected a ReadContext"):
        load(ReadContext, data)


@pytest.mark.parametrize("kind", [ReadContext, WriteContext, WriteResult, RaisedError])
@given(data=st.data())
def test_arbitrary_bytes_are_refused(kind, data):
    ends = ["", "}", ",1}", ',"value":{"IsNull":["a"]}}', ',"value":{"bytes":0}}']
    header = f'{{"what":"{kind.__name__}","version":2{data.draw(st.sampled_from(ends))}'
    out = DataOutput()
    out.write_bytes(header.encode())
    for damaged in (out.to_bytes(), data.draw(st.binary(max_size=60))):
        with pytest.raises(errors.FormatError):
            load(kind, damaged)


def test_storage_options_are_encoded_but_not_shown():
    context = WriteContext(table="t", table_path="/t", schema=SCHEMA, file_io=FILE_IO)
    assert load(WriteContext, dump(context)).file_io == FILE_IO
    assert "hush" not in repr(context)


def test_header_is_readable_for_people():
    data = dump_error(errors.CommitConflictError("lost"))
    assert DataInput(data).read_bytes().startswith(b'{"what":"RaisedError","version":2')
