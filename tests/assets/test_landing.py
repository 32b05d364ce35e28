"""Landing folders: patterns, missing folders, formats, quarantine and changed files."""

import datetime as dt
import gzip
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets import InvalidInputError, Schema, assets
from paimon_assets.engine.control.segments import walk
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.asset_tables import failure_text, metadata_of, rows_of

pytestmark = pytest.mark.slow

SCHEMA = Schema.of({"id": "BIGINT", "v": "STRING"})
KEYED = Schema.of({"id": "BIGINT", "v": "STRING"}, primary_keys=["id"])
KEY = dg.AssetKey(["db", "t"])


def put(path: Path, *numbers: int, value: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {"id": pa.array(numbers, pa.int64()), "v": [value] * len(numbers)}
    pq.write_table(pa.table(rows), path)


class Runs:
    """Runs of one ingestion asset."""

    def __init__(
        self, paimon: assets.PaimonCatalogResource, instance: Any, source: assets.FileSource
    ) -> None:
        self.paimon, self.instance, self.source = paimon, instance, source

    def asset(self, schema: Schema = SCHEMA) -> dg.AssetsDefinition:
        return assets.build_file_ingestion_asset("db.t", schema, source=self.source)

    def run(self, *more: Any, schema: Schema = SCHEMA, **config: Any) -> Any:
        asset = self.asset(schema)
        run_config = dg.RunConfig(ops={asset.op.name: assets.IngestConfig(**config)})
        return dg.materialize(
            [asset, *more],
            resources={"paimon": self.paimon},
            instance=self.instance,
            run_config=run_config,
            raise_on_error=False,
        )

    def ingest(self, **options: Any) -> Any:
        result = self.run(**options)
        assert result.success, failure_text(result)
        return metadata_of(result, KEY)

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in rows_of(self.paimon.catalog().get_table("db.t")))


@pytest.fixture
def runs(paimon: assets.PaimonCatalogResource, instance: Any, landing: Path) -> Any:
    def make(**options: Any) -> Runs:
        return Runs(paimon, instance, assets.FileSource(**{"folder": str(landing), **options}))

    return make


def test_pattern_with_folders_finds_files_below(runs: Any, landing: Path) -> None:
    put(landing / "top.parquet", 1)
    put(landing / "2024" / "01" / "a.parquet", 2)
    put(landing / "2024" / "02" / "b.parquet", 3)
    put(landing / "2024" / "_tmp" / "c.parquet", 4)
    put(landing / "2025" / "d.parquet", 5)
    flat = runs()
    flat.ingest()
    assert flat.ids() == [1]
    shown = runs(pattern="2024/**/*.parquet").ingest()
    assert [item.data["file"] for item in shown["paimon/files_taken"]] == [
        "2024/01/a.parquet",
        "2024/02/b.parquet",
    ]
    everything = runs(pattern="**/*.parquet")
    everything.ingest()
    assert everything.ids() == [1, 2, 3, 5]


def test_folder_with_links_is_read_once(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root / "a" / "b", root / "_hidden", other / "c"):
        folder.mkdir(parents=True)
        (folder / "f.csv").write_text("1")
    (root / "a" / "b" / "back").symlink_to(root)
    (root / "a" / "itself").symlink_to(root / "a" / "itself")
    (root / "a" / "here").symlink_to(".")
    (root / "latest").symlink_to("a/b")
    (root / "one").symlink_to(other)
    (root / "two").symlink_to(other)
    (other / "round").symlink_to(tmp_path)
    (root / "shown").symlink_to("_hidden")
    (tmp_path / "link").symlink_to(root)
    names = ["a/b/f.csv", "one/c/f.csv", "shown/f.csv"]
    for spelling in (root, tmp_path / "link", f"file:{root}"):
        assert [file.name for file in walk(LocalFileIO(), str(spelling))] == names


