"""Tables as assets in YAML, of a function's rows and of files that land; checks of a table."""

import datetime as dt
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import dagster as dg
from dagster.components.resolved.core_models import ResolvedAssetAttributes
from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import Field

from paimon_assets.assets import row_checks, table_checks, translator
from paimon_assets.assets.check_run import CheckOptions
from paimon_assets.assets.failures import refuse_unknown
from paimon_assets.assets.files.ingestion import build_file_ingestion_asset, build_new_files_sensor
from paimon_assets.assets.files.source_files import ExtraColumns, FileSource, MissingColumns
from paimon_assets.assets.resource import ExecutorKind
from paimon_assets.assets.schedules import build_ingestion_schedule
from paimon_assets.assets.tables.table_asset import paimon_asset
from paimon_assets.assets.tables.table_write import WriteMode
from paimon_assets.columns import build_rows_behind_check
from paimon_assets.components.catalog_components import (
    HERE,
    NAME,
    OF_THE_RESOURCE,
    DescribedModel,
    Names,
    Secret,
    Text,
    Texts,
    example,
)
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.all_options import parse_duration_ms
from paimon_assets.engine.spec.schema.schema import Schema

CheckKind = Literal[
    "row_count",
    "row_count_anomaly",
    "unique_key",
    "freshness",
    "small_files",
    "sequence",
    "schema",
    "quarantine",
    "overflow",
    "source_overflow",
    "rows_behind",
]
Severity = Literal["warn", "error"]


class TableCheck(DescribedModel):
    """One check of a table; its type decides about its settings."""

    type: CheckKind = Field(description="The check: that of `build_<type>_check`.")
    name: str | None = Field(default=None, description="The name; the type by default.")
    blocking: bool = Field(default=False, description="Whether a failure stops downstream steps.")
    severity: Severity | None = Field(default=None, description="The check's own by default.")
    expected: int | None = Field(default=None, description="Of row_count: exactly so many rows.")
    minimum: int | None = Field(default=None, description="Of row_count: the fewest rows.")
    maximum: int | None = Field(default=None, description="Of row_count: the most rows.")
    runs: int | None = Field(default=None, description="Of row_count_anomaly: runs compared with.")
    columns: Names | None = Field(
        default=None, description="Of unique_key: the key; the primary key by default."
    )
    max_behind: int | None = Field(
        default=None, description="Of rows_behind: the most rows; 0 by default."
    )
    max_age: str | None = Field(
        default=None, description="Of freshness: such as '1 d'; needed there."
    )

    def build(self, asset: dg.AssetsDefinition, **parts: Any) -> dg.AssetChecksDefinition:
        """Return the check of a table; `parts` are its schema and source, if its YAML has them."""
        check = _CHECKS[self.type]
        common = {"type", "name", "blocking", "severity"}
        settings: dict[str, Any] = {
            name: value
            for name in type(self).model_fields
            if name not in common and (value := getattr(self, name)) is not None
        }
        refuse_unknown(settings, check.settings, f"The check '{self.type}'", kind="component")
        if self.type == "freshness":
            if self.max_age is None:
                message = "The check 'freshness' needs max_age, such as '1 d'."
                raise InvalidInputError(message, kind="component")
            settings["max_age"] = duration_of(self.max_age)
        for parameter, part in check.parts.items():
            if part not in parts:
                raise InvalidInputError(
                    f"The check '{self.type}' needs the {part} of the table: write it into `checks`"
                    " of the component that declares the table.",
                    kind="component",
                )
            settings[parameter] = parts[part]
        default: CheckOptions = inspect.signature(check.function).parameters["options"].default
        severity = default.severity
        if self.severity is not None:
            severity = dg.AssetCheckSeverity[self.severity.upper()]
        options = replace(default, name=self.name, blocking=self.blocking, severity=severity)
        return check.function(asset, **settings, options=options)


def duration_of(text: str) -> dt.timedelta:
    try:
        return dt.timedelta(milliseconds=parse_duration_ms(text))
    except ValueError as error:
        message = f"'{text}' is not a duration, such as '1 d': {error}."
        raise InvalidInputError(message, kind="component") from error


class _Check(Struct, frozen=True):
    function: Callable[..., dg.AssetChecksDefinition]
    settings: tuple[str, ...] = ()
    """Fields of the YAML that it takes, by their names."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Parameter → the part of the table that it is."""


