"""A Paimon table as a Dagster asset: the function returns its rows.

    function ─▶ frame ─▶ rows of the table's types ─▶ executor ─▶ one snapshot ─▶ metadata

Materializing creates the table or verifies it, and commits once: a retried step finds the commit of
its earlier try by run, step and partition, and reports it instead of writing again.
"""

import asyncio
import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from itertools import chain
from typing import Any, TypedDict, Unpack, cast

import dagster as dg
from msgspec import field
from msgspec.structs import replace

from paimon_assets.assets import translator as naming
from paimon_assets.assets.failures import dagster_failures, refuse_unknown
from paimon_assets.assets.metadata import Metadata, spec_metadata
from paimon_assets.assets.partitions import (
    PARTITION_COLUMNS,
    PartitionColumns,
    column_names,
    refuse_equal_keys,
    run_partitions,
)
from paimon_assets.assets.provenance import step_of_asset
from paimon_assets.assets.resource import (
    ExecutorKind,
    PaimonCatalogResource,
    executor_kind,
    table_or_none,
)
from paimon_assets.assets.tables import table_write
from paimon_assets.assets.tables.audit import BatchCheck, reporting_refusals, results_without_rows
from paimon_assets.assets.tables.consumption import take_consumed
from paimon_assets.assets.tables.declared_table import (
    MERGED_BY,
    EnsuredTable,
    SchemaLike,
    SchemaPolicy,
    declared_schema,
    ensure_table,
    schema_policy,
)
from paimon_assets.assets.tables.io_manager import PaimonIOManager
from paimon_assets.assets.tables.lineage import PassThrough, lineage_metadata
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.table import Table

CONTEXT_NAMES = frozenset({"context", "_context", "context_", "_"})
"""First parameters Dagster passes the context to."""
_CONFIG = "config"
"""The parameter Dagster passes the config of a run to."""
_MOST_KINDS = 3
"""Kinds that Dagster allows an asset."""
NAMING = ("__module__", "__name__", "__qualname__", "__doc__")
_NOT_DAGSTERS = ("before_commit", "pass_through", "translator", "resource_key", "schema_policy")
"""Options that `dg.asset` does not have."""


class AssetOptions(TypedDict, total=False):
    """Arguments of `dg.asset` that are passed on unchanged."""

    name: str
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
    backfill_policy: dg.BackfillPolicy
    check_specs: Sequence[dg.AssetCheckSpec]
    before_commit: Sequence[BatchCheck]
    """Not `dg.asset`'s: checks of each batch; see `assets.tables.audit`."""
    pass_through: PassThrough
    """Not `dg.asset`'s: columns that come unchanged from upstream; see `assets.tables.lineage`."""
    op_tags: Mapping[str, Any]
    pool: str
    hooks: AbstractSet[dg.HookDefinition]
    resource_defs: Mapping[str, object]
    translator: naming.PaimonTranslator
    """Not `dg.asset`'s: key, group and owners where the other options name none."""
    resource_key: str
    """Not `dg.asset`'s: the catalog's; `paimon` by default."""
    schema_policy: str
    """Not `dg.asset`'s: action of a run where the declaration differs from the table: `error` by
    default, `add`, `widen`, `sync`; see `declared_table.SchemaPolicy`."""


