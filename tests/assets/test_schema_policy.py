"""Schema policies: a changed declaration beside a changed table."""

import re
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema, add_column
from paimon_assets.assets import (
    FileSource,
    PaimonCatalogResource,
    build_file_ingestion_asset,
    paimon_output,
)
from paimon_assets.cdc import build_change_log_asset
from paimon_assets.engine.spec.types.data_types import integer
from tests.cdc.kit.change_logs import debezium
from tests.testkit.asset_tables import (
    asset_of,
    failure_text,
    instance_beside,
    metadata_of,
    rows_of,
    stored_asset,
)
from tests.testkit.io_manager_runs import io_run

pytestmark = pytest.mark.slow

KEY = dg.AssetKey(["db", "t"])
MERGING = {"write.merge-schema": "true"}
ONE = {"id": [1], "v": [1]}


def schema(options: Any = None, **columns: str) -> Schema:
    return Schema.of({"id": "INT", **(columns or {"v": "INT"})}, options=options or {})


def by_decorator(declared: Schema, rows: Any, **options: Any) -> dg.AssetsDefinition:
    return asset_of("db.t", declared, pa.table(rows), **options)


def by_io_manager(declared: Schema, rows: Any, **options: Any) -> dg.AssetsDefinition:
    metadata = paimon_output(schema=declared, mode="append", **options)
    return stored_asset(pa.table(rows), key=KEY, metadata=metadata)


MAKERS = pytest.mark.parametrize("make", [by_decorator, by_io_manager])


def ok(asset: dg.AssetsDefinition, paimon: PaimonCatalogResource) -> Any:
    result = io_run(asset, paimon)
    assert result.success, failure_text(result)
    return metadata_of(result, KEY)


def stored_rows(paimon: PaimonCatalogResource) -> list[Any]:
    rows = rows_of(paimon.catalog().get_table("db.t"))
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row.values()])


def diff(metadata: Any) -> list[tuple[Any, ...]]:
    return [
        (record["what"], record["change"], record["before"], record["after"])
        for record in (item.data for item in metadata["paimon/schema_diff"])
    ]


@MAKERS
def test_column_added_by_merging_stops_no_later_run(
    make: Any, paimon: PaimonCatalogResource
) -> None:
    declared = schema(MERGING)
    ok(make(declared, ONE), paimon)
    metadata = ok(make(declared, {**ONE, "w": ["x"]}), paimon)
    assert diff(metadata) == [("column", "added", None, "w STRING")]
    assert [column.name for column in metadata["dagster/column_schema"].columns] == ["id", "v", "w"]
    ok(make(declared, ONE), paimon)
    assert [row["w"] for row in stored_rows(paimon)] == [None, None, "x"]


@MAKERS
def test_table_is_not_altered_without_policy(make: Any, paimon: PaimonCatalogResource) -> None:
    ok(make(schema(), ONE), paimon)
    text = failure_text(io_run(make(schema(v="INT", w="STRING"), ONE), paimon))
    assert "column 'w' STRING is declared but not in the table" in text
    assert "schema_policy" in text
    assert len(paimon.catalog().get_table("db.t").schemas()) == 1


@MAKERS
def test_add_adds_columns_and_sets_options(make: Any, paimon: PaimonCatalogResource) -> None:
    ok(make(schema(), ONE), paimon)
    wider = Schema.of(
        {"w": "STRING", "id": "INT", "v": "INT"}, options={"snapshot.num-retained.min": "3"}
    )
    metadata = ok(make(wider, {**ONE, "w": ["x"]}, schema_policy="add"), paimon)
    assert diff(metadata) == [
        ("column", "added", None, "w STRING"),
        ("option snapshot.num-retained.min", "set", None, "3"),
    ]
    assert stored_rows(paimon)[1] == {"id": 1, "v": 1, "w": "x"}
    assert "paimon/schema_diff" not in ok(
        make(wider, {**ONE, "w": ["x"]}, schema_policy="add"), paimon
    )


