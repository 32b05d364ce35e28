"""Columns of a table that exists, as a Dagster asset: the function gets rows and returns columns.

    ranges of rows that are behind ─▶ rows ─▶ function ─▶ columns ─▶ files of them ─▶ one snapshot

The other columns are neither read, but for those the function asks for, nor written. A range of
rows is behind if it lacks a value, or if the inputs of the values are newer
(`columns.groups`). Several such assets of one table run side by side.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import dagster as dg
from msgspec.structs import replace
from pydantic import Field

from paimon_assets.assets.check_run import CheckOptions, CheckRun, define_check
from paimon_assets.assets.failures import dagster_failures, naming_arguments
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.partitions import PartitionColumns, column_names, run_partitions
from paimon_assets.assets.provenance import Step, step_of_asset
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.tables import table_asset
from paimon_assets.assets.tables.declared_table import EnsuredTable
from paimon_assets.assets.tables.lineage import COLUMN_LINEAGE
from paimon_assets.assets.tables.table_write import result_of_earlier_try, result_of_write
from paimon_assets.assets.translator import DEFAULT_TRANSLATOR, WRITES_COLUMNS
from paimon_assets.columns.groups import check_column_files
from paimon_assets.columns.write import ColumnWriteBuilder, RowsBehind
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.executors import spark_module
from paimon_assets.engine.spec.evolution.schema_change import add_column
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.frames.frames import FrameKind, frame_kind, from_batches
from paimon_assets.engine.table.table import Table

_REFUSED: Mapping[str, str] = {
    "before_commit": "the rows are there already; declare asset checks of the table",
    "check_specs": "declare asset checks of the table",
    "pass_through": "all its columns are new",
    "schema_policy": "it adds the columns that the table lacks, and changes none",
}
_READS = "paimon/reads_columns"
_MOST_PARTITIONS = 100
_WARNING = CheckOptions(severity=dg.AssetCheckSeverity.WARN)
_FRAMES = (FrameKind.ARROW, FrameKind.PANDAS, FrameKind.POLARS, FrameKind.SPARK)


class ColumnConfig(dg.Config):
    """The config of a run that writes columns."""

    all_rows: bool = Field(
        default=False,
        description="Write the columns of all rows, not only where they are missing or older than "
        "their inputs; after a change of the code, for example.",
    )


class _Columns(Value):
    """Columns that an asset writes, and its function."""

    target: table_asset.TableTarget
    reads: tuple[str, ...]
    function: Callable[..., Any]
    frame: FrameKind
    takes_context: bool
    rows_at_once: int | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.target.schema.fields)

    def ensure(self, paimon: PaimonCatalogResource) -> EnsuredTable:
        table = paimon.catalog().get_table(self.target.identifier)
        before = table.schema.id
        check_column_files(table.name, table.schema)
        for column in self.target.schema.fields:
            stored = table.schema.by_name.get(column.name)
            if stored is not None and stored.type != column.type:
                raise InvalidInputError(
                    f"Column '{column.name}' of table '{table.name}' is {stored.type}, but the"
                    f" asset declares {column.type}. Declare the stored type, or alter the table.",
                    kind="schema-mismatch",
                    table=table.name,
                    column=column.name,
                )
        changes = [
            add_column(column.name, column.type)
            for column in self.target.schema.fields
            if column.name not in table.schema.by_name
        ]
        return EnsuredTable(table=table.alter(changes) if changes else table, schema_before=before)

    def builder(self, table: Table) -> ColumnWriteBuilder:
        made: ColumnWriteBuilder = table.new_column_write_builder(self.names, reads=self.reads)
        return made if self.rows_at_once is None else made.with_rows_at_once(self.rows_at_once)

    def compute(self, first: tuple[Any, ...], inputs: Mapping[str, Any], rows: Any) -> Any:
        """Call the function with rows, of Arrow or Spark, as the frame it is annotated with."""
        frame = rows
        if self.frame is not FrameKind.SPARK:
            frame = from_batches(self.frame, lambda _columns, _where: rows.to_reader(), rows.schema)
        return self.function(*first, frame, **inputs)


def column_asset(
    table: str | Identifier,
    columns: Mapping[str, str],
    *,
    reads: Sequence[str],
    partition_column: PartitionColumns | None = None,
    rows_at_once: int | None = None,
    warehouse: str | None = None,
    **options: Unpack[table_asset.AssetOptions],
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Make columns of a data-evolution table the asset of a function that computes them.

    >>> @column_asset("shop.orders", {"twice": "BIGINT"}, reads=["id"])
    ... def twice(rows: pa.Table) -> pa.Table:
    ...     return pa.table({"twice": pc.multiply(rows["id"], 2)})
    >>> config = dg.RunConfig(ops={"shop__orders__twice": ColumnConfig(all_rows=True)})

    The function's first parameter, after `context` if it takes that, gets rows with the columns
    `reads`, as the frame it is annotated with: a `pyarrow.Table` by default, a pandas or polars
    DataFrame. It returns the columns, in any frame, a row for each in their order. It is called
    for about a million rows at a time. A Spark DataFrame has all rows, and further columns that
    identify them: the function returns `rows.withColumn(…)`, and no row is sent to the driver.
    Further parameters are resources and upstream assets.

    Columns that the table lacks are added; the table's own asset, which does not declare them,
    needs `schema_policy="add"`. Only rows that are behind are computed, unless the run's config has
    `all_rows`. The asset gets the key `[database, table, function name]` and depends on the
    asset of the table; it has no pool, for writers of other columns do not disturb.

    Args:
        table: `database.table`; an append table with `row-tracking.enabled` and
            `data-evolution.enabled`.
        columns: Name → type of the computed columns.
        reads: Columns from which they are computed.
        partition_column: Column that holds the partition of a partitioned asset, or dimension →
            column; they must be partition keys of the table.
        rows_at_once: About how many rows the function gets; at least those of one file.
        warehouse: Root of the warehouse, to show the table's address before the first run.
        **options: As for `dg.asset`.

    Raises:
        InvalidInputError: An option that such an asset cannot have, or a function that takes no
            rows (kind `asset-options`).
    """
    for name, why in _REFUSED.items():
        if name in options:
            raise _refusal(table, f"cannot have {name}: {why}")
    if (options.get("partitions_def") is None) != (partition_column is None):
        raise _refusal(table, "needs both partitions_def and partition_column, or neither")
    if not reads:
        raise _refusal(table, "needs `reads`: the columns from which it is made")
    schema = Schema.of(columns)
    target = replace(
        table_asset.TableTarget.of(table, schema, options, warehouse=warehouse),
        partition_column=partition_column,
    )

    def decorate(function: Callable[..., Any]) -> dg.AssetsDefinition:
        [*parameters] = inspect.signature(function, eval_str=True).parameters.values()
        takes_context = bool(parameters) and parameters[0].name in table_asset.CONTEXT_NAMES
        given = parameters[takes_context:]
        if not given:
            raise _refusal(table, f"needs rows: '{function.__name__}' takes none")
        first, *further = given
        own = next((item.name for item in further if table_asset.is_catalog(item.annotation)), None)
        untyped = first.annotation is inspect.Parameter.empty
        kind = frame_kind(None if untyped else first.annotation)
        if kind not in _FRAMES:
            names = ", ".join(_FRAMES)
            raise _refusal(table, f"is given rows as one of {names}, not as {kind}")
        columns_of_run = _Columns(
            target=replace(target, resource_key=own or target.resource_key),
            reads=tuple(reads),
            function=function,
            frame=kind,
            takes_context=takes_context,
            rows_at_once=rows_at_once,
        )
        return _define(columns_of_run, further, options)

    return decorate