class TableTarget(Value):
    """The table an asset writes, and how."""

    identifier: Identifier
    schema: Schema
    """As declared; without columns where the first frame gives them."""
    executor: ExecutorKind | None = None
    """The executor; None is the resource's choice."""
    warehouse: str | None = None
    """Root of the warehouse, if known when definitions load: for `dagster/uri`."""
    partition_column: PartitionColumns | None = None
    """Column that holds the partition of a partitioned asset; or dimension → column."""
    mode: table_write.WriteMode = table_write.WriteMode.APPEND
    code_version: str | None = None
    has_checks: bool = False
    """Whether the function answers asset checks too."""
    before_commit: Sequence[BatchCheck] = ()
    """Checks of each batch before it is committed."""
    lineage: Metadata = field(default_factory=dict)
    """Column lineage, if it was declared."""
    resource_key: str = naming.DEFAULT_RESOURCE_KEY
    """The catalog's, where the function does not name one."""
    schema_policy: SchemaPolicy = SchemaPolicy.ERROR
    adds_columns: bool = False
    """Whether columns that only the rows have are added to the table."""

    @classmethod
    def of(
        cls,
        table: str | Identifier,
        schema: Schema,
        options: AssetOptions,
        *,
        executor: ExecutorKind | None = None,
        warehouse: str | None = None,
    ) -> "TableTarget":
        """Return the target of an asset without partitions, as its options describe it."""
        owner = f"The asset of table {table}"
        refuse_unknown(options, AssetOptions.__annotations__, owner, kind="asset-options")
        if executor is not None:
            executor_kind(executor)
        return cls(
            identifier=naming.identifier_of(table),
            schema=schema,
            executor=executor,
            warehouse=warehouse,
            code_version=options.get("code_version"),
            has_checks=bool(options.get("check_specs")),
            before_commit=options.get("before_commit", ()),
            lineage=lineage_metadata(options.get("pass_through", {}), schema, str(table)),
            resource_key=options.get("resource_key", naming.DEFAULT_RESOURCE_KEY),
            schema_policy=schema_policy(
                options.get("schema_policy", SchemaPolicy.ERROR), str(table)
            ),
        )

    def of_run(self, config: object) -> "TableTarget":
        """Return the target with the write mode of a run's config, if it has one."""
        if not isinstance(config, table_write.WriteConfig) or config.mode is None:
            return self
        return replace(self, mode=table_write.WriteMode(config.mode.value))

    def ensure(self, paimon: PaimonCatalogResource, *, dry_run: bool = False) -> EnsuredTable:
        """Return the table, created or evolved to the declared schema by the policy.

        A dry run changes nothing; see `ensure_table`.

        Raises:
            NotFoundError: There is no table, and the first frame shall give its columns.
        """
        if not self.schema.fields:
            return self._with_frame_s_columns(paimon.catalog().get_table(self.identifier))
        ensured = ensure_table(
            paimon.catalog(),
            self.identifier,
            self.schema,
            self.schema_policy,
            lambda: paimon.new_executor(self.executor),
            dry_run=dry_run,
        )
        if not self.adds_columns:
            return ensured
        return replace(ensured, table=ensured.table.copy(MERGED_BY[self.schema_policy]))

    def _with_frame_s_columns(self, table: Table) -> EnsuredTable:
        for noun, keys, stored in (
            ("primary key", self.schema.primary_keys, table.schema.primary_keys),
            ("partition keys", self.schema.partition_keys, table.schema.partition_keys),
        ):
            if keys and set(keys) != set(stored):
                message = (
                    f"Table {self.identifier} has the {noun} ({', '.join(stored)}), and the asset "
                    f"declares ({', '.join(keys)}). Change the declaration, or drop the table."
                )
                raise InvalidInputError(message, kind="schema-drift", table=str(self.identifier))
        merged = table.copy(MERGED_BY[self.schema_policy])
        return EnsuredTable(table=merged, schema_before=table.schema.id)

    def with_columns_of_rows(self) -> "TableTarget":
        """Return the target of rows that may have undeclared columns, which are added.

        Raises:
            InvalidInputError: Kind `schema-policy`: the policy would drop them again.
        """
        policy = self.schema_policy
        if policy is SchemaPolicy.SYNC:
            raise InvalidInputError(
                f"The schema policy 'sync' of table {self.identifier} drops the columns that "
                "extra_columns='add' adds. Choose 'add' or 'widen', or extra_columns='ignore'.",
                kind="schema-policy",
            )
        added = SchemaPolicy.ADD if policy is SchemaPolicy.ERROR else policy
        return replace(self, adds_columns=True, schema_policy=added)


