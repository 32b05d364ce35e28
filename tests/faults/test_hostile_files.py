"""Small files that ask for very much, and values no engine writes: refused by name, at once."""

import io
import json
import tracemalloc
import zlib

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from paimon_assets import FormatError, InvalidInputError, PaimonError, Table
from paimon_assets.engine.codec.avro.avro import RecordSchema, frame_block, read_container
from paimon_assets.engine.codec.avro.manifest_avro import (
    read_index_manifest,
    read_manifest,
    write_index_manifest,
)
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison
from tests.faults.fuzz import EXECUTOR, Overlay, forget_manifests, make_tables

SYNC = bytes(16)


def _long(value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def _container(schema, payload, *, codec="null", count=1):
    header = io.BytesIO()
    metadata = {
        "avro.schema": (schema if isinstance(schema, bytes) else json.dumps(schema).encode()),
        "avro.codec": codec.encode(),
    }
    fastavro.schemaless_writer(header, {"type": "map", "values": "bytes"}, metadata)
    block = frame_block(count, payload, bytes)
    return b"Obj\x01" + header.getvalue() + SYNC + block + SYNC


def _record(*fields, name="r"):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{n}", "type": type_} for n, type_ in enumerate(fields)],
    }


def _doubling(depth):
    """Return a schema of few bytes whose names, written out, are 2**depth types."""
    inner = _record("int", name="n0")
    for level in range(1, depth):
        inner = _record(inner, f"n{level - 1}", name=f"n{level}")
    return inner


def _deep(depth):
    inner = "int"
    for level in range(depth):
        inner = _record(inner, name=f"n{level}")
    return inner


HOSTILE = {
    "an array of 2^40 nulls": _container(
        _record({"type": "array", "items": "null"}), _long(2**40) + b"\0"
    ),
    "an array of 2^40 empty records": _container(
        _record({"type": "array", "items": _record(name="e")}), _long(2**40) + b"\0"
    ),
    "2^40 records of no bytes": _container(_record("null"), b"", count=2**40),
    "an array longer than the file": _container(
        _record({"type": "array", "items": "int"}), _long(2**40) + b"\0"
    ),
    "records that double": _container(_doubling(40), b"\0" * 8),
    "records in records": _container(b'{"type":"array","items":' * 20_000, b"\0"),
    "types in types": _container(_deep(100), b"\0"),
    "a number without end": _container(_record("long"), b"\x80" * 1_000_000),
    "a block count without end": b"Obj\x01\0" + b"\x80" * 1_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("read", [read_manifest, lambda d, p: list(read_container(d, p))])
def test_small_files_cost_little_memory_and_time(name, read):
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="the-file"):
            read(HOSTILE[name], "the-file")
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_deflated_gigabyte_is_refused():
    packer = zlib.compressobj(wbits=-15)
    megabyte = bytes(1 << 20)
    packed = b"".join(packer.compress(megabyte) for _ in range(300)) + packer.flush()
    data = _container(_record("int"), packed, codec="deflate", count=1 << 20)
    with pytest.raises(FormatError, match="hold more than"):
        list(read_container(data, "the-file"))


def test_schemas_that_engines_write_are_read():
    RecordSchema.of(json.dumps(_deep(40)).encode())
    RecordSchema.of(json.dumps(_doubling(10)).encode())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return make_tables(tmp_path_factory.mktemp("hostile"))[0]


def _with(path, data, table):
    forget_manifests()
    return Table(FileStore.open(Overlay(path, data), str(table)))


STATISTICS = [
    b'{"snapshotId": 1, "schemaId": 0, "colStats": ' + b"[" * 100_000,
    b"[" * 100_000,
    b'{"snapshotId": 1, "schemaId": 0, "mergedRecordCount": "many"}',
    b'{"snapshotId": 1, "schemaId": 0, "mergedRecordCount": 1e300}',
    b'{"snapshotId": 1' + b"0" * 30 + b', "schemaId": 0}',
    b'{"snapshotId": 1, "schemaId": {}, "mergedRecordSize": [1]}',
    b'{"snapshotId": 1, "schemaId": 0, "colStats": {"\\ud800": 1}}',
    b'{"snapshotId": ' + b"9" * 5000 + b', "schemaId": 0}',
]


