"""Landing folders whose files have several shapes: every row arrives."""

import datetime as dt
import json
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import fastavro
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.orc as paorc
import pyarrow.parquet as papq
import pytest

from paimon_assets import InvalidInputError, Schema
from paimon_assets.assets import (
    FileSource,
    IngestConfig,
    PaimonCatalogResource,
    PaimonSparkResource,
    build_file_ingestion_asset,
)
from tests.testkit.asset_tables import failure_text, metadata_of, rows_of, run

pytestmark = pytest.mark.slow

SPARK = PaimonSparkResource(master="local[2]", extra={"spark.sql.shuffle.partitions": "2"})
DECLARED = {"id": "BIGINT", "amount": "BIGINT"}
SCHEMA = Schema.of(DECLARED)
KEY = dg.AssetKey(["s", "t"])
FORMATS = ("csv", "json", "parquet", "avro", "orc")
TEXTS = ("csv", "json")
KINDS: dict[str, tuple[Any, ...]] = {
    "amount": (pa.int64(), pa.int32()),
    "n": (pa.int64(), pa.int32()),
    "x": (pa.float64(), pa.float32()),
    "flag": (pa.bool_(),),
    "note": (pa.string(),),
}
"""Column → its types in files, of which a later file may have the wider or the narrower."""
STORED = {"n": ("INT", "BIGINT"), "x": ("FLOAT", "DOUBLE"), "flag": ("BOOLEAN",)}


def value_of(rng: random.Random, kind: pa.DataType) -> Any:
    if rng.random() < 0.2:
        return None
    if pa.types.is_string(kind):
        return rng.choice(["a", "07", "1", "true", "2024-01-01", "ü,\"'", "null"])
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_floating(kind):
        return rng.randrange(-99, 99) + 0.5
    return rng.choice([0, -7, 2**31 - 1, 2**53 + 1 if kind == pa.int64() else 5])


def write(path: Path, rows: pa.Table, file_format: Any) -> None:
    match file_format:
        case "csv":
            pacsv.write_csv(rows, path)
        case "json":
            lines = (
                {name: value for name, value in row.items() if value is not None or name == "id"}
                for row in rows.to_pylist()
            )
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        case "parquet":
            papq.write_table(rows, path)
        case "orc":
            paorc.write_table(rows, path)
        case _:
            names = {"double": "double", "float": "float", "bool": "boolean", "string": "string"}
            names |= {"int64": "long", "int32": "int"}
            fields = [
                {"name": each.name, "type": ["null", names[str(each.type)]]} for each in rows.schema
            ]
            schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
            with path.open("wb") as file:
                fastavro.writer(file, schema, rows.to_pylist())


class Folder:
    """A folder of drifting files, and a model of the rows that have arrived."""

    def __init__(self, landing: Path, rng: random.Random, file_format: Any) -> None:
        self.landing, self.rng, self.format = landing, rng, file_format
        self.next_id = 0
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def land(self) -> None:
        """Land a file of another shape under a name that sorts anywhere."""
        rng = self.rng
        names = ["id", *(name for name in KINDS if rng.random() < 0.6)]
        rng.shuffle(names)
        kinds: dict[str, Any] = {name: rng.choice(KINDS.get(name, [pa.int64()])) for name in names}
        rows = []
        for _ in range(rng.choice([0, 1, 3, 9])):
            self.next_id += 1
            rows.append({n: value_of(rng, kinds[n]) for n in names} | {"id": self.next_id})
        name = f"{rng.randrange(10**6):06}.{self.format}"
        table = pa.Table.from_pylist(rows, schema=pa.schema([(n, kinds[n]) for n in names]))
        if name in self.rows or (self.format == "json" and not rows):
            return
        write(self.landing / name, table, self.format)
        self.rows[name] = rows

    def expected_rows(self, types: dict[str, str]) -> list[dict[str, Any]]:
        """Return the rows as a table of these types has them."""
        rows = [row for rows in self.rows.values() for row in rows]
        return sorted(
            (
                {name: self._stored_value(row, name, kind) for name, kind in types.items()}
                for row in rows
            ),
            key=lambda row: row["id"],
        )

    def _stored_value(self, row: dict[str, Any], name: str, kind: str) -> Any:
        value = row.get(name)
        if kind == "STRING" and self.format in TEXTS:
            if self.format == "csv" and name in row and value is None:
                return ""
            return json.dumps(value) if value is not None and name != "note" else value
        return value


