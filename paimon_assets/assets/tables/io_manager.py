"""PaimonIOManager: frames that assets return become tables, and tables become their inputs.

    a function's value ─▶ handle_output ─▶ one snapshot ─▶ metadata, data version
    a parameter's type ◀─ load_input ◀─ columns, filter, partitions, time travel or changes

Frames of every kind are stored and loaded (`engine.table.frames`), by a parameter's annotation.
Metadata keys of a definition describe its table (`assets.tables.io_metadata`); checks of a
batch before it is committed come with its frame (`assets.tables.audit`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import dagster as dg
import pyarrow as pa
from dagster._core.execution.plan.outputs import StepOutputHandle
from msgspec.structs import replace
from pydantic import Field

from paimon_assets.assets import resource, translator
from paimon_assets.assets.failures import dagster_failures
from paimon_assets.assets.metadata import spec_metadata
from paimon_assets.assets.partitions import (
    PARTITION_COLUMNS,
    PartitionColumns,
    RunPartitions,
    column_names,
    run_partitions,
)
from paimon_assets.assets.provenance import refuse_second_writer, step_of_output
from paimon_assets.assets.tables import audit, consumption, io_metadata, table_write
from paimon_assets.assets.tables.declared_table import (
    MERGED_BY,
    EnsuredTable,
    SchemaPolicy,
    ensure_table,
    schema_policy,
)
from paimon_assets.engine import errors
from paimon_assets.engine.add_ons import load_sql
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.frames.frames import Frame, FrameKind, frame_kind, from_batches
from paimon_assets.engine.table.read.read_builder import Plan, ReadBuilder
from paimon_assets.engine.table.table import Table


class PaimonIOManager(dg.ConfigurableIOManager):
    """Stores the values of assets and ops in Paimon tables, and loads them downstream.

    >>> lake = resource.PaimonCatalogResource(warehouse="/warehouse")
    >>> io_manager = PaimonIOManager(paimon=lake)

    The table of an asset is `dagster/table_name` of its metadata, else the last two parts of its
    key; of an asset with a key of one part, or of an op's output, it is in `database`.
    """

    paimon: resource.PaimonCatalogResource
    database: str = Field(
        default="default", description="Database of tables whose key does not name one."
    )
    mode: str = Field(
        default=table_write.WriteMode.OVERWRITE.value,
        description="Effect on existing rows, for assets without a mode: "
        + ", ".join(table_write.WriteMode)
        + ". 'overwrite' replaces the table, or the run's partitions.",
    )

    def __init__(self, **data: Any) -> None:
        """Take the catalog as `paimon`, or its fields, such as `warehouse`."""
        own = {*resource.PaimonCatalogResource.model_fields} - {*type(self).model_fields}
        catalog = {name: data.pop(name) for name in [*data] if name in own}
        resource.refuse_unknown_fields(type(self), data, own)
        if "paimon" in data and catalog:
            raise errors.InvalidInputError(
                f"PaimonIOManager has the catalog as 'paimon': give that '{next(iter(catalog))}'.",
                kind="resource-field",
            )
        if "paimon" not in data:
            data["paimon"] = resource.PaimonCatalogResource(**catalog)
        super().__init__(**data)

    @classmethod
    def output_config_schema(cls) -> Any:
        return table_write.WriteConfig.to_config_schema()

    def handle_output(self, context: dg.OutputContext, obj: Frame | audit.AuditedFrame) -> None:
        """Write a frame to the output's table, as one snapshot; None writes nothing.

        Raises:
            Failure: The frame, the table or the metadata is wrong, or a check refused the rows;
                nothing was committed.
            RetryRequested: A lost race or a failing storage.
        """
        definition = io_metadata.in_our_keys(context.definition_metadata)
        identifier = self._identifier(context, definition)
        audited = obj if isinstance(obj, audit.AuditedFrame) else audit.AuditedFrame(frame=obj)
        with dagster_failures(identifier, context), audit.reporting_checks(context):
            has_key = context.has_asset_key
            key = context.asset_key.to_user_string() if has_key else context.name
            io_metadata.check_keys(
                context.definition_metadata,
                io_metadata.OUTPUT_KEYS,
                f"{'asset' if has_key else 'output'} '{key}'",
            )
            refuse_second_writer(context.step_context)
            ensured, frame, is_new = self._table_to_write(context, identifier, audited.frame)
            if ensured is None:
                context.log.info("Nothing to write, and no table %s yet.", identifier)
                audited.results = audit.results_without_rows(audited.checks)
                return
            produced = dg.MaterializeResult(value=frame)
            with table_write.dropping_unwritten(self.paimon, identifier, is_new=is_new):
                write = self._write_of(context, ensured, audited.checks)
                materialized = write.materialize(lambda: produced)
            audited.results = materialized.check_results
            _report(context, materialized)

    def load_input(self, context: dg.InputContext) -> Frame:
        """Read the upstream table as the type of the parameter's annotation.

        Raises:
            Failure: The table, a column or a time-travel target does not exist, or the type is
                not that of a frame.
            RetryRequested: The storage failed.
        """
        upstream = context.upstream_output
        produced = upstream.definition_metadata if upstream is not None else {}
        own = io_metadata.in_our_keys(context.definition_metadata)
        metadata = {**io_metadata.in_our_keys(produced), **own}
        identifier = self._identifier(upstream or context, metadata)
        with dagster_failures(identifier, context):
            io_metadata.check_keys(
                context.definition_metadata,
                io_metadata.INPUT_KEYS,
                f"input '{_input_name(context)}'",
            )
            kind = frame_kind(context.dagster_type.typing_type)
            try:
                table = self._table_to_read(identifier, io_metadata.declared_schema(metadata))
            except errors.UnsupportedFeatureError as error:
                if error.kind != "view":
                    raise
                return load_sql("view_input").view_rows(self.paimon, identifier, kind, own, error)
            if io_metadata.BRANCH in own:
                table = table.at_branch(own[io_metadata.BRANCH])
            read = io_metadata.described_read(table.new_read_builder(), own)
            names = own.get(io_metadata.COLUMNS)
            nested = (
                None if names is None else io_metadata.nested_columns(names, read.read_schema())
            )
            read = read.with_columns(names if nested is None else nested.tops)
            consumed = self._consuming(context, table)
            if consumed is not None:
                read = read.with_consumer(consumed.consumer, start=consumed.start)
            if context.has_asset_partitions:
                keys, definition = context.asset_partition_keys, context.asset_partitions_def
                read = read.with_filter(_partitions(keys, definition, metadata, table).predicate())
            plan = read.plan()
            step = context.step_context if context.has_input_name else None
            if consumed is not None and step is not None and plan.next_snapshot is not None:
                consumed = replace(consumed, next_snapshot=plan.next_snapshot)
                consumption.READS.add(step.run_id, step.step.key, consumed)
            _log_read(context, table, plan)
            return self._frame(kind, read, plan, nested, own.get(io_metadata.EXECUTOR))

    def _consuming(self, context: dg.InputContext, table: Table) -> consumption.Consumed | None:
        consumer = context.definition_metadata.get(io_metadata.CONSUMER)
        if consumer is None:
            return None
        output = _one_output(context)
        if output is None:
            raise errors.InvalidInputError(
                f"Input '{_input_name(context)}' reads table '{table.name}' as consumer "
                f"'{consumer}': this needs a step with one output and without partitions, for it "
                "has one position.",
                kind="consumer-step",
                table=table.name,
                consumer=consumer,
            )
        identifier = self._identifier(output, output.definition_metadata)
        return consumption.begin_to_consume(
            table, consumer, resource.table_or_none(self.paimon, identifier)
        )

    def _identifier(
        self, context: dg.OutputContext | dg.InputContext, metadata: Mapping[str, Any]
    ) -> Identifier:
        if translator.TABLE_NAME in metadata:
            return translator.identifier_of(_text(metadata[translator.TABLE_NAME]))
        return self._by_path(context.asset_key.path if context.has_asset_key else [context.name])

    def _by_path(self, path: Sequence[str]) -> Identifier:
        return Identifier(*path[-2:]) if len(path) > 1 else Identifier(self.database, path[0])

    def identifier_of(self, spec: dg.AssetSpec) -> Identifier:
        """Return the table of an asset: of its metadata, else of its key.

        Raises:
            InvalidInputError: The metadata names none.
        """
        if translator.TABLE_NAME in spec.metadata or len(spec.key.path) > 1:
            return translator.identifier_of_spec(spec)
        return self._by_path(spec.key.path)

    def warehouse_path(self) -> str | None:
        """Return the warehouse, None if it is in an environment variable that is not set."""
        warehouse = self.paimon.warehouse
        return warehouse.get_value() if isinstance(warehouse, dg.EnvVar) else warehouse

    def _table_to_write(
        self, context: dg.OutputContext, identifier: Identifier, frame: Frame | None
    ) -> tuple[EnsuredTable | None, Frame | None, bool]:
        """Return the table, the frame (converted, if it makes the table), whether it is new."""
        catalog = self.paimon.catalog()
        metadata = io_metadata.in_our_keys(context.definition_metadata)
        schema = io_metadata.declared_schema(metadata)
        policy = schema_policy(
            metadata.get(io_metadata.SCHEMA_POLICY, SchemaPolicy.ERROR), str(identifier)
        )
        if schema is not None:

            def executor_of_change() -> CountingExecutor[Any]:
                return self.paimon.new_executor(metadata.get(io_metadata.EXECUTOR))

            ensured = ensure_table(catalog, identifier, schema, policy, executor_of_change)
            return ensured, frame, False
        try:
            table = catalog.get_table(identifier).copy(MERGED_BY[policy])
        except errors.NotFoundError:
            if frame is None:
                return None, None, False
            if self._mode(context, str(identifier)) is table_write.WriteMode.DELETE:
                raise
        else:
            return EnsuredTable(table=table, schema_before=table.schema.id), frame, False
        columns: PartitionColumns | None = metadata.get(PARTITION_COLUMNS)
        keys = Schema(
            fields=(), partition_keys=() if columns is None else tuple(column_names(columns))
        )
        executor = metadata.get(io_metadata.EXECUTOR)
        first = table_write.create_for_frame(self.paimon, identifier, frame, keys, executor)
        return (None, None, True) if first is None else (*first, True)

    def _write_of(
        self, context: dg.OutputContext, ensured: EnsuredTable, checks: Sequence[audit.BatchCheck]
    ) -> table_write.TableWrite:
        metadata = io_metadata.in_our_keys(
            {**context.definition_metadata, **context.output_metadata}
        )
        table, step, partitions = ensured.table, step_of_output(context), None
        if context.has_asset_partitions:
            definition = context.asset_partitions_def
            partitions = _partitions(step.partition_keys, definition, metadata, table)
        consumed = consumption.take_consumed(step.run_id, step.key)
        mode = self._mode(context, table.name)
        if (
            consumed
            and io_metadata.MODE not in metadata
            and mode is table_write.WriteMode.OVERWRITE
        ):
            message = (
                f"New rows of table '{consumed[0].table.name}' would replace all of table "
                f"'{table.name}'. Choose the mode: paimon_output(mode='append'), 'upsert' "
                "or 'overwrite'."
            )
            raise errors.InvalidInputError(message, kind="write-mode", table=table.name)
        return table_write.TableWrite(
            paimon=self.paimon,
            ensured=ensured,
            step=step,
            mode=mode,
            executor=context.definition_metadata.get(io_metadata.EXECUTOR),
            partitions=partitions,
            code_version=context.asset_spec.code_version if context.has_asset_key else None,
            checks=checks,
            consumed=consumed,
        )

    def _mode(self, context: dg.OutputContext, table: str) -> table_write.WriteMode:
        """Return the mode of the Launchpad, else of the function, the definition, the manager."""
        chosen = (context.config or {}).get("mode")
        metadata = {**context.definition_metadata, **context.output_metadata}
        return table_write.write_mode(
            _text(chosen or metadata.get(io_metadata.MODE, self.mode)), table
        )

    def _table_to_read(self, identifier: Identifier, schema: Schema | None) -> Table:
        catalog = self.paimon.catalog()
        try:
            return catalog.get_table(identifier)
        except errors.NotFoundError as error:
            if schema is not None:
                # An asset that reads its own earlier rows: before the first there are none.
                return ensure_table(catalog, identifier, schema).table
            raise errors.NotFoundError(
                f"Table '{identifier}' does not exist yet. Materialize its asset first, or declare "
                "its schema (paimon_output(schema=…)) to read it as empty.",
                kind="table-not-found",
                table=str(identifier),
            ) from error

    def _frame(
        self,
        kind: FrameKind,
        read: ReadBuilder,
        plan: Plan,
        nested: io_metadata.NestedColumns | None,
        executor: str | None,
    ) -> Frame:
        if kind is FrameKind.SPARK:
            frame = self.paimon.planned_dataframe(plan)
            return frame if nested is None else nested.of_spark(frame)
        runner, schema = self.paimon.new_executor(executor or "embedded"), plan.arrow_schema
        if nested is not None:
            schema = nested.narrow(schema.empty_table().to_reader()).schema

        def batches(
            columns: Sequence[str] | None, predicate: Predicate | None
        ) -> pa.RecordBatchReader:
            tops = columns if columns is None or nested is None else nested.tops_of(columns)
            reader = read.read(plan.narrow(tops, predicate), runner)
            return reader if nested is None else nested.narrow(reader, columns)

        return from_batches(kind, batches, schema)


def _partitions(
    keys: Sequence[str],
    definition: dg.PartitionsDefinition[Any],
    metadata: Mapping[str, Any],
    table: Table,
) -> RunPartitions:
    columns: PartitionColumns | None = metadata.get(PARTITION_COLUMNS)
    if columns is None:
        message = (
            f"The asset of table '{table.name}' has partitions, but nothing tells which column "
            f"holds the key: set metadata '{PARTITION_COLUMNS}' "
            "(paimon_output(partition_column=…))."
        )
        raise errors.InvalidInputError(message, kind="partition-column", table=table.name)
    names = table.schema.field_names
    for column in column_names(columns):
        if column not in names:
            key = "partition_expr" if "partition_expr" in metadata else PARTITION_COLUMNS
            message = (
                f"Metadata '{key}' has the column '{column}', which table '{table.name}' does not"
                f" have. Its columns are {', '.join(names)}."
            )
            raise errors.InvalidInputError(message, kind="partition-column", table=table.name)
    return run_partitions(keys, definition, columns, table.schema)


def _one_output(context: dg.InputContext) -> dg.OutputContext | None:
    """Return the only output of the step; None if it has several, or partitions."""
    if not context.has_input_name:  # a person's `load_asset_value`
        return None
    step = context.step_context
    outputs = [item for item in step.step.step_outputs if not item.properties.asset_check_key]
    if len(outputs) != 1 or step.has_partition_key or step.has_partition_key_range:
        return None
    return step.get_output_context(StepOutputHandle(step.step.key, outputs[0].name))


def _input_name(context: dg.InputContext) -> str:
    return context.name if context.has_input_name else context.asset_key.to_user_string()


def _log_read(context: dg.InputContext, table: Table, plan: Plan) -> None:
    snapshot = "no snapshot" if plan.snapshot is None else f"snapshot {plan.snapshot.id}"
    context.log.info(
        "Input %s reads %s of %s: %s.",
        _input_name(context),
        snapshot,
        table.name,
        counted(len(plan.splits), "split"),
    )
    if plan.skipped_snapshots:
        context.log.warning(
            "Input %s leaves out the overwrites of snapshots %s of %s, by its options.",
            _input_name(context),
            ", ".join(map(str, plan.skipped_snapshots)),
            table.name,
        )


def _report(context: dg.OutputContext, materialized: table_write.Materialized) -> None:
    result, step = materialized.result, context.step_context
    context.add_output_metadata(dict(result.metadata or {}))
    if not context.has_asset_key:
        return
    if result.data_version is not None and not step.has_data_version(context.asset_key):
        step.set_data_version(context.asset_key, result.data_version)
    for key, metadata in materialized.by_partition.items():
        step.add_asset_metadata(metadata, asset_key=context.asset_key, partition_key=key)


def _text(value: Any) -> str:
    """Return a metadata value as text; values given while running are wrapped by Dagster."""
    return str(getattr(value, "value", value))


AssetT = TypeVar("AssetT")

_NO_GROUP = "default"
"""The group Dagster gives an asset that names none."""
_KIND_TAGS = "dagster/kind/"


def as_table_assets(
    assets: Iterable[AssetT],
    *,
    io_manager: PaimonIOManager,
    io_manager_key: str = "io_manager",
    resource_key: str = translator.DEFAULT_RESOURCE_KEY,
) -> list[AssetT | dg.AssetsDefinition]:
    """Add the metadata and kinds of a `paimon_asset` to assets that the IO manager stores.

    That is the name and the address of the table, its kinds, its database as group, the declared
    columns with their descriptions, and the pool `paimon/<database>.<table>`, of a definition with
    several tables `paimon/<its name>`. So they can be given to checks, to the compaction job and to
    its sensor, and none of these writes while another does. Values set by a definition are kept;
    ops inside a graph keep their pools. Table assets, assets annotated to return None, and
    definitions that are no assets are returned unchanged.

    Args:
        assets: Assets, as `dg.Definitions` takes them.
        io_manager: The one that stores them: it knows the warehouse, and the database of keys of
            one part.
        io_manager_key: Its key among the resources.
        resource_key: That of its catalog, which checks and jobs take.

    Raises:
        InvalidInputError: An asset's metadata has an unknown key `paimon/…`, or names no table; or
            two assets write one table (kind `asset-table`).

    >>> [sales] = as_table_assets([sales], io_manager=io)  # doctest: +SKIP
    ... dg.Definitions([sales, build_row_count_check(sales, 3)], resources={"io_manager": io, ...})
    """
    stored: list[AssetT | dg.AssetsDefinition] = []
    for asset in assets:
        if isinstance(asset, dg.AssetsDefinition) and asset.is_executable:
            stored.append(_store_frame(asset, io_manager, io_manager_key, resource_key))
        else:
            stored.append(asset)
    translator.refuse_shared_tables(stored)
    return stored


def _store_frame(
    asset: dg.AssetsDefinition, io_manager: PaimonIOManager, io_manager_key: str, resource_key: str
) -> dg.AssetsDefinition:
    tables = {
        spec.key: io_manager.identifier_of(spec)
        for spec in asset.specs
        if asset.get_io_manager_key_for_asset_key(spec.key) == io_manager_key
        and spec.metadata.get(translator.STORAGE_KIND_KEY) != translator.STORAGE_KIND
        and not _stores_nothing(asset, spec.key)
    }
    if not tables:
        return asset

    def spec_of_table(spec: dg.AssetSpec) -> dg.AssetSpec:
        if spec.key not in tables:
            return spec
        return _table_spec(spec, tables[spec.key], io_manager, resource_key)

    described = asset.map_asset_specs(spec_of_table)
    op = described.node_def
    if not isinstance(op, dg.OpDefinition) or op.pool is not None:
        return described
    [first, *further] = tables.values()
    pool = f"paimon/{op.name}" if further else translator.pool_of(first)
    attributes = {**described.get_attributes_dict(), "node_def": _with_pool(op, pool)}
    return dg.AssetsDefinition.dagster_internal_init(**attributes)


def _stores_nothing(asset: dg.AssetsDefinition, key: dg.AssetKey) -> bool:
    """Whether the function is annotated to return no rows."""
    output = asset.node_def.output_def_named(asset.get_output_name_for_asset_key(key))
    return output.dagster_type.is_nothing


def _table_spec(
    spec: dg.AssetSpec, identifier: Identifier, io_manager: PaimonIOManager, resource_key: str
) -> dg.AssetSpec:
    io_metadata.check_keys(
        spec.metadata, io_metadata.OUTPUT_KEYS, f"asset '{spec.key.to_user_string()}'"
    )
    schema = io_metadata.declared_schema(spec.metadata)
    metadata = spec_metadata(
        identifier, schema, warehouse=io_manager.warehouse_path(), resource=resource_key
    )
    tags = {key: value for key, value in spec.tags.items() if not key.startswith(_KIND_TAGS)}
    executor = spec.metadata.get(io_metadata.EXECUTOR, io_manager.paimon.executor)
    described: dg.AssetSpec = spec.replace_attributes(
        metadata={**metadata, **spec.metadata},
        kinds={*spec.kinds, *translator.kinds_of(executor)},
        tags={translator.STORAGE_KIND_KEY: translator.STORAGE_KIND, **tags},
        description=spec.description or (schema.comment if schema is not None else None),
        group_name=translator.PaimonTranslator().get_group_name(identifier)
        if spec.group_name in (None, _NO_GROUP)
        else spec.group_name,
    )
    return described


def _with_pool(op: dg.OpDefinition, pool: str) -> dg.OpDefinition:
    """Return a copy of the op in a pool: Dagster cannot change one."""
    inputs: dict[str, Any] = {item.name: dg.In.from_definition(item) for item in op.input_defs}
    outputs: dict[str, Any] = {item.name: dg.Out.from_definition(item) for item in op.output_defs}
    return dg.OpDefinition(
        compute_fn=op.compute_fn,
        name=op.name,
        ins=inputs,
        outs=outputs,
        description=op.description,
        config_schema=op.config_schema,
        required_resource_keys=set(op.required_resource_keys),
        tags=op.tags,
        retry_policy=op.retry_policy,
        pool=pool,
    )