_CHECKS: Mapping[str, _Check] = {
    "row_count": _Check(row_checks.build_row_count_check, ("expected", "minimum", "maximum")),
    "row_count_anomaly": _Check(row_checks.build_row_count_anomaly_check, ("runs",)),
    "unique_key": _Check(row_checks.build_unique_key_check, ("columns",)),
    "small_files": _Check(table_checks.build_small_files_check),
    "sequence": _Check(row_checks.build_sequence_check),
    "freshness": _Check(table_checks.build_freshness_check, ("max_age",)),
    "schema": _Check(table_checks.build_schema_check, parts={"declared": "schema"}),
    "quarantine": _Check(table_checks.build_quarantine_check, parts={"source": "source"}),
    "overflow": _Check(table_checks.build_overflow_check, parts={"pending": "schema"}),
    "source_overflow": _Check(table_checks.build_source_overflow_check, parts={"source": "source"}),
    "rows_behind": _Check(build_rows_behind_check, ("max_behind",)),
}


@dg.scaffold_with(
    example(
        {
            "table": "shop.orders",
            "checks": [
                {"type": "freshness", "name": f"{NAME}_freshness", "max_age": "1 d"},
                {"type": "row_count_anomaly", "name": f"{NAME}_row_count_anomaly"},
            ],
        }
    )
)
class PaimonChecksComponent(dg.Component, DescribedModel):
    """Checks of a table whose asset is defined elsewhere, in Python or by another component."""

    table: Text = Field(description="database.table")
    asset_key: Names | None = Field(
        default=None, description="Parts of the key; database and table by default."
    )
    checks: list[TableCheck] = Field(description="The checks.")
    resource_key: str = Field(default=translator.DEFAULT_RESOURCE_KEY, description=OF_THE_RESOURCE)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        del context
        asset = asset_named(self)
        return dg.Definitions(asset_checks=[check.build(asset) for check in self.checks])


def asset_named(model: Any) -> dg.AssetsDefinition:
    """Return an asset that names the table of a component; it is defined elsewhere."""
    key = dg.AssetKey(model.asset_key) if model.asset_key else translator.asset_key_of(model.table)
    metadata = {translator.TABLE_NAME: model.table, translator.RESOURCE_KEY: model.resource_key}
    return dg.AssetsDefinition(specs=[dg.AssetSpec(key, metadata=metadata)])


_COLUMNS = {"id": "BIGINT", "amount": "DOUBLE"}
_ROWS = '''"""Rows of the table."""

import pyarrow as pa


def rows() -> pa.Table:
    """Return some rows."""
    return pa.table({"id": [1, 2], "amount": [9.9, 20.0]})
'''


class SchemaModel(DescribedModel):
    """A declared schema."""

    columns: Texts = Field(
        description="Column: type, in the table's order, such as 'DECIMAL(10, 2) NOT NULL'."
    )
    primary_keys: Names = Field(default=[], description="Columns that identify a row.")
    partition_keys: Names = Field(default=[], description="Columns that choose the partition.")
    options: Texts = Field(default={}, description="Table options, such as bucket.")
    comment: str | None = Field(default=None, description="Description of the table.")
    comments: Texts = Field(default={}, description="Column: its description.")

    def table_schema(self) -> Schema:
        names = ("partition_keys", "primary_keys", "options", "comment", "comments")
        return Schema.of(self.columns, **{name: getattr(self, name) for name in names})


class DeclaredTableModel(dg.Component, SchemaModel):
    """The table of a component: its name, its schema, and the fields of its asset."""

    table: Text = Field(description="database.table")
    executor: ExecutorKind | None = Field(default=None, description="The catalog's by default.")
    schema_policy: Literal["error", "add", "widen", "sync"] = Field(
        default="error", description="Action of a run where the table differs from the declaration."
    )
    asset: ResolvedAssetAttributes = Field(
        default={}, description="group_name, owners, deps, tags, automation_condition ..."
    )
    checks: list[TableCheck] = Field(default=[], description="Checks of the table.")
    resource_key: str = Field(default=translator.DEFAULT_RESOURCE_KEY, description=OF_THE_RESOURCE)

    def asset_options(self) -> dict[str, Any]:
        ours = {"resource_key": self.resource_key, "schema_policy": self.schema_policy}
        return {**self.asset, **ours, "executor": self.executor}