def test_missing_folder_is_error_unless_allowed(runs: Any, landing: Path) -> None:
    missing = str(landing / "nowhere")
    for pattern in (None, "**/*.parquet"):
        text = failure_text(runs(folder=missing, pattern=pattern).run())
        assert f"'{missing}' does not exist" in text
        assert "may_be_missing" in text
        runs(folder=missing, pattern=pattern, may_be_missing=True).ingest()


def land_bad_files(landing: Path) -> None:
    put(landing / "a.parquet", 1)
    (landing / "b.parquet").write_bytes(b"no parquet at all")
    put(landing / "c.parquet", 3)
    pq.write_table(pa.table({"other": [1]}), landing / "d.parquet")


def test_bad_file_fails_run_or_is_quarantined(runs: Any, landing: Path) -> None:
    land_bad_files(landing)
    assert "b.parquet" in failure_text(runs().run())
    source = runs(on_bad_file="quarantine")
    result = source.run(assets.build_quarantine_check(source.asset(), source.source))
    assert result.success, failure_text(result)
    assert source.ids() == [1, 3]
    shown = metadata_of(result, KEY)
    assert (shown["paimon/files_ingested"], shown["paimon/files_in_quarantine"]) == (2, 2)
    reasons = {item.data["file"]: item.data["reason"] for item in shown["paimon/quarantine"]}
    assert "cannot be read as parquet" in reasons["b.parquet"]
    assert "lacks columns (id, v)" in reasons["d.parquet"]
    [evaluated] = result.get_asset_check_evaluations()
    assert not evaluated.passed
    assert evaluated.metadata["paimon/files_in_quarantine"].value == 2
    assert "b.parquet, d.parquet" in str(evaluated.description)


@pytest.mark.parametrize(
    ("file_format", "options"), [("csv", {}), ("csv", {"sep": ","}), ("parquet", {}), ("arrow", {})]
)
@pytest.mark.parametrize("bad", ["column twice", "name of a column", "name of a file"])
def test_files_with_invalid_names_are_quarantined(
    runs: Any, landing: Path, file_format: str, options: Any, bad: str
) -> None:
    good = pa.table({"id": pa.array([1], pa.int64()), "v": ["x"]})
    wrong = good
    if bad == "column twice":
        wrong = pa.Table.from_arrays([*good.columns, good["v"]], names=["id", "v", "v"])
    if bad == "name of a column":
        wrong = good.rename_columns(["id", "vvvv"])
    file = os.fsencode(landing) + b"/b\xff." + file_format.encode()
    if bad != "name of a file":
        file = os.fsencode(landing / f"b.{file_format}")
    for path, rows in ((os.fsencode(landing / f"c.{file_format}"), good), (file, wrong)):
        sink = pa.BufferOutputStream()
        if file_format == "csv":
            sink.write(
                ",".join(rows.column_names).encode() + b"\n1,x" + b",x" * (rows.num_columns - 2)
            )
        elif file_format == "parquet":
            pq.write_table(rows, sink, store_schema=False)
        else:
            with pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
        Path(os.fsdecode(path)).write_bytes(
            sink.getvalue().to_pybytes().replace(b"vvvv", b"v\xff\xffv")
        )
    assert f"{file_format}' " in failure_text(runs(format=file_format, options=options).run())
    source = runs(format=file_format, options=options, on_bad_file="quarantine")
    result = source.run(assets.build_quarantine_check(source.asset(), source.source))
    assert result.success, failure_text(result)
    assert source.ids() == [1]
    shown = metadata_of(result, KEY)
    assert shown["paimon/files_in_quarantine"] == 1
    assert shown["paimon/summary"].endswith(", 1 file in quarantine")
    [evaluated] = result.get_asset_check_evaluations()
    assert not evaluated.passed
    assert source.ingest()["paimon/files_ingested"] == 0
    Path(os.fsdecode(file)).unlink()
    assert source.ingest()["paimon/files_in_quarantine"] == 0