@MAKERS
def test_foreign_columns_stay_and_are_null(make: Any, paimon: PaimonCatalogResource) -> None:
    ok(make(schema(), ONE), paimon)
    paimon.catalog().get_table("db.t").alter([add_column("foreign", integer())])
    ok(make(schema(), ONE, schema_policy="add"), paimon)
    assert stored_rows(paimon)[1] == {"id": 1, "v": 1, "foreign": None}


@MAKERS
def test_widen_widens_and_add_does_not(make: Any, paimon: PaimonCatalogResource) -> None:
    ok(make(schema(v="FLOAT"), {"id": [1], "v": pa.array([1.5], pa.float32())}), paimon)
    wide = {"id": [1], "v": [2.5]}
    text = failure_text(io_run(make(schema(v="DOUBLE"), wide, schema_policy="add"), paimon))
    assert "column 'v' is declared DOUBLE but stored FLOAT" in text
    assert "let the asset do it (schema_policy 'widen' or 'sync')" in text
    metadata = ok(make(schema(v="DOUBLE"), wide, schema_policy="widen"), paimon)
    assert diff(metadata) == [("column", "type", "v FLOAT", "v DOUBLE")]
    text = failure_text(io_run(make(schema(v="INT"), ONE, schema_policy="widen"), paimon))
    assert "column 'v' is declared INT but stored DOUBLE" in text


@MAKERS
def test_sync_declares_table_unless_values_are_lost(
    make: Any, paimon: PaimonCatalogResource
) -> None:
    ok(make(schema(v="DOUBLE", gone="INT"), {"id": [1], "v": [2.5], "gone": [1]}), paimon)
    narrow = make(schema(v="INT"), ONE, schema_policy="sync")
    assert "truncated" in failure_text(io_run(narrow, paimon))
    assert len(paimon.catalog().get_table("db.t").schemas()) == 1, "all or none"
    metadata = ok(make(schema(v="DOUBLE"), {"id": [2], "v": [1.0]}, schema_policy="sync"), paimon)
    assert diff(metadata) == [("column", "dropped", "gone INT", None)]
    assert stored_rows(paimon) == [{"id": 1, "v": 2.5}, {"id": 2, "v": 1.0}]


@MAKERS
def test_unreachable_declaration_is_refused_before_any_change(
    make: Any, paimon: PaimonCatalogResource
) -> None:
    ok(make(schema(), ONE), paimon)
    keyed = Schema.of({"id": "INT", "v": "INT", "w": "INT"}, primary_keys=["id"])
    for policy in ("add", "widen", "sync"):
        text = failure_text(io_run(make(keyed, ONE, schema_policy=policy), paimon))
        assert "primary key" in text
    assert len(paimon.catalog().get_table("db.t").schemas()) == 1


def test_frame_without_declared_schema_adds_and_widens(paimon: PaimonCatalogResource) -> None:
    def frame_asset(rows: Any, **options: Any) -> dg.AssetsDefinition:
        metadata = paimon_output(mode="append", **options)
        return stored_asset(pa.table(rows), key=KEY, metadata=metadata)

    ok(frame_asset({"id": pa.array([1], pa.int32())}), paimon)
    more = {"id": pa.array([2], pa.int32()), "w": ["x"]}
    assert not io_run(frame_asset(more), paimon).success
    ok(frame_asset(more, schema_policy="add"), paimon)
    ok(frame_asset({"id": pa.array([2**40], pa.int64())}, schema_policy="widen"), paimon)
    assert [row["id"] for row in stored_rows(paimon)] == [1, 2, 2**40]
    with pytest.raises(InvalidInputError, match="sync"):
        frame_asset(more, schema_policy="sync")


def test_unknown_policy_is_refused_at_definition() -> None:
    for make in (by_decorator, by_io_manager):
        with pytest.raises(InvalidInputError, match="error, add, widen, sync"):
            make(schema(), ONE, schema_policy="append")