@pytest.mark.parametrize("data", STATISTICS, ids=range(len(STATISTICS)))
def test_damaged_statistics_are_named(table, data):
    (path,) = table.glob("statistics/*")
    with pytest.raises(FormatError, match=path.name):
        _with(path, data, table).system_table("statistics").to_arrow(EXECUTOR)


@pytest.mark.parametrize("hint", [b"9" * 4300, b"9" * 5000, "٣".encode(), b"-1", b"1e3", b"\xff"])
def test_invalid_hint_is_ignored(table, hint):
    opened = _with(table / "snapshot" / "LATEST", hint, table)
    assert opened.latest_snapshot().id == 4


@pytest.mark.parametrize("name", ["\0", "a\0b", "\ud800", "a/b"])
def test_impossible_file_names_are_refused(table, name):
    opened = _with(table, b"", table)
    for use in (
        lambda: opened.tags.create(name),
        lambda: opened.tags.get(name),
        lambda: opened.branches.create(name),
        lambda: opened.new_read_builder().at_tag(name).to_arrow(EXECUTOR),
    ):
        with pytest.raises(InvalidInputError):
            use()


def _index_manifest(table):
    return max(table.glob("manifest/index-manifest-*"), key=lambda path: path.stat().st_mtime_ns)


def _change_meta(table, **changes):
    """Return the index manifest with other values of its first entry, or of its first vector."""
    path = _index_manifest(table)
    entries = read_index_manifest(path.read_bytes(), str(path))
    entry = entries[0]
    in_vector = {key: value for key, value in changes.items() if key in ("offset", "length")}
    if in_vector:
        vector = entry.file.deletion_vectors[0]
        vector = _replace_value(vector, **in_vector)
        changes = {"file": _replace_value(entry.file, deletion_vectors=(vector,))}
    return path, write_index_manifest([_replace_value(entry, **changes), *entries[1:]])


def _replace_value(value, **changes):
    return value._replace(**changes) if isinstance(value, tuple) else replace(value, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": -1}, {"offset": 2**31 - 1}, {"length": -1}, {"length": -2**31}, {"length": 0},
        {"length": 2**31 - 1}, {"bucket": -7}, {"partition": b""}, {"partition": b"\xff" * 8},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_vectors_of_index_manifest_are_refused(table, changes):
    path, data = _change_meta(table, **changes)
    with pytest.raises(PaimonError):
        _with(path, data, table).new_read_builder().to_arrow(EXECUTOR)


@pytest.mark.parametrize("name", ["a\\u0000b", "\\ud800", "\\udfff.avro"])
@pytest.mark.parametrize("member", ["baseManifestList", "deltaManifestList", "indexManifest"])
def test_impossible_names_in_snapshot_are_refused(table, member, name):
    path = table / "snapshot" / "snapshot-4"
    members = json.loads(path.read_bytes())
    data = path.read_bytes().replace(members[member].encode(), name.encode())
    with pytest.raises(PaimonError):
        _with(path, data, table).new_read_builder().to_arrow(EXECUTOR)


def _footer_damages():
    """Yield Parquet files, each with one bit of its footer turned."""
    out = io.BytesIO()
    rows = {
        "id": range(200),
        "v": [f"v{n % 7}" for n in range(200)],
        "a": [[n] for n in range(200)],
    }
    pq.write_table(pa.table(rows), out, row_group_size=40)
    data = out.getvalue()
    footer = range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data) - 8)
    for at in footer:
        yield data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_damaged_parquet_footer_does_not_crash(tmp_path):
    """Arrow ends the process at some damages of column chunks or statistics: we refuse them."""
    refused, below = 0, Comparison("id", CompareOp.LT, 5)
    for data in _footer_damages():
        (tmp_path / "damaged").write_bytes(data)
        try:
            with open_reader(
                LocalFileIO(), str(tmp_path / "damaged"), file_format="parquet"
            ) as reader:
                for name in reader.schema.names:
                    reader.column_bounds(name)
                names = [name for name in ("id", "v") if name in reader.schema.names]
                for _ in reader.batches(names, predicate=below, batch_rows=10, batch_bytes=100):
                    pass
        except FormatError:
            refused += 1
    assert refused > 100
