"""Blob files, against bytes that Java Paimon wrote and against files built here."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.errors import FormatError, UnsupportedFeatureError
from tests.testkit.blob_files import file_bytes
from tests.testkit.split_reads import FILE_IO

OF_JAVA = bytes.fromhex(
    "cf114e584c696c791400000000000000c6c93a45"  # Lily
    "cf114e58416c696365150000000000000015f097ed"  # Alice
    "cf114e58426f6213000000000000007647efaf"  # Bob
    "2802030300000001"
)
"""A whole file of three values, as Java Paimon 1.4 wrote it."""


def read(path, columns=("b",), batch_rows=1000):
    with open_reader(FILE_IO, str(path), file_format="blob", columns=["b"]) as reader:
        batches = list(reader.batches(columns, predicate=None, batch_rows=batch_rows))
        rows = sum(batch.num_rows for batch in batches)
        assert reader.row_ranges(None) == [(0, rows)]
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    if not columns:
        return rows
    return [value for batch in batches for value in batch.column("b").to_pylist()]


def test_file_of_java_is_read_and_has_bytes_built_here(tmp_path):
    path = tmp_path / "data-1.blob"
    path.write_bytes(OF_JAVA)
    assert read(path) == [b"Lily", b"Alice", b"Bob"]
    assert file_bytes([b"Lily", b"Alice", b"Bob"]) == OF_JAVA


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | st.binary(max_size=200), max_size=12), st.integers(1, 5))
def test_values_and_nulls_round_trip(tmp_path, values, batch_rows):
    path = tmp_path / "data-1.blob"
    path.write_bytes(file_bytes(values))
    assert read(path, batch_rows=batch_rows) == values
    assert read(path, columns=(), batch_rows=batch_rows) == len(values)


def test_large_values_do_not_share_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("paimon_assets.engine.data.format.blob._BATCH_BYTES", 50)
    path = tmp_path / "data-1.blob"
    path.write_bytes(file_bytes([b"a" * 20, b"b" * 100, b"c", b"d"]))
    with open_reader(FILE_IO, str(path), file_format="blob", columns=["b"]) as reader:
        sizes = [batch.num_rows for batch in reader.batches(["b"], predicate=None, batch_rows=10)]
    assert sizes == [1, 1, 2]


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_is_refused(tmp_path, data):
    whole = bytearray(OF_JAVA)
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "data-1.blob"
    path.write_bytes(bytes(whole))
    with pytest.raises((FormatError, UnsupportedFeatureError), match=r"data-1\.blob"):
        read(path)
