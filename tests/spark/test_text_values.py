"""Values of JSON and CSV segments beside Spark's own reader of the same files."""

import datetime as dt

import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.segments.segment_import import SegmentSource

pytestmark = pytest.mark.spark

JSON = {
    "BYTES": ['"YWI="', '"YQ=="', '""', "null"],
    "DATE": ['"2024-02-29"', '"1950-01-01"', "null"],
    "STRING": [
        "5", "1.10", "-1e10", "12345678901234567890123", "true", "false", "null", '"x"', '""',
        '{"a": 1, "b": [1, 2.50, "x\\"y\\u00e9"]}', "[1,  2]", "[]", "{}", '"a,b: {"',
    ],
    "MAP<STRING NOT NULL, INT>": ['{"a": 1, "b": null}', "{}", "null", '{"k,\\"{:": 2}'],
    "DECIMAL(10, 2)": ['"5.25"', "5", "5.25", "null"],
    "TIMESTAMP(6)": ['"2024-02-29T10:00:00"', '"2024-02-29 10:00:00.123456"', '"2024-02-29"'],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [
        '"2024-02-29T10:00:00"', '"2024-02-29 10:00:00.5"', '"2024-07-01T10:00:00Z"',
        '"2024-02-29T10:00:00.25+02:00"', "null",
    ],
}  # fmt: skip
CSV = {
    "TIMESTAMP(6)": ["2024-02-29T10:00:00", "2024-02-29 10:00:00.123456"],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [
        "2024-02-29T10:00:00Z", "2024-02-29T10:00:00.5+02:00", "2024-02-29 10:00:00",
    ],
}  # fmt: skip
SPARK = {
    "BYTES": "BINARY",
    "MAP<STRING NOT NULL, INT>": "MAP<STRING, INT>",
    "TIMESTAMP(6)": "TIMESTAMP_NTZ",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": "TIMESTAMP",
}
CASES = [("json", kind, JSON[kind]) for kind in JSON] + [("csv", kind, CSV[kind]) for kind in CSV]


def _plain(value):
    if isinstance(value, bytearray):
        return bytes(value)
    return dict(value) if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "kind", "values"), CASES)
def test_values_are_those_of_sparks_own_reader(spark, new_catalog, tmp_path, name, kind, values):
    lines = [f'{{"c": {value}}}' for value in values] if name == "json" else ["c", *values]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"1.{name}").write_text("\n".join(lines))
    zone = {"timeZone": "Europe/Berlin"} if "TIMESTAMP" in kind else {}
    table = new_catalog.create_table("db.t", Schema.of({"c": kind}))
    source = SegmentSource(path=str(tmp_path / "in"), format=name, options=zone)
    table.segments().add(source)
    ours = table.new_read_builder().to_arrow().column("c").to_pylist()
    reader = spark.read.format(name).options(header="true", mode="FAILFAST", **zone)
    frame = reader.schema(f"c {SPARK.get(kind, kind)}").load(str(tmp_path / "in"))
    theirs = frame.toArrow().column("c").to_pylist()
    instants = [each.astimezone(dt.UTC) if isinstance(each, dt.datetime) and each.tzinfo else each
                for each in theirs]  # fmt: skip
    assert [_plain(value) for value in ours] == [_plain(value) for value in instants]
