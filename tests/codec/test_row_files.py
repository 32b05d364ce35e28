import datetime as dt
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.orc as paorc
import pyarrow.parquet as papq
import pytest

from paimon_assets.engine.codec.row_files import RowFormat, naming, open_rows
from paimon_assets.engine.data.format.external_files import FileKind, open_external_file
from paimon_assets.engine.errors import FormatError, StorageError
from paimon_assets.engine.fileio.local import LocalFileIO

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "text": [f"t{n}" for n in range(100)]})


def write_arrow(rows, path):
    with pa.ipc.new_file(str(path), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=30)


WRITERS = {
    RowFormat.PARQUET: lambda rows, path: papq.write_table(rows, path, row_group_size=30),
    RowFormat.ORC: lambda rows, path: paorc.write_table(rows, str(path)),
    RowFormat.ARROW: write_arrow,
    RowFormat.CSV: pacsv.write_csv,
    RowFormat.JSON: lambda rows, path: path.write_text(
        "\n".join(json.dumps(row) for row in rows.to_pylist())
    ),
}


def write(path, row_format, rows=ROWS):
    WRITERS[row_format](rows, path)
    return path


def read(path, row_format, columns=None):
    if row_format not in (RowFormat.ARROW, RowFormat.CSV):
        kind = FileKind(format=row_format.value)
        with open_external_file(LocalFileIO(), str(path), kind, columns) as opened:
            return pa.Table.from_batches(opened.batches, opened.schema)
    with naming(str(path), row_format), pa.OSFile(str(path), "rb") as file:
        opened = open_rows(file, row_format, columns)
        return pa.Table.from_batches(opened.batches, opened.schema)


@pytest.mark.parametrize("row_format", list(RowFormat))
def test_formats_keep_row_order_without_foreign_metadata(tmp_path, row_format):
    marked = ROWS.replace_schema_metadata({"pandas": "{}"})
    found = read(write(tmp_path / "rows", row_format, marked), row_format)
    assert found.equals(ROWS)
    assert found.schema.metadata is None


@pytest.mark.parametrize("row_format", [RowFormat.CSV, RowFormat.JSON])
def test_texts_are_parsed_as_requested_types(tmp_path, row_format):
    columns = pa.schema(
        {
            "day": pa.date32(),
            "at": pa.timestamp("ms"),
            "seen": pa.timestamp("us", "UTC"),
            "price": pa.decimal128(10, 2),
        }
    )
    row = {
        "day": "2024-02-29",
        "at": "2024-01-01 00:00:00.001000",
        "seen": "2024-01-01T01:00:00+01:00",
        "price": "1.50",
    }
    path = tmp_path / "rows"
    if row_format is RowFormat.JSON:
        path.write_text(json.dumps(row))
    else:
        row["at"] = "2024-01-01 00:00:00.001"
        path.write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    (found,) = read(path, row_format, columns).to_pylist()
    assert found["day"] == dt.date(2024, 2, 29)
    assert found["at"] == dt.datetime(2024, 1, 1, 0, 0, 0, 1000)
    assert found["seen"] == dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    assert str(found["price"]) == "1.50"


def test_json_member_first_in_later_rows_is_refused(tmp_path):
    path = tmp_path / "rows.json"
    rows = [{"id": number} for number in range(400_000)]
    path.write_text("\n".join(map(json.dumps, [*rows, {"id": 1, "late": 2}])))
    with pytest.raises(FormatError, match="unexpected field"):
        read(path, RowFormat.JSON)


def test_json_array_is_refused_with_way_out(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('[{"id": 1}, {"id": 2}]')
    for columns in (None, pa.schema({"id": pa.int64()})):
        with pytest.raises(FormatError, match=r"rows.json.* an array; .* multiLine=true"):
            read(path, RowFormat.JSON, columns)


@pytest.mark.parametrize("row_format", list(RowFormat))
def test_damaged_file_is_named_in_one_line(tmp_path, row_format):
    path = tmp_path / "damaged"
    path.write_bytes(b'\x00"{[' * 20 + b"\n1,2")
    with pytest.raises(FormatError, match="damaged") as caught:
        read(path, row_format, pa.schema({"id": pa.int64()})).column("id")
    assert "\n" not in caught.value.message
    assert caught.value.kind == ("format" if row_format is RowFormat.JSON else "source-file")


def test_damage_inside_page_is_found_by_its_checksum(tmp_path):
    path = tmp_path / "pages.parquet"
    papq.write_table(ROWS, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    place = content.index(b"t50")
    content[place : place + 3] = b"t99"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"pages\.parquet"):
        read(path, RowFormat.PARQUET)


def test_storage_failure_is_not_reported_as_damage(tmp_path):
    with pytest.raises(StorageError, match="gone"), naming(str(tmp_path / "gone"), RowFormat.CSV):
        (tmp_path / "gone").read_bytes()


_ENDS = """
import sys
import pyarrow as pa
from paimon_assets.engine.codec.row_files import as_file
from paimon_assets.engine.table.frames.arrow_dataset import ScanDataset
from pyarrow.csv import open_csv
from pyarrow.json import open_json

SCHEMA = pa.schema({"id": pa.int64()})

def endless_rows():
    while True:
        memory = [None, pa.py_buffer(bytes(8000))]  # of Python
        yield pa.record_batch([pa.Array.from_buffers(pa.int64(), 1000, memory)], schema=SCHEMA)
        sum(range(1_000_000))

def scan(file):
    rows = lambda *_: pa.RecordBatchReader.from_batches(SCHEMA, endless_rows())
    return ScanDataset(SCHEMA, rows).to_batches()

def endless():
    yield sys.argv[2].encode()
    while True:
        yield sys.argv[3].encode() * 100_000
        sum(range(1_000_000))  # so that the thread is here when the process ends

kept = None
try:
    kept = {"json": open_json, "csv": open_csv, "dataset": scan}[sys.argv[1]](as_file(endless()))
    next(iter(kept))
except Exception as error:
    kept = kept, error
print("begun")
"""


@pytest.mark.parametrize(
    ("row_format", "first", "line"),
    [
        ("csv", "id\n", "1\n"),
        ("json", '{"id": 1, "v": "x"}\n', '{"id": 1, "v": "x"}\n'),
        ("json", '{"id": 1}\n', '{"id": "x"}\n'),
        ("dataset", "", ""),
    ],
)
def test_process_ends_during_read_ahead(row_format, first, line):
    """Arrow's threads read ahead: a read that ends after the interpreter aborts or hangs."""
    child = subprocess.run(
        [sys.executable, "-c", _ENDS, row_format, first, line],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (child.returncode, child.stdout) == (0, b"begun\n"), child.stderr