@pytest.mark.parametrize("options", [{}, {"sep": ","}])
@pytest.mark.parametrize("name", ["b.csv", "b.csv.gz"])
def test_header_of_too_many_columns_is_quarantined(
    runs: Any, landing: Path, options: Any, name: str
) -> None:
    (landing / "a.csv").write_text("id,v\n1,x\n")
    wide = b",".join(b"c%d" % number for number in range(20_481)) + b"\n"
    (landing / name).write_bytes(gzip.compress(wide) if name.endswith(".gz") else wide)
    shown = runs(format="csv", options=options, on_bad_file="quarantine").ingest()
    [record] = shown["paimon/quarantine"]
    assert "more than 20,480 columns" in record.data["reason"]


def test_mended_or_removed_file_leaves_quarantine(runs: Any, landing: Path) -> None:
    land_bad_files(landing)
    source = runs(on_bad_file="quarantine")
    source.ingest()
    assert source.ingest()["paimon/files_ingested"] == 0, "not tried again without a change"
    put(landing / "b.parquet", 2)
    (landing / "d.parquet").unlink()
    assert source.ingest()["paimon/files_in_quarantine"] == 0
    assert source.ids() == [1, 2, 3]
    check = assets.build_quarantine_check(source.asset(), source.source)
    [evaluated] = source.run(check).get_asset_check_evaluations()
    assert evaluated.passed


def test_folder_of_bad_files_is_quarantined(runs: Any, landing: Path) -> None:
    (landing / "b.parquet").write_bytes(b"no parquet at all")
    source = runs(on_bad_file="quarantine")
    assert source.ingest()["paimon/files_in_quarantine"] == 1
    assert source.ids() == []
    assert source.ingest()["paimon/files_ingested"] == 0


def test_damage_found_during_read_is_quarantined(runs: Any, landing: Path) -> None:
    (landing / "a.csv").write_text("id,v\n1,x\n")
    good = "\n".join(f"{number},x" for number in range(200_000))
    (landing / "b.csv").write_text(f"id,v\n{good}\nno number,x\n")
    source = runs(format="csv", on_bad_file="quarantine")
    shown = source.ingest()
    [record] = shown["paimon/quarantine"]
    assert record.data["file"] == "b.csv"
    assert "no number" in record.data["reason"]
    assert source.ids() == [1]


@pytest.mark.parametrize("dead_letters", [None, "db.bad"])
def test_cut_gzip_stream_is_quarantined(runs: Any, landing: Path, dead_letters: str | None) -> None:
    data = gzip.compress(b"id,v\n" + b"1,x\n" * 9_000)
    (landing / "a.csv.gz").write_bytes(data[:-20])
    (landing / "b.csv").write_text("id,v\n2,x\n")
    source = runs(format="csv", on_bad_file="quarantine", dead_letters=dead_letters)
    [record] = source.ingest()["paimon/quarantine"]
    assert "a.csv.gz' cannot be read as csv" in record.data["reason"]
    assert source.ids() == [2]


def test_quarantine_reason_hides_values(
    landing: Path, paimon: assets.PaimonCatalogResource, instance: Any
) -> None:
    hidden = assets.PaimonCatalogResource(
        warehouse=paimon.warehouse, executor="embedded", show_values=False
    )
    (landing / "a.csv").write_text("id,v\nsecret,x\n")
    source = assets.FileSource(folder=str(landing), format="csv", on_bad_file="quarantine")
    [record] = Runs(hidden, instance, source).ingest()["paimon/quarantine"]
    assert "values are not shown" in record.data["reason"]
    assert "secret" not in record.data["reason"]


def change(path: Path, *numbers: int, value: str = "y") -> None:
    put(path, *numbers, value=value)
    os.utime(path, (len(numbers), sum(numbers)))


