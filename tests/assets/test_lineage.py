"""Lineage of columns, and schema changes, in the metadata of a materialization."""

import dagster as dg
import pytest

from paimon_assets import InvalidInputError, Schema
from paimon_assets.assets import PaimonCatalogResource, build_file_ingestion_asset, paimon_asset
from paimon_assets.assets.files.source_files import FileSource
from paimon_assets.engine.spec.evolution.schema_change import RenameColumn
from tests.testkit.asset_tables import PLANES, asset_of, lent_instance, metadata_of, planes, run

RENAMED = Schema.of(
    {"tailnum": "STRING", "places": "INT", "engine": "STRING"}, primary_keys=["tailnum"]
)
RAW = dg.AssetKey(["raw", "planes"])


def test_columns_that_pass_through_are_lineage(paimon: PaimonCatalogResource) -> None:
    some_planes = asset_of(
        "air.planes",
        PLANES,
        planes(("N1", 1, None)),
        pass_through={RAW: {"tailnum": "id"}, dg.AssetKey("x"): ["tailnum"]},
    )
    lineage = metadata_of(run(some_planes, paimon), some_planes.key)["dagster/column_lineage"]
    assert {
        name: [(dep.asset_key, dep.column_name) for dep in deps]
        for name, deps in lineage.deps_by_column.items()
    } == {"tailnum": [(RAW, "id"), (dg.AssetKey("x"), "tailnum")]}


def test_missing_column_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"'nose', which is no column of table air.planes"):
        paimon_asset("air.planes", PLANES, pass_through={RAW: ["nose"]})
    with pytest.raises(InvalidInputError, match="'nose'"):
        build_file_ingestion_asset(
            "air.planes", PLANES, source=FileSource(folder="x"), pass_through={RAW: ["nose"]}
        )


def test_changed_schema_is_reported_once(paimon: PaimonCatalogResource) -> None:
    def asset(schema: Schema) -> dg.AssetsDefinition:
        return asset_of("air.planes", schema)

    with lent_instance() as instance:
        before, after = asset(PLANES), asset(RENAMED)
        shown = [metadata_of(run(before, paimon, instance=instance), before.key)]
        rename = RenameColumn(field_names=("seats",), new_name="places")
        paimon.catalog().alter_table("air.planes", [rename])
        results = [run(after, paimon, instance=instance) for _ in range(2)]
        shown += [metadata_of(result, after.key) for result in results]
    diffs = [
        [dict(record.data) for record in metadata.get("paimon/schema_diff", [])]
        for metadata in shown
    ]
    assert diffs[0] == diffs[2] == []
    [line] = diffs[1]
    assert (line["change"], line["before"], line["after"]) == (
        "renamed",
        "seats INT COMMENT 'Seats for passengers.'",
        "places INT COMMENT 'Seats for passengers.'",
    )
    assert (shown[1]["paimon/schema_before"], shown[1]["paimon/schema_id"]) == (0, 1)


def test_write_time_is_number(paimon: PaimonCatalogResource) -> None:
    some_planes = asset_of("air.planes", PLANES, planes(("N1", 1, None)))
    metadata = metadata_of(run(some_planes, paimon), some_planes.key)
    assert 0 < metadata["paimon/write_seconds"] < 60
