"""Misspelt names and values are refused at definition."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema, SegmentSource, assets
from tests.testkit.asset_tables import failure_text
from tests.testkit.io_manager_runs import io_run

SCHEMA = Schema.of({"id": "BIGINT"})


def table(**options: Any) -> Any:
    return assets.paimon_asset("a.b", SCHEMA, **options)


def ingestion(**options: Any) -> Any:
    source = assets.FileSource(folder="/x")
    return assets.build_file_ingestion_asset("a.b", SCHEMA, source=source, **options)


def segments(**options: Any) -> Any:
    return assets.build_segment_asset("a.b", SCHEMA, source=SegmentSource(path="/x"), **options)


@pytest.mark.parametrize(
    ("define", "name", "meant"),
    [
        (assets.paimon_output, "mod", "mode"),
        (assets.paimon_output, "scheme", "schema"),
        (assets.paimon_input, "colums", "columns"),
        (assets.paimon_input, "consumr", "consumer"),
        (table, "retry_polcy", "retry_policy"),
        (ingestion, "schema_polici", "schema_policy"),
        (segments, "grup_name", "group_name"),
    ],
)
def test_unknown_name_is_refused_with_nearest(define: Any, name: str, meant: str) -> None:
    with pytest.raises(InvalidInputError, match=f"no '{name}'. Did you mean '{meant}'"):
        define(**{name: "x"})


@pytest.mark.parametrize(
    ("define", "options", "text"),
    [
        (assets.paimon_output, {"executor": "sparc"}, "spark, embedded"),
        (assets.paimon_output, {"mode": "apend"}, "append"),
        (assets.paimon_input, {"executor": "sparc"}, "spark, embedded"),
        (assets.paimon_input, {"where": "price >"}, "price >"),
        (assets.paimon_input, {"columns": "id"}, "list"),
        (assets.paimon_input, {"consumer": "etl", "snapshot": 3}, "snapshot and consumer"),
        (assets.paimon_input, {"tag": "v1", "snapshot": 3}, "snapshot and tag"),
        (table, {"executor": "sparc"}, "spark, embedded"),
        (table, {"mode": "apend"}, "append"),
    ],
)
def test_invalid_value_is_refused_at_definition(define: Any, options: Any, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        define(**options)


def test_metadata_by_hand_is_checked(paimon: assets.PaimonCatalogResource) -> None:
    def rows() -> pa.Table:
        return pa.table({"id": [1]})

    metadata = {"paimon/mod": "append"}
    t: dg.AssetsDefinition = dg.asset(key=["db", "t"], metadata=metadata)(rows)
    with pytest.raises(InvalidInputError, match="Did you mean 'paimon/mode'"):
        assets.as_table_assets([t], io_manager=assets.PaimonIOManager(paimon=paimon))
    assert "Did you mean 'paimon/mode'" in failure_text(io_run(t, paimon))


def test_refusal_lists_valid_values() -> None:
    with pytest.raises(InvalidInputError, match=r"It takes .*\bcolumns\b.*\bwhere\b"):
        assets.paimon_input(colums=["id"])  # type: ignore[call-arg]  # misspelt