def test_changed_file_is_refused_ignored_or_ingested_again(runs: Any, landing: Path) -> None:
    put(landing / "a.parquet", 1, 2)
    put(landing / "b.parquet", 3)
    runs().ingest(schema=KEYED)
    change(landing / "a.parquet", 1, 2, 4)
    assert "a.parquet" in failure_text(runs().run(schema=KEYED))
    ignoring = runs(on_changed="ignore")
    assert ignoring.ingest(schema=KEYED)["paimon/files_changed"] == 1
    assert ignoring.ids() == [1, 2, 3]
    again = runs(on_changed="again")
    assert again.ingest(schema=KEYED)["paimon/files_ingested"] == 1
    assert again.ids() == [1, 2, 3, 4]
    assert again.ingest(schema=KEYED)["paimon/files_ingested"] == 0
    for number in range(3):  # the parts of the ledger are merged meanwhile
        change(landing / "a.parquet", 1, 10 + number)
        put(landing / f"z{number}.parquet", 20 + number)
        assert again.ingest(schema=KEYED)["paimon/files_ingested"] == 2
        assert again.ingest(schema=KEYED)["paimon/files_ingested"] == 0
    assert again.ids() == [1, 2, 3, 4, 10, 11, 12, 20, 21, 22]
    with pytest.raises(InvalidInputError, match="without a primary key"):
        again.asset()


def test_sensor_requests_changed_files_where_they_are_ingested_again(
    runs: Any, landing: Path, paimon: assets.PaimonCatalogResource, instance: Any
) -> None:
    put(landing / "a.parquet", 1)
    again = runs(on_changed="again")
    again.ingest(schema=KEYED)
    change(landing / "a.parquet", 1, 2)
    for source, asked in ((again, True), (runs(on_changed="ignore"), False)):
        sensor = assets.build_new_files_sensor(source.asset(KEYED), source=source.source)
        with dg.build_sensor_context(instance=instance, resources={"paimon": paimon}) as context:
            tick = sensor(context)
        assert isinstance(tick, dg.SensorResult) is asked


CSV = "id,v\n1,a\n2,b\n"
JSON = '{"id": 1, "v": "a"}\n{"id": 2, "v": "b"}\n'


@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst", "lz4"])
@pytest.mark.parametrize(("file_format", "text"), [("csv", CSV), ("json", JSON)])
def test_compressed_texts_are_read(
    suffix: str, file_format: Any, text: str, runs: Any, landing: Path
) -> None:
    codec: Any = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}[suffix]
    path = landing / f"a.{file_format}.{suffix}"
    with pa.OSFile(str(path), "wb") as file, pa.CompressedOutputStream(file, codec) as stream:
        stream.write(text.encode())
    source = runs(format=file_format)
    source.ingest()
    assert source.ids() == [1, 2]


@pytest.mark.parametrize(
    ("name", "file_format"), [("a.csv", "csv"), ("a.csv.xz", "csv"), ("a.parquet", "parquet")]
)
def test_unreadable_compressed_file_is_named(
    name: str, file_format: Any, runs: Any, landing: Path
) -> None:
    packed = b"\xfd7zXZ\x00" if name.endswith("xz") else gzip.compress(CSV.encode())
    (landing / name).write_bytes(packed)
    text = failure_text(runs(format=file_format, pattern="*").run())
    assert f"{name}' is compressed with" in text
    assert ".gz, .bz2, .zst, .lz4" in text