def run_of(
    folder: Folder, paimon: PaimonCatalogResource, source: FileSource, most: int, executor: Any
) -> dict[str, Any]:
    asset = build_file_ingestion_asset(
        "s.t", SCHEMA, source=source, schema_policy="widen", executor=executor
    )
    config = dg.RunConfig(ops={"s__t": IngestConfig(max_files=most)})
    result = run(asset, paimon, run_config=config)
    assert result.success, failure_text(result)
    return metadata_of(result, KEY)


def drift(
    seed: int, landing: Path, paimon: PaimonCatalogResource, executor: str | None = None
) -> int:
    """Land files between runs; return how many files arrived."""
    rng = random.Random(seed)  # noqa: S311 (draws)
    folder = Folder(landing, rng, FORMATS[seed % len(FORMATS)])
    extra: Any = "ignore" if rng.random() < 0.25 else "add"
    source = FileSource(
        folder=str(landing), format=folder.format, missing_columns="null", extra_columns=extra
    )
    for number in range(3):
        for _ in range(rng.randrange(1, 4)):
            folder.land()
        most = 0 if number == 2 else rng.choice([0, 1, 2])
        shown = run_of(folder, paimon, source, most, executor)
        if shown["paimon/files_ingested"] and folder.rows:
            shapes = shown["paimon/file_shapes"]
            counts = [each.data["files"] for each in shapes]
            assert sum(counts) == shown["paimon/files_ingested"]
    table = paimon.catalog().get_table("s.t")
    types = {field.name: str(field.type) for field in table.schema.fields}
    names = {name for rows in folder.rows.values() for row in rows for name in row}
    if extra == "ignore":
        assert types == DECLARED
    else:
        assert names <= {*types}
        assert types.get("note", "STRING") == "STRING"
        for name in {*types} & {*STORED}:
            in_doubt = ("STRING",) if folder.format in TEXTS else ()
            assert types[name] in STORED[name] + in_doubt
    rows = sorted(rows_of(table), key=lambda row: row["id"])
    assert rows == folder.expected_rows(types), f"seed {seed}, {folder.format}"
    return len(folder.rows)


@pytest.mark.parametrize("seed", range(20))
def test_every_row_of_drifting_files_arrives(
    seed: int, landing: Path, paimon: PaimonCatalogResource
) -> None:
    assert drift(seed, landing, paimon, "embedded")


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(100, 105))
def test_every_row_of_drifting_files_arrives_by_spark(
    seed: int, landing: Path, warehouse: str, spark: Any
) -> None:
    assert spark.range(1).count() == 1
    paimon = PaimonCatalogResource(warehouse=warehouse, spark=SPARK)
    assert drift(seed, landing, paimon, "spark")


def ingest(paimon: PaimonCatalogResource, landing: Path, **words: Any) -> Any:
    policy = {"schema_policy": words.pop("schema_policy")} if "schema_policy" in words else {}
    schema = words.pop("table", SCHEMA)
    source = FileSource(folder=str(landing), **words)
    return run(build_file_ingestion_asset("s.t", schema, source=source, **policy), paimon)


