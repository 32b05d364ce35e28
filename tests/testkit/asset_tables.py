"""Fixtures of the asset tests: one small key table and one small append table."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from paimon_assets import Schema, StorageError, Table, TableCatalog
from paimon_assets.assets import PaimonCatalogResource, paimon_asset
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.tables import arrow

PLANES = Schema.of(
    {"tailnum": "STRING", "seats": "INT", "engine": "STRING"},
    primary_keys=["tailnum"],
    options={"bucket": "2"},
    comment="Planes by tail number.",
    comments={"seats": "Seats for passengers."},
)
WEATHER = Schema.of({"origin": "STRING NOT NULL", "temp": "DOUBLE", "day": "DATE"})


def planes(*rows: tuple[str, int | None, str | None]) -> pa.Table:
    return arrow(PLANES, *rows)


def order_rows(*rows: tuple[int, str]) -> pa.Table:
    return arrow({"id": "BIGINT", "v": "STRING"}, *rows)


def pairs_in(paimon: PaimonCatalogResource) -> list[tuple[int, str]]:
    """Return the rows of `shop.orders`, sorted."""
    return sorted(
        (row["id"], row["v"]) for row in rows_of(paimon.catalog().get_table("shop.orders"))
    )


def asset_of(name: str, schema: Schema, rows: Any = None, **options: Any) -> dg.AssetsDefinition:
    """A table asset that returns these rows, or calls this function for them in each run."""

    @paimon_asset(name, schema, **options)
    def rows_of_table() -> Any:
        return rows() if callable(rows) else rows

    return rows_of_table


def stored_asset(rows: Any, **options: Any) -> dg.AssetsDefinition:
    """An asset of Dagster's whose rows an I/O manager stores; arguments as `asset_of`."""

    def stored() -> Any:
        return rows() if callable(rows) else rows

    asset: dg.AssetsDefinition = dg.asset(**options)(stored)
    return asset


def run(assets: Any, paimon: PaimonCatalogResource, **options: Any) -> dg.ExecuteInProcessResult:
    """Materialize in this process, without raising."""
    chosen = assets if isinstance(assets, list) else [assets]
    resources = {"paimon": paimon}
    with lent_instance(options.pop("instance", None)) as instance:
        return dg.materialize(
            chosen, resources=resources, raise_on_error=False, instance=instance, **options
        )


_IDLE: list[dg.DagsterInstance] = []


@contextmanager
def lent_instance(own: dg.DagsterInstance | None = None) -> Iterator[dg.DagsterInstance]:
    """Lend an instance in memory that knows of nothing, or `own` if there is one.

    It is wiped and lent again: making one costs more than a run does.
    """
    if own is not None:
        yield own
        return
    instance = _IDLE.pop() if _IDLE else _new_instance()
    yield instance
    instance.wipe()
    shutil.rmtree(instance.storage_directory(), ignore_errors=True)
    _IDLE.append(instance)


def _new_instance() -> dg.DagsterInstance:
    directory = tempfile.mkdtemp(prefix="paimon-assets-dagster-")
    instance = dg.DagsterInstance.ephemeral(tempdir=directory)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    atexit.register(instance.dispose)
    return instance


def job_run(
    job: dg.JobDefinition,
    op: str,
    config: dg.Config,
    paimon: PaimonCatalogResource,
    instance: dg.DagsterInstance | None = None,
    **options: Any,
) -> dg.ExecuteInProcessResult:
    """Run a job with the form of one op in this process, without raising."""
    with lent_instance(instance) as chosen:
        return job.execute_in_process(
            run_config=dg.RunConfig(ops={op: config}),
            resources={"paimon": paimon},
            instance=chosen,
            **{"raise_on_error": False, **options},
        )


def catalog_on(file_io: FileIO, warehouse: str) -> PaimonCatalogResource:
    """The catalog resource of a warehouse whose files are these."""

    class OnFiles(PaimonCatalogResource):
        def catalog(self) -> TableCatalog:
            return TableCatalog(FilesystemCatalog(self.warehouse, file_io))

    return OnFiles(warehouse=warehouse, executor="embedded")


def instance_beside(paimon: PaimonCatalogResource) -> dg.DagsterInstance:
    """Return an instance in memory; the files that it must write are beside the warehouse."""
    directory = Path(f"{paimon.warehouse}-dagster")
    directory.mkdir(parents=True, exist_ok=True)
    return dg.DagsterInstance.ephemeral(tempdir=str(directory))


def values_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as plain values; of a table its records."""
    return {
        name: value.records if isinstance(value, dg.TableMetadataValue) else value.value
        for name, value in metadata.items()
    }


def observations_of(result: dg.ExecuteInProcessResult, key: dg.AssetKey) -> list[dict[str, Any]]:
    """Metadata of the observations of an asset, as plain values."""
    return [
        values_of(event.asset_observation_data.asset_observation.metadata)
        for event in result.get_asset_observation_events()
        if event.asset_key == key
    ]


def metadata_of(result: dg.ExecuteInProcessResult, key: dg.AssetKey) -> dict[str, Any]:
    [event] = [e for e in result.get_asset_materialization_events() if e.asset_key == key]
    return values_of(event.materialization.metadata)


def data_version_of(result: dg.ExecuteInProcessResult, key: dg.AssetKey) -> str:
    [event] = [e for e in result.get_asset_materialization_events() if e.asset_key == key]
    return (event.materialization.tags or {})["dagster/data_version"]


def data_snapshot_of(event: dg.AssetMaterialization | dg.AssetObservation) -> int:
    """Id of the snapshot whose data an event tells of."""
    number, _, name = (event.tags or {})["dagster/data_version"].partition("-")
    assert name
    return int(number)


def failure_text(result: dg.ExecuteInProcessResult) -> str:
    """Return the text of the one failed step: its message and those of its causes."""
    [event] = [e for e in result.all_events if e.is_step_failure]
    error = event.step_failure_data.error
    texts = []
    while error is not None:
        texts.append(error.message)
        error = error.cause
    return "\n".join(texts)


def rows_of(table: Table) -> list[dict[str, Any]]:
    return sorted(table.new_read_builder().to_arrow().to_pylist(), key=str)


class FailsOnce(LocalFileIO):
    """Real files; one call fails, after a condition came true."""

    def __init__(self, after_publish_of: str) -> None:
        self._awaited = after_publish_of
        self._is_there = self._armed = False
        self.has_failed = False

    def publish(self, path: str, data: bytes) -> bool:
        """Publish; arm the failure once the awaited file is there."""
        published = super().publish(path, data)
        if self._awaited in path and not self.has_failed:
            self._is_there = True
            self._armed = "/snapshot/" not in path
        return published

    def write_hint(self, path: str, data: bytes) -> None:
        """Write; a commit that looked back writes its hint, and is done."""
        super().write_hint(path, data)
        self._armed = self._armed or (self._is_there and not self.has_failed)

    def read_bytes(self, path: str) -> bytes:
        """Read; fail once after the awaited publish, but not at a pointer."""
        if self._armed and "/pointer-" not in path:
            self._armed = False
            self.has_failed = True
            raise StorageError(f"reading '{path}' failed")
        return super().read_bytes(path)
