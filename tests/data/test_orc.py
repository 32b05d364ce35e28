import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import orc

from paimon_assets.engine.data.field_mapping import FieldMapping
from paimon_assets.engine.data.format.formats import open_reader
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema

FILE_IO = LocalFileIO()
SCHEMA = first_table_schema(
    Schema.of(
        {
            "i": "TINYINT",
            "s": "STRING",
            "m": "DECIMAL(10, 2)",
            "t": "TIME(3)",
            "x": "TIMESTAMP(3)",
            "l": {"type": "ARRAY", "element": "INT"},
        }
    ),
    time_millis=0,
)
STORED = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int8()),
        "s": pa.array(["a", "b", None]),
        "m": pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(10, 2)),
        "t": pa.array([3_600_000, None, 1], pa.int32()),
        "x": pa.array([1_000_000, None, 2_000_000], pa.timestamp("ns")),
        "l": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    }
)


@pytest.fixture
def path(tmp_path):
    orc.write_table(STORED, tmp_path / "data-1.orc")
    return str(tmp_path / "data-1.orc")


def test_orc_columns_become_the_columns_of_the_table(path):
    mapping = FieldMapping.of(SCHEMA.fields, (), SCHEMA, path)
    with open_reader(FILE_IO, path, file_format="orc") as reader:
        mapping.check_columns(reader.schema.names)
        batches = [
            mapping.apply(batch)
            for batch in reader.batches(mapping.file_columns, predicate=None, batch_rows=2)
        ]
    assert [batch.num_rows for batch in batches] == [2, 1]
    found = pa.Table.from_batches(batches)
    assert found.schema == mapping.arrow_schema
    assert found.to_pydict() == {
        **STORED.select(["i", "s", "m", "l"]).to_pydict(),
        "t": [dt.time(1), None, dt.time(0, 0, 0, 1000)],
        "x": [
            dt.datetime.fromisoformat(f"1970-01-01T00:00:00.00{n}") if n else None
            for n in (1, 0, 2)
        ],
    }


def test_columns_come_in_the_order_asked_for(path):
    with open_reader(FILE_IO, path, file_format="orc") as reader:
        (batch,) = reader.batches(["s", "i"], predicate=None, batch_rows=10)
    assert batch.equals(STORED.select(["s", "i"]).to_batches()[0])


def test_what_is_no_orc_is_named(tmp_path):
    broken = tmp_path / "data-2.orc"
    broken.write_bytes(b"no orc at all")
    with pytest.raises(FormatError, match=r"data-2\.orc.*ORC"):
        open_reader(FILE_IO, str(broken), file_format="orc")
