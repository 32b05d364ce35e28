"""A Paimon table as a Dagster asset: a function returns a frame, the asset is the table.

    function ─▶ frame ─▶ rows of the table's types ─▶ executor ─▶ one snapshot ─▶ metadata

Materializing creates the table or verifies it, and commits once: a retried step finds the commit of
its earlier try by run, step and partition, and reports it instead of writing again.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import dagster as dg

from paimon_assets.assets.declared_table import ensure_table
from paimon_assets.assets.failures import dagster_failures
from paimon_assets.assets.frames import Frame, to_rows
from paimon_assets.assets.metadata import (
    COLUMN_SCHEMA,
    Metadata,
    column_schema,
    data_version_of,
    report_metadata,
    snapshot_metadata,
    table_metadata,
)
from paimon_assets.assets.partitions import only_rows_of, rows_of_partition
from paimon_assets.assets.provenance import commit_user_of, snapshot_properties
from paimon_assets.assets.resource import (
    DEFAULT_RESOURCE_KEY,
    ExecutorKind,
    PaimonCatalogResource,
)
from paimon_assets.assets.translator import (
    STORAGE_KIND,
    STORAGE_KIND_KEY,
    TABLE_NAME,
    URI,
    asset_key_of,
    group_of,
    identifier_of,
    kinds_of,
    pool_of,
    uri_of,
)
from paimon_assets.engine.control.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema import Schema
from paimon_assets.engine.spec.snapshot import Snapshot
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write_builder import WriteOutcome

_CONTEXT_NAMES = frozenset({"context", "_context", "context_", "_"})
"""First parameters Dagster passes the context to."""


class AssetOptions(TypedDict, total=False):
    """What `dg.asset` takes beyond what the table decides; passed on as it is."""

    key: dg.AssetKey | str | Sequence[str]
    key_prefix: str | Sequence[str]
    ins: Mapping[str, dg.AssetIn]
    deps: Iterable[Any]
    group_name: str
    description: str
    owners: Sequence[str]
    code_version: str
    tags: Mapping[str, str]
    metadata: Mapping[str, Any]
    kinds: AbstractSet[str]
    partitions_def: dg.PartitionsDefinition[str]
    automation_condition: dg.AutomationCondition[dg.AssetKey]
    freshness_policy: dg.FreshnessPolicy
    retry_policy: dg.RetryPolicy
    check_specs: Sequence[dg.AssetCheckSpec]
    op_tags: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TableTarget:
    """The table an asset writes, and how."""

    identifier: Identifier
    schema: Schema
    """As declared."""
    executor: ExecutorKind | None = None
    """Who writes; None leaves it to the resource."""
    warehouse: str | None = None
    """Root of the warehouse, if known when definitions load: for `dagster/uri`."""
    partition_column: str | None = None
    """Column that holds the partition of a partitioned asset."""
    code_version: str | None = None
    has_checks: bool = False
    """Whether the function answers asset checks too."""


@dataclass(frozen=True, kw_only=True)
class _Production:
    """What a function returned, taken apart."""

    frame: Frame | None
    metadata: Metadata
    check_results: Sequence[dg.AssetCheckResult] = ()


def paimon_asset(
    table: str | Identifier,
    schema: Schema,
    *,
    executor: ExecutorKind | None = None,
    warehouse: str | None = None,
    partition_column: str | None = None,
    **options: Unpack[AssetOptions],
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Make a table the asset of a function that returns its rows.

    The function may take `context`, a `dg.Config`, resources and upstream assets as any asset
    function does. It returns a frame (see `assets.frames`); or `dg.MaterializeResult(value=frame,
    metadata=…, check_results=…)`; or None for nothing to write. Rows are appended, or upserted if
    the table has a primary key. The catalog is the resource `paimon`, or the one whose parameter
    the function annotates as `PaimonCatalogResource`.

    The asset gets the key `[database, table]`, the database as group, the pool
    `paimon/<database>.<table>`, its kinds, and storage metadata, unless `options` say otherwise.

    Args:
        table: `database.table`.
        schema: The declared table: columns, keys, partitions, options.
        executor: `spark` or `embedded`; the resource's choice by default.
        warehouse: Root of the warehouse, to show the table's address before the first run.
        partition_column: Column that holds the partition of a partitioned asset; rows outside the
            run's partition are refused (see `assets.partitions`).
        **options: As for `dg.asset`.

    Raises:
        InvalidInputError: `table` is no name, or `partition_column` is no column.

    >>> @paimon_asset("ods.planes", Schema.of({"tailnum": "STRING"}, primary_keys=["tailnum"]))
    ... def planes() -> Any: ...
    >>> planes.key
    AssetKey(['ods', 'planes'])
    """
    target = TableTarget(
        identifier=identifier_of(table),
        schema=schema,
        executor=executor,
        warehouse=warehouse,
        partition_column=partition_column,
        code_version=options.get("code_version"),
        has_checks=bool(options.get("check_specs")),
    )
    _check_partition_column(target, is_partitioned="partitions_def" in options)

    def decorate(function: Callable[..., Any]) -> dg.AssetsDefinition:
        return define_asset(_compute(function, target), target, options)

    return decorate


