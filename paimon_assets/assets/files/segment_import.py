"""Folders of external files as segments of a table: an asset, a job, and a sensor.

    folder ─▶ footers (executor) ─▶ one snapshot that names the files where they lie

Each run ingests the files that no live segment holds yet: new partition folders, new files.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

import dagster as dg
from msgspec.structs import replace
from pydantic import Field

from paimon_assets.assets import resource
from paimon_assets.assets import translator as naming
from paimon_assets.assets.failures import dagster_failures, naming_arguments
from paimon_assets.assets.metadata import Metadata, grid, materialization_of
from paimon_assets.assets.provenance import step_of_asset, step_of_op
from paimon_assets.assets.sensors import Ticked, define_sensor, digest_of, request_once
from paimon_assets.assets.tables.declared_table import SchemaLike, declared_schema
from paimon_assets.assets.tables.table_asset import AssetOptions, TableTarget, define_intake
from paimon_assets.assets.tables.table_write import result_of, result_of_earlier_try
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.segments import walk
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.fileio.opening import canonical_path, file_io_for
from paimon_assets.engine.spec.segments import segment as seg
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.segments.segment_import import ImportPlan, SegmentSource
from paimon_assets.engine.table.segments.segments import SegmentOutcome
from paimon_assets.engine.table.table import Table

SEGMENT_IMPORT_OP = "import_segment"
"""The op whose config is the form."""

_ROWS_SHOWN = 200
_REFUSED = {
    "partitions_def": "a run takes in whatever is new",
    "check_specs": "checks are definitions of their own",
    "before_commit": "the files are part of the table as they lie, and nothing is written",
}


class SegmentImportConfig(dg.Config):
    """The config of a segment import run.

    >>> SegmentImportConfig(table="sales.logs", path="s3://lake/logs", format="orc").format
    'orc'
    """

    table: str = Field(description="database.table; an append table that exists.")
    path: str = Field(description="Folder of the files, on the table's storage; they stay there.")
    format: str = Field(
        default="parquet",
        description="parquet, orc or avro; csv, json or text are read by paimon-assets alone.",
    )
    partition: str = Field(
        default="",
        description="The table's partition columns, such as name:string,age:int, where folders "
        "are called name=value; empty for a table without partitions.",
    )
    only_new: bool = Field(
        default=False, description="Take files that no segment holds, instead of refusing the path."
    )
    options: dict[str, str] = Field(
        default={},
        description="How csv, json and text files are written, as Spark's readers name it: sep, "
        "header, quote, encoding, timestampFormat, multiLine ...",
    )
    dry_run: bool = Field(
        default=False,
        description="Only show the files, their columns and differences; commit nothing.",
    )

    @property
    def source(self) -> SegmentSource:
        return SegmentSource(
            path=self.path,
            format=self.format,
            partition=self.partition or None,
            only_new=self.only_new,
            options=self.options,
        )


class SegmentConfig(dg.Config):
    """The config of a segment asset's run."""

    dry_run: bool = Field(default=False, description="Only show new files; commit nothing.")
    refresh: bool = Field(
        default=False,
        description="Also take files that changed or went since they were imported as they are "
        "now; without it, reading them is an error.",
    )


@naming_arguments
def build_segment_asset(
    table: str | Identifier,
    schema: SchemaLike,
    *,
    source: SegmentSource,
    executor: resource.ExecutorKind | None = None,
    warehouse: str | None = None,
    **options: Unpack[AssetOptions],
) -> dg.AssetsDefinition:
    """Make a folder a segment of a table: each run ingests the files that are new to the table.

    >>> source = SegmentSource(path="/logs")
    >>> logs = build_segment_asset("shop.logs", {"line": "STRING"}, source=source)

    No byte is copied. Several assets may feed one table from folders of different formats: give
    all but one a `key` of their own. Without anything new, nothing is committed.

    Args:
        table: `database.table`.
        schema: The declared table: append, without primary key and buckets.
        source: The folder, its format and the partition option.
        executor: Reads the footers; the resource's choice by default.
        warehouse: Root of the warehouse, to show the table's address before the first run.
        **options: As for `dg.asset`.

    Raises:
        InvalidInputError: `table` is no name; or the asset has partitions, check_specs or
            before_commit.
    """
    options["metadata"] = {naming.ADDS_SEGMENTS: True, **options.get("metadata", {})}
    return define_intake(
        TableTarget.of(
            table, declared_schema(schema, (), ()), options, executor=executor, warehouse=warehouse
        ),
        options,
        partial(_take_in, source=source),
        SegmentConfig,
        description=f"Files of {source.format} format in '{source.path}', read where they lie.",
        refused=_REFUSED,
    )


