"""Rows and files in the metadata of a materialization."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets.assets import PaimonCatalogResource, paimon_asset
from paimon_assets.assets.metadata import preview_metadata
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.asset_tables import metadata_of, run

KEY = dg.AssetKey(["db", "t"])
SCHEMA = Schema.of({"id": "BIGINT", "name": "STRING"}, primary_keys=["id"], options={"bucket": "1"})


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"n{number}" for number in ids]})


def resource(path: Path, **fields: Any) -> PaimonCatalogResource:
    return PaimonCatalogResource(warehouse=str(path / "warehouse"), executor="embedded", **fields)


def asset_of(*frames: pa.Table, schema: Schema = SCHEMA) -> dg.AssetsDefinition:
    frames_left = iter(frames)

    @paimon_asset("db.t", schema)
    def t() -> pa.Table:
        return next(frames_left)

    return t


def lines(metadata: Any, name: str) -> list[Any]:
    return [line.data for line in metadata.get(name) or ()]


def test_preview_shows_merged_rows(tmp_path: Path) -> None:
    paimon, asset = resource(tmp_path), asset_of(rows(1, 2, 3, 4, 5, 6), rows(1))
    run(asset, paimon)
    shown = metadata_of(run(asset, paimon), KEY)
    assert [line["id"] for line in lines(shown, "paimon/preview")] == ["1", "2", "3", "4", "5"]
    assert lines(shown, "paimon/preview")[0] == {"id": "1", "name": "n1"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"preview_rows": 2}, 2), ({"preview_rows": 0}, 0), ({"show_values": False}, 0)],
)
def test_resource_sets_number_of_preview_rows(tmp_path: Path, fields: Any, expected: int) -> None:
    shown = metadata_of(run(asset_of(rows(1, 2, 3)), resource(tmp_path, **fields)), KEY)
    assert len(lines(shown, "paimon/preview")) == expected


def test_preview_leaves_out_sequence_and_row_kind_columns(tmp_path: Path) -> None:
    columns = {"id": "BIGINT", "_op": "STRING", "_position": "BIGINT", "_mine": "INT"}
    options = {"sequence.field": "_position", "rowkind.field": "_op"}
    schema = Schema.of(columns, primary_keys="id", options=options)
    frame = pa.table({"id": [1], "_op": ["+I"], "_position": [7], "_mine": [3]})
    found = metadata_of(run(asset_of(frame, schema=schema), resource(tmp_path)), KEY)
    assert lines(found, "paimon/preview") == [{"id": "1", "_mine": "3"}]


def test_values_of_every_kind_are_texts_of_bounded_length(tmp_path: Path) -> None:
    values = {
        "s": ("STRING", "x" * 10_000),
        "b": ("BYTES", b"\xff" * 10_000),
        "d": ("DECIMAL(5, 2)", Decimal("1.50")),
        "t": ("TIMESTAMP(6)", dt.datetime(2026, 1, 2, 3, 4, 5, 6)),
        "a": ("ARRAY<INT>", list(range(1000))),
        "f": ("DOUBLE", float("nan")),
        "n": ("INT", None),
    }
    schema = Schema.of({name: kind for name, (kind, _) in values.items()})
    frame = pa.Table.from_pylist([{name: value for name, (_, value) in values.items()}])
    [line] = lines(
        metadata_of(run(asset_of(frame, schema=schema), resource(tmp_path)), KEY), "paimon/preview"
    )
    assert max(map(len, line.values())) <= 61
    assert (line["d"], line["f"], line["n"]) == ("1.50", "nan", "null")
    assert line["t"] == "2026-01-02 03:04:05.000006"


def test_metadata_names_snapshot_file_and_added_files(tmp_path: Path) -> None:
    paimon, asset = resource(tmp_path), asset_of(rows(1, 2), rows(3))
    run(asset, paimon)
    shown = metadata_of(run(asset, paimon), KEY)
    assert Path(shown["paimon/snapshot_file"]).name == "snapshot-2"
    assert Path(shown["paimon/snapshot_file"]).exists()
    [line] = lines(shown, "paimon/files")
    assert Path(line["file"]).stat().st_size == line["bytes"]
    assert (line["rows"], line["level"], line["bucket"]) == (1, 0, 0)


def test_row_count_and_size_are_first_numbers(tmp_path: Path) -> None:
    log = Schema.of({"id": "BIGINT", "name": "STRING"})
    found = metadata_of(run(asset_of(rows(1), schema=log), resource(tmp_path)), KEY)
    numbers = [name for name, value in found.items() if type(value) is int]
    assert next(iter(found)) == "paimon/summary"
    assert numbers[:5] == [
        "paimon/rows_in",
        "paimon/rows_written",
        "dagster/row_count",
        "dagster/size_bytes",
        "paimon/total_files",
    ]


def test_unreadable_preview_is_left_out(tmp_path: Path) -> None:
    paimon = resource(tmp_path)
    run(asset_of(rows(1)), paimon)
    table = paimon.catalog().get_table("db.t")
    [entry] = table.state.live_files()
    remove: Callable[[], None] = Path(table.state.file_path(entry)).unlink
    remove()
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    assert preview_metadata(table, snapshot, 5) == {}
