"""A sensor that asks for an ingestion run when files have landed."""

from typing import Any

import dagster as dg

from paimon_assets.assets.files.ingestion import IngestConfig, source_name_of
from paimon_assets.assets.files.ledger import (
    Ledger,
    Pending,
    compare,
    ledger_snapshot,
    load_ledger,
    names_text,
)
from paimon_assets.assets.files.source_files import FileSource, OnChanged
from paimon_assets.assets.resource import (
    PaimonCatalogResource,
    catalog_resource,
    resource_key_of,
)
from paimon_assets.assets.run_requests import digest_of, request_once
from paimon_assets.assets.translator import identifier_of_asset
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.segments.segment_folder import FolderFile
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.table import Table

Ticked = dg.SkipReason | dg.SensorResult


def build_new_files_sensor(
    asset: dg.AssetsDefinition,
    *,
    source: FileSource,
    name: str | None = None,
    target: Any = None,
    max_files: int = 100,
    minimum_interval_seconds: int = 30,
) -> dg.SensorDefinition:
    """Request a run of an ingestion asset for the files its table does not hold yet.

    Files are requested once, and once more after a rollback. The sensor is shipped stopped.

    Args:
        asset: From `build_file_ingestion_asset`.
        source: The asset's.
        name: The name of the sensor; `<table>_new_files` by default.
        target: A job or selection that contains the asset; the asset by default.
        max_files: Most files of one run; 0 for all.
        minimum_interval_seconds: Between ticks.

    Raises:
        InvalidInputError: The asset is not of exactly one table.
    """
    identifier, resource_key = identifier_of_asset(asset), resource_key_of(asset)
    op_name = asset.node_def.name

    @dg.sensor(
        name=name or f"{op_name}_new_files",
        target=target if target is not None else asset,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus.STOPPED,
        required_resource_keys={resource_key},
        description=f"Requests an ingestion run when new files land for {identifier}.",
    )
    def new_files(context: dg.SensorEvaluationContext, **_: Any) -> Ticked:
        paimon = catalog_resource(context, resource_key)
        folder = source.folder_path()
        listed = source.list_files(file_io_for(folder, paimon.options), folder)
        table = _table(paimon, identifier)
        ledger = _ledger(table, source_name_of(asset.key))
        pending = compare(listed, ledger, table)
        again = pending.changed if source.on_changed == OnChanged.AGAIN else ()
        taken = tuple(sorted((*pending.new, *again)))[: max_files or None]
        refused = pending.changed and source.on_changed == OnChanged.REFUSE
        if refused or not taken:
            return dg.SkipReason(_why_nothing(folder, listed, pending, refused=bool(refused)))
        return request_once(
            context,
            f"{identifier}:{_made(table)}:{ledger.generation}:{digest_of(taken)}",
            f"{counted(len(taken), 'new file')} in '{folder}'",
            config=dg.RunConfig(ops={op_name: IngestConfig(max_files=max_files)}),
        )

    return new_files


def _table(paimon: PaimonCatalogResource, identifier: Identifier) -> Table | None:
    try:
        return paimon.catalog().get_table(identifier)
    except NotFoundError:
        return None


def _made(table: Table | None) -> str:
    """Return which table it is, should it be made anew."""
    return "none" if table is None else str(table.created_ms)


def _ledger(table: Table | None, source_name: str) -> Ledger:
    if table is None:
        return Ledger(source=source_name)
    return load_ledger(table, source_name, ledger_snapshot(table, source_name))


def _why_nothing(folder: str, listed: list[FolderFile], pending: Pending, *, refused: bool) -> str:
    if refused:
        return (
            f"{names_text(pending.changed)} in '{folder}' changed after being ingested; a run "
            "would fail. Restore them, or land the new rows under new names."
        )
    if not listed:
        return f"No file matches in '{folder}', or the folder does not exist."
    bad = len(pending.left_out)
    if bad:
        return (
            f"{len(listed) - bad} of {counted(len(listed), 'file')} of '{folder}' are ingested; "
            f"{bad} in quarantine until they change."
        )
    return f"Ingested: all {counted(len(listed), 'file')} of '{folder}'."