@dg.scaffold_with(
    example(
        {
            "table": f"shop.{NAME}",
            "columns": _COLUMNS,
            "primary_keys": ["id"],
            "options": {"bucket": "1"},
            "rows": ".rows.rows",
            "checks": [{"type": "row_count", "minimum": 1}, {"type": "unique_key"}],
        },
        {"rows.py": _ROWS},
    )
)
class PaimonAssetComponent(DeclaredTableModel):
    """A table as the asset of a function that returns its rows, as `paimon_asset` makes it."""

    rows: Text = Field(
        description="The function: '.module.name' beside this file, or 'package.module.name'."
    )
    mode: WriteMode | None = Field(
        default=None,
        description="The effect on existing rows. By default a table with a primary key is "
        "upserted, a partitioned asset overwrites its partitions, any other appends.",
    )
    partition_column: Annotated[str | dict[str, str] | None, dg.Resolver.passthrough()] = Field(
        default=None, description="Column of the partition key; or dimension: column."
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        schema = self.table_schema()
        decorate = paimon_asset(
            self.table,
            schema,
            mode=self.mode,
            partition_column=self.partition_column,
            **self.asset_options(),
        )
        asset = decorate(function_at(context, self.rows))
        checks = [check.build(asset, schema=schema) for check in self.checks]
        return dg.Definitions(assets=[asset], asset_checks=checks)


class LandingFolder(DescribedModel):
    """The landing folder of an ingestion; as `FileSource`."""

    folder: Secret = Field(description="A path or a URL; {env: NAME} is read when the asset runs.")
    format: Literal["parquet", "orc", "avro", "arrow", "csv", "json"] = Field(
        default="parquet", description="Format of the files."
    )
    pattern: Text | None = Field(default=None, description="Glob of names, such as '**/*.csv.gz'.")
    options: Texts = Field(default={}, description="How CSV and JSON files are written.")
    on_changed: Literal["refuse", "ignore", "again"] = Field(
        default="refuse", description="Treatment of a file that changed."
    )
    on_bad_file: Literal["refuse", "quarantine"] = Field(
        default="refuse", description="Treatment of a file that cannot be read."
    )
    may_be_missing: bool = Field(default=False, description="Whether the folder may not exist.")
    missing_columns: MissingColumns = Field(
        default="error", description="Treatment of a file that lacks a column."
    )
    extra_columns: ExtraColumns = Field(
        default="error", description="Treatment of a file with undeclared columns."
    )

    def source(self) -> FileSource:
        return FileSource(**{name: getattr(self, name) for name in type(self).model_fields})


@dg.scaffold_with(
    example(
        {
            "table": f"shop.{NAME}",
            "columns": _COLUMNS,
            "primary_keys": ["id"],
            "options": {"bucket": "1"},
            "source": {"folder": f"{HERE}/landing", "format": "csv", "on_bad_file": "quarantine"},
            "schedule": "0 3 * * *",
            "checks": [{"type": "quarantine"}, {"type": "unique_key"}],
        },
        {"landing/first.csv": "id,amount\n1,9.9\n2,20.0\n"},
    )
)
class PaimonFileIngestionComponent(DeclaredTableModel):
    """A table fed by files that land, exactly once each; with a sensor on new files."""

    source: LandingFolder = Field(description="Where the files land.")
    transform: Text | None = Field(
        default=None, description="Function from the files' frame to that of the table's rows."
    )
    sensor: bool = Field(default=True, description="A sensor on new files; shipped stopped.")
    schedule: Text | None = Field(
        default=None, description="Cron of a schedule, such as '0 3 * * *'; shipped stopped."
    )
    timezone: str = Field(default="UTC", description="Time zone of the schedule.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        schema, source = self.table_schema(), self.source.source()
        asset = build_file_ingestion_asset(
            self.table,
            schema,
            source=source,
            transform=None if self.transform is None else function_at(context, self.transform),
            **self.asset_options(),
        )
        schedules = []
        if self.schedule is not None:
            schedules.append(build_ingestion_schedule(asset, self.schedule, timezone=self.timezone))
        return dg.Definitions(
            assets=[asset],
            asset_checks=[
                check.build(asset, schema=schema, source=source) for check in self.checks
            ],
            sensors=[build_new_files_sensor(asset, source=source)] if self.sensor else [],
            schedules=schedules,
        )


def function_at(context: dg.ComponentLoadContext, path: str) -> Callable[..., Any]:
    module_name, _, name = path.rpartition(".")
    try:
        if path.startswith("."):
            file = context.path.joinpath(*module_name.strip(".").split(".")).with_suffix(".py")
            module = context.load_defs_relative_python_module(file)
        else:
            module = importlib.import_module(module_name)
        function: Callable[..., Any] = getattr(module, name)
    except (ImportError, ValueError, OSError, AttributeError) as error:
        raise InvalidInputError(
            f"There is no function '{path}': {error}. Write '.module.name' for a module beside the "
            "YAML, or 'package.module.name'.",
            kind="component",
        ) from error
    return function