def _refusal(table: str | Identifier, why: str) -> InvalidInputError:
    return InvalidInputError(f"The asset of columns of table {table} {why}.", kind="asset-options")


def _define(
    columns: _Columns, parameters: Sequence[inspect.Parameter], options: table_asset.AssetOptions
) -> dg.AssetsDefinition:
    target, function = columns.target, columns.function
    translator = options.get("translator", DEFAULT_TRANSLATOR)
    table_key = translator.get_asset_key(target.identifier)

    def run(
        context: dg.AssetExecutionContext,
        paimon: PaimonCatalogResource,
        config: Any,
        inputs: dict[str, Any],
    ) -> dg.MaterializeResult[Any]:
        first = (context,) if columns.takes_context else ()
        with dagster_failures(target.identifier, context):
            return _materialize(
                context, paimon, columns, lambda rows: columns.compute(first, inputs, rows),
                all_rows=config.all_rows,
            )  # fmt: skip

    compute = table_asset.compute_of(
        run, parameters, catalog=target.resource_key, form=ColumnConfig
    )
    functools.update_wrapper(compute, function, table_asset.NAMING)
    read = [dg.TableColumnDep(asset_key=table_key, column_name=name) for name in columns.reads]
    lineage = dg.TableColumnLineage(deps_by_column=dict.fromkeys(columns.names, read))
    settings: table_asset.AssetOptions = {
        "key": dg.AssetKey([*table_key.path, function.__name__]),
        **options,
        "deps": [*options.get("deps", ()), table_key],
        "metadata": {
            WRITES_COLUMNS: ", ".join(columns.names),
            _READS: ", ".join(columns.reads),
            COLUMN_LINEAGE: lineage,
            **options.get("metadata", {}),
        },
    }
    settings.setdefault("pool", None)  # type: ignore[typeddict-item]  # no pool: see above
    return table_asset.define_asset(compute, target, settings)


