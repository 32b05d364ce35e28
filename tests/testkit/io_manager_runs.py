"""Fixtures of the tests of the IO manager: runs through it, and frames of every kind."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa

from paimon_assets.assets import PaimonCatalogResource, PaimonIOManager
from tests.testkit.asset_tables import lent_instance

FROM_ARROW: Mapping[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "reader": lambda table: table.to_reader(max_chunksize=2),
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "lazy": lambda table: pl.DataFrame(pl.from_arrow(table)).lazy(),
}
"""Name of a kind of frame → how to make one."""

ANNOTATION: Mapping[str, Any] = {
    "arrow": pa.Table,
    "reader": pa.RecordBatchReader,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
}
"""Name of a kind of frame → the type a parameter is annotated with."""


def to_arrow(frame: Any) -> pa.Table:
    match frame:
        case pa.Table():
            return frame
        case pa.RecordBatchReader():
            return frame.read_all()
        case pd.DataFrame():
            return pa.Table.from_pandas(frame, preserve_index=False)
        case pl.LazyFrame():
            return frame.collect().to_arrow()
        case _:
            return pl.DataFrame(frame).to_arrow()


def io_run(
    assets: Any,
    paimon: PaimonCatalogResource,
    *,
    manager: PaimonIOManager | None = None,
    **options: Any,
) -> dg.ExecuteInProcessResult:
    """Materialize through the IO manager in this process, without raising."""
    chosen = assets if isinstance(assets, list) else [assets]
    resources = {"io_manager": manager or PaimonIOManager(paimon=paimon), "paimon": paimon}
    with lent_instance(options.pop("instance", None)) as instance:
        return dg.materialize(
            chosen, resources=resources, raise_on_error=False, instance=instance, **options
        )


def range_tags(first: str, last: str) -> dict[str, str]:
    """Tags of a run over a range of partitions."""
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


def metadata_by_partition(result: dg.ExecuteInProcessResult, name: str) -> dict[str | None, Any]:
    events = [event.materialization for event in result.get_asset_materialization_events()]
    return {event.partition: event.metadata[name].value for event in events}