def _take_in(
    context: dg.AssetExecutionContext,
    paimon: resource.PaimonCatalogResource,
    config: SegmentConfig,
    target: TableTarget,
    *,
    source: SegmentSource,
) -> dg.MaterializeResult[Any]:
    new_files = replace(source, only_new=True)
    with dagster_failures(target.identifier, context):
        table = target.ensure(paimon, dry_run=config.dry_run).table
        executor, segments = paimon.new_executor(target.executor), paimon.segments(table)
        if config.dry_run:
            plan = segments.plan(new_files, executor)
            shown = {"paimon/rows_in": 0, **plan_metadata(table, plan)}
            return result_of(paimon, table, None, shown)
        if config.refresh:
            renewed = segments.refresh([], executor)
            ids = ", ".join(str(segment.id) for segment in renewed.segments) or "none"
            context.log.info("Segments read again, because their files changed: %s.", ids)
        step = step_of_asset(context)
        outcome = segments.add(
            new_files,
            executor,
            commit_user=step.commit_user,
            properties=step.properties(target.code_version),
        )
        if outcome.snapshot is None:
            context.log.info("Nothing is new in '%s'; nothing was committed.", source.path)
        elif outcome.was_already_committed:
            return result_of_earlier_try(paimon, step, table, outcome.snapshot)
        number = None if outcome.snapshot is None else outcome.snapshot.id
        shown = {**outcome_metadata(table, outcome), **_own_metadata(table, source)}
        metadata = {**target.lineage, **shown}
        return result_of(paimon, table, number, metadata)


def _own_metadata(table: Table, source: SegmentSource) -> Metadata:
    """Return the size of the folder's own segments: other folders may feed the table, too."""
    root = seg.plain_path(canonical_path(source.path or ""))
    own = [
        segment
        for segment in table.segments().live()
        if seg.is_within(seg.plain_path(segment.folder), root)
    ]
    return {
        "dagster/row_count": sum(segment.row_count for segment in own),
        "dagster/size_bytes": sum(segment.data_size for segment in own),
        "paimon/folder_files": sum(len(segment.files) for segment in own),
    }


def _import(
    context: dg.OpExecutionContext,
    config: SegmentImportConfig,
    paimon: resource.PaimonCatalogResource,
    key: dg.AssetKey,
) -> None:
    identifier = naming.identifier_of(config.table)
    table = paimon.catalog().get_table(identifier)
    executor, segments = paimon.new_executor(None), paimon.segments(table)
    if config.dry_run:
        plan = segments.plan(config.source, executor)
        shown = {"paimon/dry_run": True, **plan_metadata(table, plan)}
        _observe(context, key, f"Dry run: {plan_text(plan)}", shown)
        return
    step = step_of_op(context)
    outcome = segments.add(
        config.source, executor, commit_user=step.commit_user, properties=step.properties()
    )
    metadata, text = outcome_metadata(table, outcome), outcome_text(outcome)
    if outcome.snapshot is None:
        _observe(context, key, text, metadata)
        return
    context.log.info("Table %s: %s", identifier, text)
    event = materialization_of(
        key, text, metadata, table, outcome.snapshot, rows_shown=paimon.rows_shown
    )
    context.log_event(event)


def _observe(
    context: dg.OpExecutionContext, key: dg.AssetKey, text: str, metadata: Metadata
) -> None:
    context.log.info("%s", text)
    context.log_event(dg.AssetObservation(key, description=text, metadata=metadata))


@naming_arguments
def build_segment_import_job(
    name: str = "segment_import_job",
    *,
    suggestion: SegmentImportConfig | None = None,
    translator: naming.PaimonTranslator = naming.DEFAULT_TRANSLATOR,
    resource_key: str = naming.DEFAULT_RESOURCE_KEY,
) -> dg.JobDefinition:
    """Return a job that imports the folder its Launchpad names.

    >>> build_segment_import_job("take_over").name
    'take_over'

    Args:
        name: The name of the job.
        suggestion: The values in the Launchpad; a dry run is a good one.
        translator: Names the asset of the table.
        resource_key: The catalog's.
    """
    filled: dict[str, Any] = {}
    if suggestion is not None:
        filled["config"] = dg.RunConfig(ops={SEGMENT_IMPORT_OP: suggestion})

    # Names of ops must differ in a code location.
    @dg.op(
        name=f"{name}__{SEGMENT_IMPORT_OP}",
        required_resource_keys={resource_key},
        tags={"kind": "paimon"},
    )
    def import_segment(context: dg.OpExecutionContext, config: SegmentImportConfig) -> None:
        """Make the files of a folder part of a Paimon table where they lie, in one snapshot."""
        identifier = naming.identifier_of(config.table)
        with dagster_failures(identifier, context):
            key = translator.get_asset_key(identifier)
            _import(context, config, resource.catalog_resource(context, resource_key), key)

    @dg.job(
        name=name,
        description="Makes the Parquet, ORC, Avro, CSV, JSON or text files of a folder part of a "
        "table where they lie: no byte is copied. `dry_run` shows the plan.",
        **filled,
    )
    def run_import() -> None:
        import_segment.alias(SEGMENT_IMPORT_OP)()

    return run_import