def _materialize(
    context: dg.AssetExecutionContext,
    paimon: PaimonCatalogResource,
    columns: _Columns,
    compute: Callable[[Any], Any],
    *,
    all_rows: bool,
) -> dg.MaterializeResult[Any]:
    """Add the columns if need be, write them where they are behind, once, and report it."""
    step, target = step_of_asset(context), columns.target
    ensured = columns.ensure(paimon)
    builder = _of_run(context, step, columns, ensured.table)
    earlier = builder.find_committed()
    if earlier is not None:
        return result_of_earlier_try(paimon, step, ensured.table, earlier)
    if all_rows:
        builder = builder.with_all_rows()
    if columns.frame is FrameKind.SPARK:
        on_spark: Any = paimon.new_executor("spark")
        module = spark_module("paimon_assets.columns.spark_columns")
        outcome = module.write_columns(builder, compute, on_spark.session)
    else:
        outcome = builder.write(compute, paimon.new_executor(target.executor))
    metadata = {
        **rows_behind_metadata(outcome.rows),
        WRITES_COLUMNS: ", ".join(columns.names),
        COLUMN_LINEAGE: context.assets_def.metadata_by_key[context.asset_key][COLUMN_LINEAGE],
    }
    return result_of_write(paimon, step, ensured, outcome, metadata)


def _of_run(
    context: dg.AssetExecutionContext, step: Step, columns: _Columns, table: Table
) -> ColumnWriteBuilder:
    target = columns.target
    builder = (
        columns.builder(table)
        .with_commit_user(step.commit_user)
        .with_properties(step.properties(target.code_version))
    )
    definition, partition_column = context.assets_def.partitions_def, target.partition_column
    if definition is None or partition_column is None:
        return builder
    keys = table.schema.partition_keys
    for name in column_names(partition_column):
        if name not in keys:
            message = (
                f"Table '{table.name}' is not partitioned by '{name}', so a run cannot write"
                f" columns of one partition; its partition keys: {', '.join(keys) or 'none'}."
            )
            raise InvalidInputError(message, kind="partition-column", table=table.name, column=name)
    partitions = run_partitions(step.partition_keys, definition, partition_column, table.schema)
    return builder.with_partitions(partitions.predicate())


def rows_behind_metadata(rows: RowsBehind) -> Metadata:
    """Return how many rows are behind, also of each partition with such rows; not of all."""
    metadata: Metadata = {
        "paimon/rows_behind": rows.behind,
        "paimon/rows_current": rows.total - rows.behind,
    }
    behind = [(part, count) for part, count in rows.by_partition.items() if count.behind]
    if behind:
        metadata["paimon/partitions_behind"] = len(behind)
        metadata["paimon/rows_behind_by_partition"] = grid(
            {"partition": part, "rows behind": count.behind, "rows": count.total}
            for part, count in behind[:_MOST_PARTITIONS]
        )
    return metadata


@naming_arguments
def build_rows_behind_check(
    asset: dg.AssetsDefinition, *, max_behind: int = 0, options: CheckOptions = _WARNING
) -> dg.AssetChecksDefinition:
    """Check that no more rows than this are behind, and show of which partitions they are.

    >>> @column_asset("shop.orders", {"twice": "BIGINT"}, reads=["id"])
    ... def twice(rows: Any) -> Any: ...
    >>> check = build_rows_behind_check(twice)

    It looks at the table, not at Dagster's events: changes by other engines count.

    Args:
        asset: An asset of `column_asset`.
        max_behind: So many rows may be behind.
        options: Name, severity (a warning by default), blocking.

    Raises:
        InvalidInputError: The asset is none of columns (kind `asset-options`).

    Cost:
        Metadata alone.
    """
    metadata = asset.get_asset_spec().metadata
    if _READS not in metadata:
        raise InvalidInputError(
            f"Asset {asset.key.to_user_string()} is not one of `column_asset`; pass one that is.",
            kind="asset-options",
        )
    columns, reads = (metadata[key].split(", ") for key in (WRITES_COLUMNS, _READS))

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        builder = run.table.new_column_write_builder(columns, reads=reads)
        if run.where is not None:
            builder = builder.with_partitions(run.where)
        if set(columns) <= set(run.table.schema.field_names):
            rows = builder.rows_behind()
        else:
            total = run.reader().count(run.executor())
            rows = RowsBehind(behind=total, total=total)
        return run.result(
            passed=rows.behind <= max_behind,
            description=f"{counted(rows.behind, 'row')} of {rows.total:,}{run.of_rows} behind; at"
            f" most {max_behind:,} may be.",
            metadata=rows_behind_metadata(rows),
        )

    text = f"Checks that at most {counted(max_behind, 'row')} have columns older than their inputs."
    return define_check(asset, "rows_behind", text, options, evaluate)