def test_ingestion_has_policy(landing: Any, paimon: PaimonCatalogResource) -> None:
    (landing / "a.csv").write_text("id,v\n1,2\n")
    source = FileSource(folder=str(landing), format="csv")
    metadata: Any = {}
    with instance_beside(paimon) as instance:
        for declared, text in ((schema(), ""), (schema(v="INT", w="INT"), "id,v,w\n1,2,3\n")):
            if text:
                (landing / "b.csv").write_text(text)
            asset = build_file_ingestion_asset(
                "db.t", declared, source=source, schema_policy="add", key=KEY
            )
            result = dg.materialize([asset], resources={"paimon": paimon}, instance=instance)
            metadata = metadata_of(result, KEY)
    assert diff(metadata) == [("column", "added", None, "w INT")]
    assert [row["w"] for row in stored_rows(paimon)] == [None, 3]


@pytest.mark.parametrize(
    ("policy", "is_log"), [("error", False), ("add", True), ("widen", False), ("sync", True)]
)
def test_dry_run_creates_and_changes_no_table(
    policy: Any, is_log: bool, landing: Any, paimon: PaimonCatalogResource
) -> None:
    kind: Any = "debezium-json" if is_log else "csv"
    source = FileSource(folder=str(landing), format=kind)
    file = landing / ("a.json" if is_log else "a.csv")
    file.write_text(debezium("c", 10, id=1, v=1) if is_log else "id,v\n1,1\n")
    build: Any = build_change_log_asset if is_log else build_file_ingestion_asset

    def dry(columns: Any, options: Any = None) -> Any:
        declared = Schema.of(columns, primary_keys=["id"] if is_log else (), options=options or {})
        asset = build("db.t", declared, source=source, schema_policy=policy, key=KEY)
        config = dg.RunConfig(ops={asset.op.name: {"config": {"dry_run": True}}})
        return asset, lambda: metadata_of(io_run(asset, paimon, run_config=config), KEY)

    first, tried = dry({"id": "INT", "v": "INT"})
    assert "1 new file" in tried()["paimon/summary"]
    assert paimon.catalog().list_databases() == []
    assert ok(first, paimon)["paimon/files_ingested"] == 1
    table = paimon.catalog().get_table("db.t")
    more = {"id": "INT", "v": "BIGINT" if policy in ("widen", "sync") else "INT"}
    added = {} if policy == "error" else {"w": "INT"}
    assert dry(more | added, {"snapshot.num-retained.min": "3"})[1]()["paimon/files_ingested"] == 0
    assert [each.id for each in table.schemas()] == [0]
    if policy == "error":
        asset, _ = dry({**more, "w": "INT"})
        assert "'w' INT is declared but not in the table" in failure_text(io_run(asset, paimon))


@MAKERS
def test_operational_options_are_set_without_policy(
    make: Any, paimon: PaimonCatalogResource
) -> None:
    ok(make(schema(), ONE), paimon)
    ok(make(schema({"snapshot.num-retained.min": "3"}), ONE), paimon)
    assert paimon.catalog().get_table("db.t").schema.options["snapshot.num-retained.min"] == "3"
    other = schema({"snapshot.num-retained.min": "4", "file.format": "orc"})
    text = failure_text(io_run(make(other, ONE), paimon))
    assert "option 'file.format' is declared 'orc' but stored not set" in text
    assert paimon.catalog().get_table("db.t").schema.options["snapshot.num-retained.min"] == "3"


@pytest.mark.parametrize(
    ("declared", "policies"),
    [
        (schema(id="INT", v="INT", w="INT"), {"add", "widen", "sync"}),
        (schema(id="INT", v="DOUBLE"), {"widen", "sync"}),
        (schema(id="INT"), {"add", "widen", "sync"}),
        (schema({"bucket": "3", "bucket-key": "id"}), set()),
    ],
)
def test_refusal_names_policies_that_make_change(
    declared: Schema, policies: set[str], paimon: PaimonCatalogResource
) -> None:
    ok(by_decorator(schema(), ONE), paimon)
    rows = {field.name: [1.0 if str(field.type) == "DOUBLE" else 1] for field in declared.fields}
    refused = io_run(by_decorator(declared, rows), paimon)
    text = failure_text(refused)
    assert {each for each in ("add", "widen", "sync") if f"'{each}'" in text} == policies
    assert re.search(r"Change the declaration(, evolve the table,| or evolve the table\.)", text)
    for policy in policies:
        ok(by_decorator(declared, rows, schema_policy=policy), paimon)
