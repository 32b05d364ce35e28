"""Commit messages of Java: each version is read, and the newest is written."""

import base64
import json
import struct
from pathlib import Path

import pytest

from paimon_assets.engine.codec.avro.manifest_avro import read_manifest
from paimon_assets.engine.codec.rows.data_file_row import file_to_row
from paimon_assets.engine.codec.rows.java_stream import DataOutput
from paimon_assets.engine.contract.commit_message import (
    CommitMessage,
    CompactIncrement,
    DataIncrement,
)
from paimon_assets.engine.errors import FormatError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.data_file import EMPTY_ROW
from paimon_assets.engine.spec.metadata.manifest import (
    DeletionVectorMeta,
    GlobalIndexMeta,
    IndexFileMeta,
)
from tests.testkit.builders import data_file
from tests.testkit.errors import refused
from tests.testkit.java_messages import (
    JAVA_MESSAGE_VERSION,
    IndexRowLayout,
    dump_java_messages,
    index_from_row,
    index_to_row,
    load_java_messages,
)

GOLDEN = Path(__file__).parents[1] / "golden"
TABLES = Path(__file__).parents[3] / "shared" / "tables"
VECTORS = IndexFileMeta(
    index_type="DELETION_VECTORS",
    file_name="index-1",
    file_size=90,
    row_count=2,
    deletion_vectors=(
        DeletionVectorMeta(data_file_name="data-0.parquet", offset=1, length=22, cardinality=3),
        DeletionVectorMeta(data_file_name="data-1.parquet", offset=31, length=20),
    ),
)
BITMAP = IndexFileMeta(
    index_type="bitmap",
    file_name="bitmap-global-index-1.index",
    file_size=70,
    row_count=8,
    external_path="/elsewhere/bitmap-global-index-1.index",
    global_index=GlobalIndexMeta(
        row_range_start=0,
        row_range_end=7,
        index_field_id=2,
        extra_field_ids=(3, 4),
        index_meta=b"meta",
        source_meta=b"source",
    ),
)
MESSAGE = CommitMessage(
    partition=EMPTY_ROW,
    bucket=3,
    total_buckets=4,
    data_increment=DataIncrement(
        new_files=(data_file(), data_file(file_name="data-2.parquet", write_cols=("a",))),
        deleted_files=(data_file(file_name="data-3.parquet", extra_files=("data-3.index",)),),
        changelog_files=(data_file(file_name="changelog-4.parquet"),),
        new_index_files=(VECTORS, BITMAP),
    ),
    compact_increment=CompactIncrement(
        compact_before=(data_file(file_name="data-5.parquet"),),
        compact_after=(data_file(file_name="data-6.parquet", level=5),),
        deleted_index_files=(VECTORS,),
    ),
)


@pytest.mark.parametrize("version", [JAVA_MESSAGE_VERSION, 13, 14])
def test_written_document_is_read_again(version):
    messages = (MESSAGE, CommitMessage(partition=EMPTY_ROW, bucket=0, total_buckets=None))
    assert load_java_messages(dump_java_messages(messages, version), version) == messages


@pytest.mark.parametrize("version", [0, 2, 15])
def test_other_versions_are_refused_by_number(version):
    with refused(UnsupportedFeatureError, f"version {version}", kind="commit-message-version"):
        load_java_messages(dump_java_messages([MESSAGE]), version)


@pytest.mark.parametrize("version", [3, 5, 7, 8, 9])
def test_messages_of_another_version_are_not_misread(version):
    with pytest.raises(FormatError):
        load_java_messages(dump_java_messages([MESSAGE]), version)


def test_truncated_messages_and_trailing_bytes_are_refused():
    data = dump_java_messages([MESSAGE])
    for length in range(0, len(data), 7):
        with pytest.raises(FormatError):
            load_java_messages(data[:length], JAVA_MESSAGE_VERSION)
    with pytest.raises(FormatError, match="left behind"):
        load_java_messages(data + b"\0", JAVA_MESSAGE_VERSION)


def test_index_files_before_version_10_belong_to_compaction():
    index = index_to_row(VECTORS, IndexRowLayout(6))
    for compacts in (False, True):
        out = DataOutput()
        out.write_int(1)
        out.write_bytes(EMPTY_ROW)
        out.write_int(0)
        out.write_boolean(False)
        for number in range(6):
            out.write_int(int(compacts and number == 4))
            if compacts and number == 4:
                out.write_bytes(file_to_row(data_file(), 20))
        for count in (1, 0):
            out.write_int(count)
            if count:
                out.write_bytes(index)
        (message,) = load_java_messages(out.to_bytes(), 9)
        assert message.compact_increment.new_index_files == ((VECTORS,) if compacts else ())
        assert message.data_increment.new_index_files == (() if compacts else (VECTORS,))


def test_older_index_row_lacks_later_fields():
    row = index_to_row(VECTORS, IndexRowLayout(5, 3))
    found = index_from_row(row, IndexRowLayout(5, 3))
    assert [vector.cardinality for vector in found.deletion_vectors or ()] == [None, None]
    old = IndexRowLayout(global_arity=5)
    covers = index_from_row(index_to_row(BITMAP, old), old).global_index
    assert covers is not None
    assert (covers.index_meta, covers.source_meta) == (b"meta", None)


def java_messages():
    for path in sorted(TABLES.glob("*/*.db/*/commit_messages/commit_messages*")):
        yield pytest.param(path, id=str(path.relative_to(TABLES)))


@pytest.mark.parametrize("path", list(java_messages()))
def test_java_committed_files_its_messages_name(path):
    data, readings = path.read_bytes(), []
    for version in range(3, JAVA_MESSAGE_VERSION + 1):
        try:
            readings.append(load_java_messages(data, version))
        except FormatError:
            continue
    assert readings
    # Some versions differ in members that these messages lack.
    assert all(messages == readings[0] for messages in readings)
    committed = {}
    for manifest in (path.parents[1] / "manifest").glob("manifest-*"):
        if "list" not in manifest.name:
            for entry in read_manifest(manifest.read_bytes(), str(manifest)):
                committed[entry.file.file_name] = entry.file
    for message in readings[0]:
        for file in message.data_increment.new_files:
            known = committed.get(file.file_name, file)
            assert (known.file_size, known.row_count) == (file.file_size, file.row_count)
            assert (known.value_stats, known.value_stats_cols) == (
                file.value_stats,
                file.value_stats_cols,
            )


def test_messages_of_pypaimon_are_read():
    """Of an append and a keyed table, by pypaimon 2.1.0: version 14, one message a line."""
    lines = (GOLDEN / "commit_messages_v14_pypaimon_2_1_0.jsonl").read_text().splitlines()
    for line in map(json.loads, lines):
        data = struct.pack(">i", 1) + base64.b64decode(line["bytes"])
        [message] = load_java_messages(data, 14)
        [file] = message.data_increment.new_files
        assert (file.file_name, file.row_count) == (line["file"], line["rows"])
        assert (file.file_size, file.max_sequence_number) == (line["size"], line["max_sequence"])
        assert (message.bucket, message.total_buckets) == (line["bucket"], line["total_buckets"])
        assert dump_java_messages([message], 14)[4:] == base64.b64decode(line["bytes"])