def _check_partition_column(target: TableTarget, *, is_partitioned: bool) -> None:
    column = target.partition_column
    names = [field.name for field in target.schema.fields]
    if column is not None and column not in names:
        raise InvalidInputError(
            f"partition_column '{column}' of table {target.identifier} is none of its columns: "
            f"{', '.join(names)}.",
            kind="partition-column",
        )
    if is_partitioned != (column is not None):
        raise InvalidInputError(
            f"The asset of table {target.identifier} needs both partitions_def and "
            "partition_column (which column holds the partition key), or neither.",
            kind="partition-column",
        )


def define_asset(
    compute: Callable[..., dg.MaterializeResult[Any]], target: TableTarget, options: AssetOptions
) -> dg.AssetsDefinition:
    """Define the asset of a table around a compute function, with all a table asset carries."""
    settings: dict[str, Any] = {"group_name": group_of(target.identifier), **options}
    if "key" not in options and "key_prefix" not in options:
        settings["key"] = asset_key_of(target.identifier)
    if "key_prefix" in options:
        settings["name"] = target.identifier.table
    settings.setdefault("kinds", kinds_of(target.executor))
    settings.setdefault("description", target.schema.comment or inspect.getdoc(compute))
    settings["metadata"] = {**_spec_metadata(target), **options.get("metadata", {})}
    settings["tags"] = {STORAGE_KIND_KEY: STORAGE_KIND, **options.get("tags", {})}
    asset: dg.AssetsDefinition = dg.asset(**settings, pool=pool_of(target.identifier))(compute)
    return asset


def _spec_metadata(target: TableTarget) -> Metadata:
    metadata: Metadata = {TABLE_NAME: str(target.identifier), STORAGE_KIND_KEY: STORAGE_KIND}
    if all(field.name == field.name.lower() for field in target.schema.fields):
        # With a schema on both sides the UI lower-cases all names; others show after the first run.
        metadata[COLUMN_SCHEMA] = column_schema(target.schema)
    if target.warehouse is not None:
        metadata[URI] = uri_of(target.warehouse, target.identifier)
    return metadata


def _compute(
    function: Callable[..., Any], target: TableTarget
) -> Callable[..., dg.MaterializeResult[Any]]:
    """Wrap a person's function: same parameters, plus a context and the catalog."""
    wanted = list(inspect.signature(function).parameters.values())
    takes_context = bool(wanted) and wanted[0].name in _CONTEXT_NAMES
    own_catalog = next((item.name for item in wanted if _is_catalog(item.annotation)), None)
    catalog_name = own_catalog or DEFAULT_RESOURCE_KEY

    @functools.wraps(function)
    def compute(
        context: dg.AssetExecutionContext, *args: Any, **inputs: Any
    ) -> dg.MaterializeResult[Any]:
        paimon = inputs[catalog_name] if own_catalog else inputs.pop(catalog_name)
        given = (context, *args) if takes_context else args
        return materialize_table(
            context, paimon, target, lambda _: _taken_apart(function(*given, **inputs))
        )

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = wanted[1:] if takes_context else wanted
    if own_catalog is None:
        catalog = inspect.Parameter(catalog_name, keyword, annotation=PaimonCatalogResource)
        parameters = [*parameters, catalog]
    return with_signature(compute, parameters)


def with_signature(
    compute: Callable[..., dg.MaterializeResult[Any]], parameters: Sequence[inspect.Parameter]
) -> Callable[..., dg.MaterializeResult[Any]]:
    """Give a compute function the parameters Dagster shall see, after a context."""
    first = inspect.Parameter(
        "context",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        annotation=dg.AssetExecutionContext,
    )
    signature = inspect.Signature([first, *parameters], return_annotation=dg.MaterializeResult)
    compute.__signature__ = signature  # type: ignore[attr-defined]  # because functions take it
    compute.__annotations__ = {
        item.name: item.annotation
        for item in signature.parameters.values()
        if item.annotation is not inspect.Parameter.empty
    } | {"return": dg.MaterializeResult}
    return compute