@pytest.mark.parametrize("file_format", FORMATS)
def test_error_names_options_that_accept_files(
    file_format: str, landing: Path, paimon: PaimonCatalogResource
) -> None:
    late = {"id": [3], "note": ["a"]}
    shapes: Sequence[dict[str, Any]] = ({"id": [1], "amount": [2]}, late, late, late)
    for number, shape in enumerate(shapes):
        write(landing / f"{number}.{file_format}", pa.table(shape), file_format)
    text = failure_text(ingest(paimon, landing, format=file_format))
    assert "extra_columns='add' or 'ignore'" in text
    assert f"More files at fault: 2 ('2.{file_format}', '3.{file_format}')." in text
    if file_format != "json":  # a member that is not there is null
        assert "missing_columns='null'" in text
    result = ingest(
        paimon, landing, format=file_format, missing_columns="null", extra_columns="add"
    )
    assert result.success, failure_text(result)
    assert rows_of(paimon.catalog().get_table("s.t")) == [
        {"id": 1, "amount": 2, "note": None},
        *[{"id": 3, "amount": None, "note": "a"}] * 3,
    ]


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_that_are_refused_add_no_column(
    file_format: str, landing: Path, paimon: PaimonCatalogResource
) -> None:
    narrow = Schema.of({"id": "BIGINT", "amount": "TINYINT"})
    drifting = pa.table({"id": [1, 2], "amount": [7, 300], "note": ["a", "b"]})
    write(landing / f"0.{file_format}", drifting, file_format)
    words: dict[str, Any] = {"format": file_format, "extra_columns": "add", "table": narrow}
    assert "300" in failure_text(ingest(paimon, landing, **words))
    table = paimon.catalog().get_table("s.t")
    assert len(table.schemas()) == 1
    fitting = drifting.set_column(1, "amount", pa.array([7, 8]))
    write(landing / f"0.{file_format}", fitting, file_format)
    assert ingest(paimon, landing, **words).success
    assert rows_of(table.refresh()) == fitting.to_pylist()


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-20", ""], "BIGINT"),
        (["1", "2.5"], "DOUBLE"),
        (["9007199254740993", "2.5"], "STRING"),
        (["007", "1"], "STRING"),
        (["true", "false"], "BOOLEAN"),
        (["2024-02-29", "2024-01-01"], "DATE"),
        (["2024-02-30"], "STRING"),
        (["2024-02-29 10:00:00"], "TIMESTAMP(6)"),
        (["2024-02-29", "2024-02-29 10:00:00"], "STRING"),
        (["1", "x"], "STRING"),
        (["", ""], "STRING"),
        (["NaN"], "STRING"),
    ],
)
def test_type_of_csv_column_holds_texts_of_all_files(
    texts: list[str], kind: str, landing: Path, paimon: PaimonCatalogResource
) -> None:
    for number, text in enumerate(texts):
        (landing / f"{number}.csv").write_text(f'id,amount,c\n{number},0,"{text}"\n')
    result = ingest(paimon, landing, format="csv", extra_columns="add")
    assert result.success, failure_text(result)
    assert str(paimon.catalog().get_table("s.t").schema.by_name["c"].type) == kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "null"], "BIGINT"),
        (["1", "2.5"], "DOUBLE"),
        (["9007199254740993", "2.5"], "STRING"),
        (["1", '"1"'], "STRING"),
        (["true"], "BOOLEAN"),
        (['{"a": 1}', "[1, 2]"], "STRING"),
        (['"2024-01-01"'], "STRING"),
    ],
)
@pytest.mark.parametrize("in_one_file", [True, False])
def test_type_of_json_member_holds_values_of_all_files(
    values: list[str], kind: str, in_one_file: bool, landing: Path, paimon: PaimonCatalogResource
) -> None:
    lines = [f'{{"id": {n}, "c": {value}}}\n' for n, value in enumerate(values)]
    for number, line in enumerate(["".join(lines)] if in_one_file else lines):
        (landing / f"{number}.json").write_text(line)
    result = ingest(paimon, landing, format="json", extra_columns="add")
    assert result.success, failure_text(result)
    table = paimon.catalog().get_table("s.t")
    assert str(table.schema.by_name["c"].type) == kind
    rows = rows_of(table)
    if kind == "STRING":
        texts = [value.strip('"') for value in values]
        assert [row["c"] for row in rows] == texts


def test_declared_type_is_kept(landing: Path, paimon: PaimonCatalogResource) -> None:
    (landing / "1.csv").write_text("c,id,amount\n1,1,1\n")
    declared = Schema.of({**DECLARED, "c": "DECIMAL(5, 2)"})
    assert ingest(paimon, landing, format="csv", extra_columns="add", table=declared).success
    (landing / "2.csv").write_text("id,amount,c,d\n1,1,2.25,5\n")
    result = ingest(paimon, landing, format="csv", extra_columns="add", table=declared)
    assert result.success, failure_text(result)
    types = {f.name: str(f.type) for f in paimon.catalog().get_table("s.t").schema.fields}
    assert types == {**DECLARED, "c": "DECIMAL(5, 2)", "d": "BIGINT"}