@naming_arguments
def build_new_segments_sensor(
    asset: dg.AssetsDefinition,
    *,
    source: SegmentSource,
    name: str | None = None,
    target: Any = None,
    minimum_interval_seconds: int = 60,
) -> dg.SensorDefinition:
    """Request a run of a segment asset when its folder has partition folders or files it lacks.

    >>> sensor = build_new_segments_sensor(orders, source=SegmentSource(path="/logs"))

    A tick lists the folder in full and reads the table's registry. The run key is made of the table
    and exactly the new files, so they are requested once; and once more when the table lacks them
    again after a run that took them in, because it was rolled back. It is shipped stopped.

    Args:
        asset: From `build_segment_asset`.
        source: The asset's.
        name: The name of the sensor; `<table>_new_segments` by default.
        target: A job or selection to run; the asset by default. It must contain the asset.
        minimum_interval_seconds: Between ticks.

    Raises:
        InvalidInputError: The asset is not of exactly one table.
    """
    identifier, resource_key = naming.identifier_of_asset(asset), naming.resource_key_of(asset)

    def tick(context: dg.SensorEvaluationContext, paimon: resource.PaimonCatalogResource) -> Ticked:
        root = canonical_path(source.path or "")
        try:
            files = walk(file_io_for(root, paimon.options), root)
        except NotFoundError as error:
            return dg.SkipReason(error.message)
        table = resource.table_or_none(paimon, identifier)
        live = () if table is None else seg.paths_of(table.segments().live())
        new = [file for file in files if f"{seg.plain_path(root)}/{file.name}" not in live]
        if not new:
            return dg.SkipReason(f"All {counted(len(files), 'file')} of '{root}' are in segments.")
        folders = sorted({file.name.rpartition("/")[0] for file in new})
        version = "none" if table is None else table.state.store.created_ms
        return request_once(
            context,
            f"{identifier}:{version}:{digest_of(new)}",
            f"{counted(len(new), 'new file')} in {counted(len(folders), 'folder')}",
            tags={"paimon/new_folders": ", ".join(folders)[:200]},
        )

    return define_sensor(
        name or f"{asset.node_def.name}_new_segments",
        f"Requests a run when '{source.path}' has files that {identifier} lacks.",
        tick,
        resource_key=resource_key,
        seconds=minimum_interval_seconds,
        target=target if target is not None else asset,
    )


def plan_metadata(table: Table, plan: ImportPlan) -> Metadata:
    """Return the plan of an import: files, inferred columns beside the table's, differences."""
    fields = table.schema.by_name
    metadata: Metadata = {
        "paimon/source": plan.root,
        "paimon/files": len(plan.files),
        "paimon/source_rows": plan.row_count,
        "paimon/source_bytes": sum(file.size for file in plan.files),
        "paimon/problem": "none" if plan.problem is None else plan.problem.message,
    }
    columns = [
        {
            "column": column.name,
            "in the files": column.type_text,
            "in the table": str(fields[column.name].type) if column.name in fields else "–",
        }
        for column in plan.columns
    ]
    files = [
        {
            "file": file.name,
            "bytes": file.size,
            "rows": plan.footers[file.name].rows,
            "differs": "; ".join(plan.differences.get(file.name, ())),
        }
        for file in plan.files[:_ROWS_SHOWN]
    ]
    for key, records in (("paimon/inferred_columns", columns), ("paimon/source_files", files)):
        if records:
            metadata[key] = grid(records)
    return metadata


def plan_text(plan: ImportPlan) -> str:
    if plan.problem is not None:
        return f"It would be refused: {plan.problem.message}"
    rows = _rows_text(plan.row_count, len(plan.files))
    return f"{rows} in '{plan.root}' would be read where they lie."


def outcome_text(outcome: SegmentOutcome) -> str:
    if outcome.snapshot is None:
        return "No file is new; nothing was committed."
    files = sum(len(segment.files) for segment in outcome.segments)
    rows = sum(segment.row_count for segment in outcome.segments)
    return f"Snapshot {outcome.snapshot.id}: {_rows_text(rows, files)}, read where they lie."


def _rows_text(rows: int, files: int) -> str:
    return f"{counted(rows, 'row')} of {counted(files, 'file')}"


def outcome_metadata(table: Table, outcome: SegmentOutcome) -> Metadata:
    """Return the result of an import, and the table's segments as SHOW SEGMENTS has them."""
    metadata: Metadata = {
        "paimon/rows_in": sum(segment.row_count for segment in outcome.segments),
        "paimon/segments_added": len(outcome.segments),
        "paimon/files_added": sum(len(segment.files) for segment in outcome.segments),
        "paimon/bytes_referenced": sum(segment.data_size for segment in outcome.segments),
    }
    listed = table.segments().listed()
    live = [segment for segment in listed if segment.status is seg.SegmentStatus.SUCCESS]
    metadata["paimon/segments_live"] = len(live)
    if listed:
        metadata["paimon/segments"] = grid(map(_record, reversed(listed[-_ROWS_SHOWN:])))
    return metadata


def _record(segment: seg.Segment | seg.Load) -> Mapping[str, Any]:
    return {
        "id": segment.id,
        "status": segment.status.value,
        "partition": segment.partition_text or "NA",
        "format": segment.format,
        "files": len(segment.files),
        "rows": segment.row_count,
        "bytes": segment.data_size,
        "readers": segment.readers,
        "path": segment.folder if isinstance(segment, seg.Segment) else "NA",
    }