class PaimonAsset(dg.AssetsDefinition):
    """The asset of a table: called, it calls the decorated function, and writes nothing.

    >>> orders().num_rows  # in a test                                # doctest: +SKIP
    """

    function: Callable[..., Any]
    """The decorated function."""

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Call the function with these inputs, its context among them."""
        return self.function(*args, **inputs)


def paimon_asset(
    table: str | Identifier = "",
    schema: SchemaLike = None,
    *,
    primary_keys: Sequence[str] | str = (),
    partition_keys: Sequence[str] | str = (),
    executor: ExecutorKind | None = None,
    warehouse: str | None = None,
    partition_column: PartitionColumns | None = None,
    mode: str | None = None,
    **options: Unpack[AssetOptions],
) -> Callable[[Callable[..., Any]], PaimonAsset]:
    """Make a table the asset of a function that returns its rows.

    The function may take `context`, a `dg.Config`, resources and upstream assets as any asset
    function does, and may be async. It returns a frame (see `engine.table.frames`), a list of
    dicts, or yields frames, which become one commit; or `dg.MaterializeResult(value=frame,
    metadata=…, check_results=…)` or `dg.Output`; or None for nothing to write. Inputs that are
    tables of this package are loaded by their annotation, through the same catalog.
    The catalog is the resource whose parameter the function annotates as `PaimonCatalogResource`,
    else that of `resource_key` (`paimon`).

    The Launchpad takes the write mode of a run, unless the function has a config of its own that is
    no `WriteConfig`.

    Called, the asset calls the function, as tests do; nothing is written then.

    The asset gets the key `[database, table]`, the database as group, the pool
    `paimon/<database>.<table>`, its kinds, and storage metadata, unless `options` say otherwise.

    Args:
        table: `database.table`.
        schema: The declared table: a `Schema` (columns, keys, partitions, options), Arrow's schema,
            a dict of types, or a schema or model of pandera. Without one the table gets the
            columns of the first frame.
        primary_keys: Its primary key, where `schema` is no `Schema`.
        partition_keys: Its partition keys, likewise; without a schema those of `partition_column`.
        executor: `spark` or `embedded`; the resource's choice by default.
        warehouse: Root of the warehouse, to show the table's address before the first run.
        partition_column: Column that holds the partition of a partitioned asset, or dimension →
            column; rows outside the run's partitions are refused (see `assets.partitions`).
        mode: The effect on existing rows (see `table_write.WriteMode`). By default a table with a
            primary key is upserted, a partitioned asset overwrites its partitions, and other
            assets append.
        **options: As for `dg.asset`.

    Raises:
        InvalidInputError: `table` is not a name, `partition_column` not a column, `mode` not a
            mode, two partition keys are one value of their column; or a partition is to be
            overwritten whose column is not a partition key of the table (kind `write-mode`).

    >>> @paimon_asset("ods.planes", Schema.of({"tailnum": "STRING"}, primary_keys=["tailnum"]))
    ... def planes() -> Any: ...
    >>> planes.key
    AssetKey(['ods', 'planes'])
    """
    _check_table(table)
    if schema is None and partition_column is not None and not primary_keys:
        partition_keys = partition_keys or column_names(partition_column)
    schema = declared_schema(schema, primary_keys, partition_keys)
    target = replace(
        TableTarget.of(table, schema, options, executor=executor, warehouse=warehouse),
        partition_column=partition_column,
    )
    _check_partition_column(target, options.get("partitions_def"))
    target = replace(target, mode=_mode(target, mode))

    def decorate(function: Callable[..., Any]) -> PaimonAsset:
        [*parameters] = inspect.signature(function).parameters.values()
        own = next((item.name for item in parameters if is_catalog(item.annotation)), None)
        of_function = replace(target, resource_key=own or target.resource_key)
        takes_context = bool(parameters) and parameters[0].name in CONTEXT_NAMES

        def run(
            context: dg.AssetExecutionContext,
            paimon: PaimonCatalogResource,
            config: object,
            inputs: Mapping[str, Any],
        ) -> dg.MaterializeResult[Any]:
            of_run = of_function.of_run(config)
            first = (context,) if takes_context else ()
            return _materialize(context, paimon, of_run, lambda: function(*first, **inputs))

        compute = compute_of(
            run,
            parameters[1:] if takes_context else parameters,
            catalog=of_function.resource_key,
            form=table_write.config_of_mode(target.mode),
        )
        functools.update_wrapper(compute, function, NAMING)
        asset: Any = define_asset(compute, of_function, options)
        asset.__class__ = PaimonAsset  # Dagster's decorator makes no other class
        asset.function = function
        return cast("PaimonAsset", asset)

    return decorate


def _check_table(table: object) -> None:
    if not table or callable(table):
        message = (
            "@paimon_asset needs the name of its table: @paimon_asset('database.table', "
            "primary_keys='id'); a schema is optional."
        )
        raise InvalidInputError(message, kind="asset-table")


def _check_partition_column(
    target: TableTarget, definition: dg.PartitionsDefinition[Any] | None
) -> None:
    columns = target.partition_column
    names = [field.name for field in target.schema.fields]
    if not names and target.schema_policy is SchemaPolicy.SYNC:
        message = f"The schema policy 'sync' of table {target.identifier} needs a declared schema."
        raise InvalidInputError(message, kind="schema-policy")
    for column in () if columns is None else column_names(columns):
        if names and column not in names:
            raise InvalidInputError(
                f"partition_column '{column}' of table {target.identifier} is none of its "
                f"columns: {', '.join(names)}.",
                kind="partition-column",
            )
    if (definition is None) != (columns is None):
        raise InvalidInputError(
            f"The asset of table {target.identifier} needs both partitions_def and "
            "partition_column (which column holds the partition key), or neither.",
            kind="partition-column",
        )
    if definition is not None and columns is not None and names:
        refuse_equal_keys(definition, columns, target.schema.fields)


def _mode(target: TableTarget, text: str | None) -> table_write.WriteMode:
    """Return the write mode of a name; by default one that a second run does not double rows in."""
    columns = [] if target.partition_column is None else column_names(target.partition_column)
    default = table_write.WriteMode.OVERWRITE if columns else table_write.WriteMode.APPEND
    if text is None and target.schema.primary_keys:
        default = table_write.WriteMode.APPEND
    mode = default if text is None else table_write.write_mode(text, str(target.identifier))
    if mode is table_write.WriteMode.UPSERT and target.schema.fields:
        table_write.refuse_upsert_without_key(target.schema.primary_keys, str(target.identifier))
    other = next((name for name in columns if name not in target.schema.partition_keys), None)
    if mode is table_write.WriteMode.OVERWRITE and other is not None:
        raise InvalidInputError(
            f"A run of a partition would overwrite rows of table {target.identifier} by its column"
            f" '{other}', which is not a partition key. Declare partition_keys=['{other}'] or"
            " primary_keys; or set mode='append', by which a repeated run doubles its rows.",
            kind="write-mode",
            table=str(target.identifier),
            column=other,
        )
    return mode


def define_asset(
    compute: Callable[..., dg.MaterializeResult[Any]], target: TableTarget, options: AssetOptions
) -> dg.AssetsDefinition:
    """Define the asset of a table around a compute function: its key, kinds, pool and metadata."""
    settings: dict[str, Any] = {
        name: value for name, value in options.items() if name not in _NOT_DAGSTERS
    }
    translator = options.get("translator", naming.DEFAULT_TRANSLATOR)
    settings.setdefault("group_name", translator.get_group_name(target.identifier))
    settings.setdefault("owners", translator.get_owners(target.identifier))
    key = settings.get("key")
    if "key_prefix" in options or "name" in options:
        settings.setdefault("name", target.identifier.table)
        key = key or dg.AssetKey([settings["name"]]).with_prefix(options.get("key_prefix", []))
    elif key is None:
        key = settings["key"] = translator.get_asset_key(target.identifier)
    metadata = spec_metadata(
        target.identifier,
        target.schema if target.schema.fields else None,
        warehouse=target.warehouse,
        resource=target.resource_key,
    )
    if target.partition_column is not None:
        metadata[PARTITION_COLUMNS] = target.partition_column
    settings["metadata"] = {**metadata, **options.get("metadata", {})}
    settings["tags"] = {naming.STORAGE_KIND_KEY: naming.STORAGE_KIND, **options.get("tags", {})}
    kinds = set(options.get("kinds") or naming.kinds_of(target.executor))
    settings["kinds"] = kinds | {naming.STORAGE_KIND} if len(kinds) < _MOST_KINDS else kinds
    settings.setdefault("pool", naming.pool_of(target.identifier))
    reader = re.sub(r"\W", "_", f"{target.resource_key}_tables_{target.identifier}")
    settings["io_manager_key"] = reader
    settings.setdefault("description", target.schema.comment or inspect.getdoc(compute))
    checks = target.before_commit
    if checks:
        specs = [check.spec(dg.AssetKey.from_coercible(key)) for check in checks]
        settings["check_specs"] = [*settings.get("check_specs", ()), *specs]
    asset: dg.AssetsDefinition = dg.asset(**settings)(
        reporting_refusals(compute) if checks else compute
    )
    attributes = asset.get_attributes_dict()
    is_part = (
        naming.ADDS_SEGMENTS in settings["metadata"]
        or naming.WRITES_COLUMNS in settings["metadata"]
    )
    written = None if is_part else target.identifier
    of_table = _Reader(target.resource_key, asset.key, written)
    resources = {reader: of_table, **attributes["resource_defs"]}
    return dg.AssetsDefinition.dagster_internal_init(**{**attributes, "resource_defs": resources})


class _Reader(dg.IOManagerDefinition):
    """The IO manager that loads a table downstream, from the catalog it was written to.

    Dagster compares resources of one key when it builds the jobs of its definitions, also for
    `dg check defs`: it then meets the second writer of a table.
    """

    def __init__(self, resource_key: str, writer: dg.AssetKey, table: Identifier | None) -> None:
        def reader(context: dg.InitResourceContext) -> PaimonIOManager:
            return PaimonIOManager(paimon=getattr(context.resources, resource_key))

        super().__init__(reader, required_resource_keys={resource_key})
        self._writer, self._table = writer, table

    __hash__ = dg.IOManagerDefinition.__hash__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Reader):
            return False
        if self is not other and self._table is not None and self._table == other._table:
            raise naming.two_writers(self._writer, other._writer, str(self._table))
        return True  # any reader of a catalog loads any of its tables


Run = Callable[
    [dg.AssetExecutionContext, PaimonCatalogResource, Any, dict[str, Any]],
    dg.MaterializeResult[Any],
]
"""Takes the catalog, the run's config, and the function's other inputs."""


def compute_of(
    run: Run, parameters: Sequence[inspect.Parameter], *, catalog: str, form: type[dg.Config]
) -> Callable[..., dg.MaterializeResult[Any]]:
    """Return a compute function with these parameters, and those for Dagster that they lack."""
    own = {item.name for item in parameters}

    def compute(context: dg.AssetExecutionContext, **inputs: Any) -> dg.MaterializeResult[Any]:
        paimon = inputs[catalog] if catalog in own else inputs.pop(catalog)
        config = inputs[_CONFIG] if _CONFIG in own else inputs.pop(_CONFIG)
        return run(context, paimon, config, inputs)

    added = {"context": dg.AssetExecutionContext, catalog: PaimonCatalogResource, _CONFIG: form}
    first, *more = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        for name, annotation in added.items()
        if name not in own
    )
    first = first.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature(
        [first, *parameters, *more], return_annotation=dg.MaterializeResult
    )
    compute.__signature__ = signature  # type: ignore[attr-defined]  # because functions take it
    typed = (item for item in signature.parameters.values() if item.annotation is not item.empty)
    compute.__annotations__ = {item.name: item.annotation for item in typed}
    compute.__annotations__["return"] = dg.MaterializeResult
    return compute


def is_catalog(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.rsplit(".", 1)[-1] == PaimonCatalogResource.__name__
    return isinstance(annotation, type) and issubclass(annotation, PaimonCatalogResource)


def _materialize(
    context: dg.AssetExecutionContext,
    paimon: PaimonCatalogResource,
    target: TableTarget,
    call: Callable[[], Any],
) -> dg.MaterializeResult[Any]:
    """Create or verify the table, write the rows the function returns, once, and report it."""
    step = step_of_asset(context)

    def produce() -> dg.MaterializeResult[Any]:
        produced = _result_of(call())
        # Dagster's mark of a result without a value is a type.
        frame = None if isinstance(produced.value, type) else produced.value
        return produced._replace(
            value=frame, metadata={**target.lineage, **(produced.metadata or {})}
        )

    with ExitStack() as scope:
        scope.enter_context(dagster_failures(target.identifier, context))
        if target.schema.fields or table_or_none(paimon, target.identifier) is not None:
            ensured = target.ensure(paimon)
        else:
            produced = produce()
            first = table_write.create_for_frame(
                paimon, target.identifier, produced.value, target.schema, target.executor
            )
            if first is None:
                context.log.info("Nothing to write, and no table %s yet.", target.identifier)
                own = produced.check_results or ()
                return dg.MaterializeResult(
                    metadata={**table_write.NOTHING_WRITTEN, **(produced.metadata or {})},
                    check_results=[*own, *results_without_rows(target.before_commit)],
                )
            ensured, rows = first
            with_rows = produced._replace(value=rows)
            scope.enter_context(
                table_write.dropping_unwritten(paimon, target.identifier, is_new=True)
            )
            produce = lambda: with_rows  # noqa: E731 - of the same name
        partitions, definition = None, context.assets_def.partitions_def
        if target.partition_column is not None and definition is not None:
            partitions = run_partitions(
                step.partition_keys, definition, target.partition_column, ensured.table.schema
            )
        write = table_write.TableWrite(
            paimon=paimon,
            ensured=ensured,
            step=step,
            mode=target.mode,
            executor=target.executor,
            partitions=partitions,
            code_version=target.code_version,
            checks=target.before_commit,
            consumed=take_consumed(step.run_id, step.key),
        )
        materialized = write.materialize(produce, produces_again=target.has_checks)
    for key, metadata in materialized.by_partition.items():
        context.add_asset_metadata(metadata, asset_key=context.asset_key, partition_key=key)
    return materialized.result


def _result_of(value: Any) -> dg.MaterializeResult[Any]:
    """Return the result of a function of any form: a coroutine, a generator, Dagster's outputs.

    A generator yields frames, one commit together; or one output of Dagster's, and check results.
    """
    if inspect.iscoroutine(value):
        value = asyncio.run(value)
    if inspect.isasyncgen(value):
        value = iter(asyncio.run(_list_of(value)))
    checks: list[dg.AssetCheckResult] = []
    if isinstance(value, Iterator) and not hasattr(value, "__arrow_c_stream__"):
        first = next(value, None)
        if isinstance(first, dg.Output | dg.MaterializeResult):
            for event in value:
                if not isinstance(event, dg.AssetCheckResult):
                    message = f"After its output the function yields a {type(event).__name__}."
                    raise InvalidInputError(message, kind="frame-type")
                checks.append(event)
            value = first
        else:
            value = value if first is None else chain([first], value)
    if isinstance(value, dg.Output):
        value = dg.MaterializeResult(value=value.value, metadata=value.metadata)
    if not isinstance(value, dg.MaterializeResult):
        return dg.MaterializeResult(value=value)
    return value._replace(check_results=[*(value.check_results or ()), *checks])


async def _list_of(values: AsyncIterator[Any]) -> list[Any]:
    return [value async for value in values]


def define_intake(
    target: TableTarget,
    options: AssetOptions,
    run: Callable[..., dg.MaterializeResult[Any]],
    config: type[dg.Config],
    *,
    description: str,
    refused: Mapping[str, str],
) -> dg.AssetsDefinition:
    """Define the asset of a table that files feed; `run` takes context, catalog, config, target.

    `description` is the default; `refused` are options of `dg.asset` such an asset cannot have →
    why.
    """
    for name, why in refused.items():
        if name in options:
            message = f"The asset of table {target.identifier} cannot have {name}: {why}."
            raise InvalidInputError(message, kind="asset-options")
    compute = compute_of(
        lambda context, paimon, form, _: run(context, paimon, form, target),
        (),
        catalog=target.resource_key,
        form=config,
    )
    compute.__name__ = target.identifier.table
    compute.__doc__ = description
    return define_asset(compute, target, options)