def test_file_without_key_is_quarantined(landing: Path, paimon: PaimonCatalogResource) -> None:
    (landing / "1.csv").write_text("amount\n1\n")
    (landing / "2.csv").write_text("id\n2\n")
    keyed = Schema.of(DECLARED, primary_keys=["id"])
    words = {"format": "csv", "missing_columns": "null", "table": keyed}
    assert "lacks columns (id), which cannot be null" in failure_text(
        ingest(paimon, landing, **words)
    )
    shown = metadata_of(ingest(paimon, landing, on_bad_file="quarantine", **words), KEY)
    assert shown["paimon/files_in_quarantine"] == 1
    assert rows_of(paimon.catalog().get_table("s.t")) == [{"id": 2, "amount": None}]


_TIME = dt.datetime(2024, 1, 2, 3)
_DRIFT: Sequence[Any] = (
    pa.array([1], pa.int8()), pa.array([2**40]), pa.array([2.5]), pa.array([2.5], pa.float32()),
    pa.array(["abc"]), pa.array([b"xy"]), pa.array([_TIME.date()]), pa.array([_TIME]),
    pa.array([_TIME], pa.timestamp("us", "UTC")), pa.array([Decimal("1.23")]), pa.array([True]),
    pa.array([Decimal("1.234")], pa.decimal128(8, 3)), pa.array([{"a": 1}]), pa.array([[1]]),
    pa.array([{"a": 2, "b": "q"}]), pa.array([[1.5]]), pa.array([["s"]]), pa.array([[[1]]]),
)  # fmt: skip
_DRIFT_OF_TEXTS = {
    "csv": ("1", "2.5", "abc", "2024-01-02", "2024-01-02 03:04:05", "true", "", '"'),
    "json": ("1", "2.5", '"abc"', '{"a": 1}', "[1]", "true", "null", "1" * 40, '"'),
}


@pytest.mark.parametrize("seed", range(8))
def test_each_file_of_other_types_or_names_is_ingested_or_quarantined(
    seed: int, landing: Path, paimon: PaimonCatalogResource
) -> None:
    """The types of a new column are those of the first run that had it."""
    rng, file_format = random.Random(seed), ("csv", "json", "parquet", "orc")[seed % 4]  # noqa: S311
    words: dict[str, Any] = {"format": file_format, "missing_columns": "null"}
    words |= {"extra_columns": "add", "on_bad_file": "quarantine", "schema_policy": "widen"}
    pool, shown = rng.sample(_DRIFT, 6), {}
    for number in range(8):
        name, path = rng.choice(["x", "x", "x", "X", "", " "]), landing / f"{number}.{file_format}"
        if file_format in TEXTS:
            value = rng.choice(_DRIFT_OF_TEXTS[file_format])
            text = f'{{"id": {number}, "{name}": {value}}}\n'
            path.write_text(f"id,{name}\n{number},{value}\n" if file_format == "csv" else text)
        else:
            column = rng.choice(pool)
            rows = pa.table([pa.array([number]), column], names=["id", name or "X"])
            write(path, rows, file_format)
        if number == 7 or rng.random() < 0.5:
            result = ingest(paimon, landing, **words)
            assert result.success, failure_text(result)
            shown = metadata_of(result, KEY)
    bad = {int(each.data["file"][0]) for each in shown.get("paimon/quarantine", ())}
    good = {row["id"] for row in rows_of(paimon.catalog().get_table("s.t"))}
    assert (good | bad, good & bad) == ({*range(8)}, set())