def _is_catalog(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.rsplit(".", 1)[-1] == PaimonCatalogResource.__name__
    return isinstance(annotation, type) and issubclass(annotation, PaimonCatalogResource)


def _taken_apart(returned: Any) -> _Production:
    if not isinstance(returned, dg.MaterializeResult):
        return _Production(frame=returned, metadata={})
    frame = returned.value
    is_frame = frame is not None and not isinstance(frame, type)
    return _Production(
        frame=frame if is_frame else None,
        metadata=dict(returned.metadata or {}),
        check_results=tuple(returned.check_results or ()),
    )


def materialize_table(
    context: dg.AssetExecutionContext,
    paimon: PaimonCatalogResource,
    target: TableTarget,
    produce: Callable[[Table], _Production],
) -> dg.MaterializeResult[Any]:
    """Create or verify the table, write what `produce` returns, once, and tell Dagster.

    Raises:
        Failure: The declaration, the data or the resource is wrong; nothing was committed.
        RetryRequested: A lost race or a failing storage.
    """
    with dagster_failures(target.identifier):
        table = ensure_table(paimon.catalog(), target.identifier, target.schema)
        writer = table.new_write_builder().with_commit_user(commit_user_of(context))
        writer = writer.with_properties(snapshot_properties(context, target.code_version))
        earlier = writer.find_committed()
        if earlier is not None and not target.has_checks:
            return result_of_earlier_try(context, table, earlier)
        production = produce(table)
        if earlier is not None:
            # Checks are asked for in every try; the rows are not written again.
            return result_of_earlier_try(context, table, earlier, production.check_results)
        outcome: WriteOutcome | None = None
        if production.frame is not None:
            executor = paimon.new_executor(target.executor)
            rows = to_rows(production.frame, executor, table.schema)
            if target.partition_column is not None:
                partition = rows_of_partition(context, target.partition_column, table.schema)
                rows = only_rows_of(partition, rows)
            outcome = writer.write(rows, executor)
        return result_of_write(
            context, table, outcome, production.metadata, production.check_results
        )


def result_of_earlier_try(
    context: dg.AssetExecutionContext,
    table: Table,
    snapshot: Snapshot,
    check_results: Sequence[dg.AssetCheckResult] = (),
) -> dg.MaterializeResult[Any]:
    """Return the materialization of what an earlier try of this step committed."""
    context.log.info(
        "An earlier try of this step committed snapshot %d of %s; it is reported, not repeated.",
        snapshot.id,
        table.name,
    )
    return result_of(table, snapshot.id, {"paimon/already_committed": True}, check_results)


def result_of_write(
    context: dg.AssetExecutionContext,
    table: Table,
    outcome: WriteOutcome | None,
    metadata: Metadata,
    check_results: Sequence[dg.AssetCheckResult] = (),
) -> dg.MaterializeResult[Any]:
    """Return the materialization of a write; None or no snapshot means nothing was written."""
    if outcome is None or outcome.snapshot is None:
        context.log.info("Nothing to write: %s stays as it is.", table.name)
        return result_of(table, None, {"paimon/rows_in": 0, **metadata}, check_results)
    report = outcome.report
    snapshot = outcome.snapshot
    context.log.info(
        "Committed snapshot %d of %s: %d rows in, %d written.",
        snapshot.id,
        table.name,
        report.rows_in,
        report.rows_written,
    )
    if report.sequence_wraps:
        context.log.warning(
            "%d rows of %s share one sequence value with more rows than its padding can number; "
            "among those the order is not certain.",
            report.sequence_wraps,
            table.name,
        )
    return result_of(table, snapshot.id, {**report_metadata(report), **metadata}, check_results)


def result_of(
    table: Table,
    snapshot_id: int | None,
    metadata: Metadata,
    check_results: Sequence[dg.AssetCheckResult] = (),
) -> dg.MaterializeResult[Any]:
    """Return the materialization of a snapshot, or of the newest for None."""
    snapshot = table.snapshot(snapshot_id)
    if snapshot is None:
        return dg.MaterializeResult(
            metadata={**table_metadata(table), **metadata}, check_results=list(check_results)
        )
    return dg.MaterializeResult(
        check_results=list(check_results),
        metadata={**snapshot_metadata(table, snapshot), **metadata},
        data_version=data_version_of(table, snapshot),
    )
