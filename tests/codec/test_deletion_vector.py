"""Both forms against bytes that Java Paimon wrote, and against sets of positions."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paimon_assets.engine.codec.avro.manifest_avro import read_index_manifest
from paimon_assets.engine.codec.bitmaps.deletion_vector import (
    DeletionVector,
    decode_vector,
    encode_vector,
    write_index_file,
)
from paimon_assets.engine.errors import FormatError, InvalidInputError

TABLES = Path(__file__).parents[3] / "shared" / "tables"
OF_JAVA_32 = "01 00000016 5e43f2d0 3a300000 01000000 0000 0000 10000000 0400 875ca5d7"
"""One vector of position 4, as Java 1.x wrote it."""
OF_JAVA_64 = (
    "01 00000024 d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0500 0700"
    " 833ac5fa"
)
"""One vector of positions 5 and 7, as Java 2.0 wrote it."""

SMALL = st.sets(st.integers(0, 300_000))
LARGE = st.sets(st.integers(0, 2**40))


def positions_of(vector: DeletionVector, stop: int = 2**62) -> set[int]:
    return set(vector.positions(0, stop).tolist())


@pytest.mark.parametrize(
    ("text", "positions", "bitmap64", "length"),
    [(OF_JAVA_32, {4}, False, 22), (OF_JAVA_64, {5, 7}, True, 44)],
    ids=["32 bits", "64 bits"],
)
def test_bytes_are_those_of_java(text, positions, bitmap64, length):
    data = bytes.fromhex(text)
    vectors = {"data-1.parquet": DeletionVector.of(positions)}
    written, (meta,) = write_index_file(vectors, bitmap64=bitmap64)
    assert written == data
    assert (meta.data_file_name, meta.offset, meta.length) == ("data-1.parquet", 1, length)
    assert meta.cardinality == len(positions)
    assert positions_of(decode_vector(data[1:], "f", length=length)) == positions


def test_index_file_without_vectors_is_one_byte():
    assert write_index_file({}) == (b"\x01", ())


@given(SMALL, st.booleans())
@example({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, False)
def test_vector_round_trips(positions, bitmap64):
    vector = DeletionVector.of(positions)
    found = decode_vector(encode_vector(vector, bitmap64=bitmap64), "f")
    assert positions_of(found) == positions
    assert len(found) == len(positions)
    assert found.last == max(positions, default=-1)


@given(LARGE)
@example({2**32 - 1})
@example({2**32, 3 * 2**32 + 5})
@pytest.mark.way_out("deletion-vector")
def test_positions_beyond_32_bits_round_trip(positions):
    vector = DeletionVector.of(positions)
    assert positions_of(decode_vector(encode_vector(vector, bitmap64=True), "f")) == positions
    if max(positions, default=0) >= 2**32:
        with pytest.raises(InvalidInputError, match="bitmap64"):
            encode_vector(vector)


@given(LARGE | SMALL, st.integers(0, 2**33), st.integers(0, 2**20))
@example({5, 6, 7}, 6, 1)
def test_range_returns_its_positions(positions, start, length):
    found = DeletionVector.of(positions).positions(start, start + length)
    assert found.tolist() == sorted(p for p in positions if start <= p < start + length)


@given(st.dictionaries(st.text(min_size=1), SMALL, max_size=4), st.booleans())
def test_index_vectors_are_at_their_offsets(vectors, bitmap64):
    written, metas = write_index_file(
        {name: DeletionVector.of(positions) for name, positions in vectors.items()},
        bitmap64=bitmap64,
    )
    assert [meta.data_file_name for meta in metas] == list(vectors)
    for meta in metas:
        found = decode_vector(written[meta.offset :], "f", length=meta.length)
        assert positions_of(found) == vectors[meta.data_file_name]


@given(SMALL, st.booleans(), st.data())
def test_damaged_vector_is_refused(positions, bitmap64, data):
    whole = bytearray(encode_vector(DeletionVector.of(positions), bitmap64=bitmap64))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for damaged in (bytes(whole), bytes(whole[:cut])):
        with pytest.raises(FormatError, match="index-1: damaged deletion vector") as caught:
            decode_vector(damaged, "index-1")
        assert caught.value.kind == "deletion-vector"


def test_length_unlike_metadata_is_refused():
    with pytest.raises(FormatError, match="it has 23 bytes by the table"):
        decode_vector(bytes.fromhex(OF_JAVA_32)[1:], "f", length=23)
    with pytest.raises(FormatError, match="it has 36 bytes by the table"):
        decode_vector(bytes.fromhex(OF_JAVA_64)[1:], "f", length=36)


def test_unknown_magic_is_named():
    data = bytearray(bytes.fromhex(OF_JAVA_32)[1:])
    data[4] = 0
    with pytest.raises(FormatError, match="unknown magic 0043f2d0"):
        decode_vector(bytes(data), "f")


@pytest.mark.skipif(not TABLES.exists(), reason="needs ../shared/tables, written by Java Paimon")
def test_every_vector_of_java_is_read_and_written_byte_by_byte():
    checked = 0
    for manifest in sorted(TABLES.glob("**/manifest/index-manifest-*")):
        root = manifest.parents[1]
        for entry in read_index_manifest(manifest.read_bytes(), str(manifest)):
            for meta in entry.file.deletion_vectors or ():
                for path in root.glob(f"**/{entry.file.file_name}"):
                    data = path.read_bytes()[meta.offset :]
                    vector = decode_vector(data, str(path), length=meta.length)
                    assert meta.cardinality in (None, len(vector))
                    assert data.startswith(encode_vector(vector))
                    checked += 1
    assert checked > 10