@pytest.mark.parametrize("shows_values", [True, False])
@pytest.mark.parametrize("file_format", FORMATS)
def test_files_with_unfit_values_are_quarantined(
    file_format: str, shows_values: bool, landing: Path, warehouse: str
) -> None:
    paimon = PaimonCatalogResource(warehouse=warehouse, show_values=shows_values)
    narrow = Schema.of({"id": "BIGINT NOT NULL", "amount": "TINYINT"})
    rng, expected = random.Random(file_format), []  # noqa: S311 (draws)
    for number in range(12):
        kinds = pa.schema({"id": pa.int64(), "amount": pa.int64()})
        ids = [number, rng.choice([number + 100, number + 100, None])]
        rows = [{"id": each, "amount": rng.choice([127, -128, None, 73_911])} for each in ids]
        if file_format == "csv" and rows[-1]["amount"] is None:
            rows[-1]["amount"] = 1  # a line without a value is none
        write(landing / f"{number}.{file_format}", pa.Table.from_pylist(rows, kinds), file_format)
        if all(row["id"] is not None and row["amount"] != 73_911 for row in rows):
            expected += rows
    words: dict[str, Any] = {"format": file_format, "table": narrow}
    text = failure_text(ingest(paimon, landing, **words))
    if file_format not in TEXTS:
        assert "FileSource(on_bad_file='quarantine')" in text
        assert f"More files at fault: {11 - len(expected) // 2} (" in text
    shown = metadata_of(ingest(paimon, landing, on_bad_file="quarantine", **words), KEY)
    assert shown["paimon/files_in_quarantine"] == 12 - len(expected) // 2
    assert ("73911" in str(shown["paimon/quarantine"])) == shows_values
    assert ("73911" in text) <= shows_values
    rows = rows_of(paimon.catalog().get_table("s.t"))
    assert sorted(map(str, rows)) == sorted(map(str, expected))


@pytest.mark.parametrize("kind", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "TIMESTAMP(9)", "undeclared"])
def test_int96_files_arrive_or_are_quarantined(
    kind: str, landing: Path, paimon: PaimonCatalogResource
) -> None:
    """64 bits of nanoseconds are the limit, except of declared columns of up to 6 digits."""
    rng, expected = random.Random(kind), []  # noqa: S311 (draws)
    first, end = (1583, 10_000) if "6" in kind else (1678, 2262)
    drawn = rng.sample([*range(1, 1582), *range(1583, 1677), *range(2263, 10_000)], 12)
    for year in [1581, 1583, 1678, 1969, 2261, 9999, *drawn]:
        time = dt.datetime(year, rng.randrange(1, 13), 1, 2, 3, 4, rng.randrange(10**6))
        rows = pa.table({"t": pa.array([time, None], pa.timestamp("us"))})
        path = landing / f"{year}.parquet"
        is_arrow = "6" in kind and rng.random() < 0.3  # its writers count Gregorian days
        papq.write_table(rows, path, use_deprecated_int96_timestamps=True, store_schema=is_arrow)
        if is_arrow or first <= year < end:
            zone = dt.UTC if "LTZ" in kind else None
            expected.append(time.replace(tzinfo=zone))
    is_undeclared = kind == "undeclared"
    asset = build_file_ingestion_asset(
        "s.t",
        Schema.of({"t": "TIMESTAMP(9)" if is_undeclared else kind}),
        source=FileSource(folder=str(landing), on_bad_file="quarantine"),
        transform=(lambda frame: frame) if is_undeclared else None,
    )
    shown = metadata_of(run(asset, paimon), KEY)
    assert shown["paimon/files_in_quarantine"] == 18 - len(expected)
    times: Any = paimon.catalog().get_table("s.t").to_arrow()["t"].drop_null()
    micros: Any = times.cast(pa.timestamp("us", times.type.tz))
    assert sorted(micros.to_pylist()) == sorted(expected)


def test_invalid_column_options_are_refused(landing: Path) -> None:
    source = FileSource(folder=str(landing), format="csv", extra_columns="add")
    with pytest.raises(InvalidInputError, match="drops the columns that extra_columns='add'"):
        build_file_ingestion_asset("s.t", SCHEMA, source=source, schema_policy="sync")
    with pytest.raises(InvalidInputError, match="extra_columns is 'drop'; expected one of"):
        FileSource(folder=str(landing), extra_columns="drop")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="no schema or words on columns of their own"):
        FileSource(folder=str(landing), format="debezium-json", missing_columns="null")