def test_avro_and_arrow_files_are_read(runs: Any, landing: Path) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", "string"]}]
    with (landing / "a.avro").open("wb") as file:
        record = {"type": "record", "name": "r", "fields": fields}
        fastavro.writer(file, record, [{"id": 1, "v": "a"}, {"id": 2, "v": None}])
    rows = pa.table({"id": pa.array([3], pa.int64()), "v": ["c"]})
    with pa.ipc.new_file(str(landing / "b.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    avro = runs(format="avro")
    avro.ingest()
    assert avro.ids() == [1, 2]
    arrow = runs(format="arrow")
    arrow.ingest()
    assert arrow.ids() == [1, 2, 3]


def test_arrow_dictionaries_of_any_values_are_read(runs: Any, landing: Path) -> None:
    values: dict[str, Any] = {
        "d": dt.date(2024, 2, 29), "t": dt.time(9, 30), "n": Decimal("1.50"), "s": "x", "b": b"x",
        "i": 7, "f": 1.5, "z": dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
    }  # fmt: skip
    rows = pa.table(
        {name: pa.array([each, None]).dictionary_encode() for name, each in values.items()}
    )
    with pa.ipc.new_file(str(landing / "1.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    landed = runs(format="arrow")
    assert landed.run(schema=Schema.of(rows.schema)).success
    table = landed.paimon.catalog().get_table("db.t")
    assert table.to_arrow().to_pylist() == [values, dict.fromkeys(values)]
    table.append(rows.slice(0, 0))
    assert table.count() == 2


def test_arrow_stream_is_refused_with_way_out(runs: Any, landing: Path) -> None:
    rows = pa.table({"id": [3], "v": ["c"]})
    with pa.ipc.new_stream(str(landing / "1.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    assert "Write it in the file format of Arrow" in failure_text(runs(format="arrow").run())


def test_nan_of_csv_is_no_null(runs: Any, landing: Path) -> None:
    texts = ["NaN", "-nan", "-Infinity", "1e3", "NA", "null", ""]
    lines = [f"{number},{text},{text}" for number, text in enumerate(texts)]
    (landing / "1.csv").write_text("\n".join(["id,f,v", *lines]))
    landed, schema = runs(format="csv"), Schema.of({"id": "INT", "f": "DOUBLE", "v": "STRING"})
    assert landed.run(schema=schema).success
    found = landed.paimon.catalog().get_table("db.t").to_arrow().to_pylist()
    assert [repr(row["f"]) for row in found] == ["nan", "nan", "-inf", "1000.0", *["None"] * 3]
    assert [row["v"] for row in found] == texts


def test_bytes_of_another_encoding_are_refused_with_its_option(runs: Any, landing: Path) -> None:
    (landing / "1.csv").write_bytes("id,v\n1,ä\n".encode("latin-1"))
    text = failure_text(runs(format="csv").run())
    assert "Set the option 'encoding'" in text
    assert "is not a value of type" not in text


def test_csv_is_read_by_options_of_segments(
    runs: Any, landing: Path, paimon: assets.PaimonCatalogResource
) -> None:
    dated = Schema.of({"id": "BIGINT", "v": "STRING", "d": "DATE"})
    (landing / "a.csv").write_bytes("# by hand\n1;ä;31.12.2024\n2;NA;\n".encode("latin-1"))
    options = {"sep": ";", "header": "false", "comment": "#", "encoding": "latin1"}
    options |= {"dateFormat": "dd.MM.yyyy", "nullValue": "NA"}
    runs(format="csv", options=options).ingest(schema=dated)
    found = rows_of(paimon.catalog().get_table("db.t"))
    assert [(row["id"], row["v"], str(row["d"])) for row in found] == [
        (1, "ä", "2024-12-31"),
        (2, None, "None"),
    ]


def test_json_array_is_read_with_multiline(runs: Any, landing: Path) -> None:
    (landing / "a.json").write_text('[{"id": 1, "v": "a"},\n {"id": 2, "v": "b"}]')
    assert "multiLine=true" in failure_text(runs(format="json").run())
    source = runs(format="json", options={"multiLine": "true"})
    source.ingest()
    assert source.ids() == [1, 2]
    (landing / "b.json").write_text('[{"id": 3, "v": "a"},\n {"id": 4, "v": "b", "w": 1}]')
    assert "b.json" in failure_text(source.run())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"format": "cvs"}, "parquet, orc, avro, arrow, csv, json"),
        ({"format": "csv", "options": {"separator": ";"}}, "separator"),
        ({"options": {"sep": ";"}}, "no options"),
        ({"on_changed": "agan"}, "refuse, ignore, again"),
        ({"on_bad_file": "skip"}, "refuse, quarantine"),
    ],
)
def test_source_is_checked_at_definition(options: Any, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        assets.FileSource(folder="/x", **options)
