"""Checks of a table in YAML: beside its component, or by themselves."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from paimon_assets.assets.check_run import CheckOptions
from paimon_assets.assets.checks.row_checks import (
    build_row_count_anomaly_check,
    build_row_count_check,
    build_unique_key_check,
)
from paimon_assets.assets.checks.schema_checks import build_schema_check
from paimon_assets.assets.checks.table_checks import (
    build_freshness_check,
    build_quarantine_check,
    build_sequence_check,
    build_small_files_check,
)
from paimon_assets.assets.components.yaml_values import (
    OF_THE_RESOURCE,
    DescribedModel,
    Names,
    Text,
    example,
)
from paimon_assets.assets.failures import refuse_unknown
from paimon_assets.assets.files.source_files import FileSource
from paimon_assets.assets.translator import (
    DEFAULT_RESOURCE_KEY,
    RESOURCE_KEY,
    TABLE_NAME,
    asset_key_of,
)
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.option import parse_duration_ms
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
]
Severity = Literal["warn", "error"]


class TableCheck(DescribedModel):
    """One check of a table; which settings it takes, its type says."""

    type: CheckKind = Field(description="Which check: that of `build_<type>_check`.")
    name: str | None = Field(default=None, description="The name; the type by default.")
    blocking: bool = Field(default=False, description="Whether a failure stops what is downstream.")
    severity: Severity | None = Field(default=None, description="The check's own by default.")
    expected: int | None = Field(default=None, description="Of row_count: exactly so many rows.")
    minimum: int | None = Field(default=None, description="Of row_count: the fewest rows.")
    maximum: int | None = Field(default=None, description="Of row_count: the most rows.")
    runs: int | None = Field(default=None, description="Of row_count_anomaly: runs compared with.")
    columns: Names | None = Field(
        default=None, description="Of unique_key: the key; the primary key by default."
    )
    max_age: str | None = Field(
        default=None, description="Of freshness: such as '1 d'; needed there."
    )

    def build(self, of: "CheckedTable") -> dg.AssetChecksDefinition:
        """Return the check."""
        check = _CHECKS[self.type]
        common = {"type", "name", "blocking", "severity"}
        settings: dict[str, Any] = {
            name: value
            for name in type(self).model_fields
            if name not in common and (value := getattr(self, name)) is not None
        }
        refuse_unknown(settings, check.settings, f"The check '{self.type}'", kind="component")
        if self.type == "freshness":
            settings["max_age"] = _duration(self.max_age or "")
        for parameter, part in check.parts.items():
            settings[parameter] = of.needed(part, self.type)
        default: CheckOptions = (check.function.__kwdefaults__ or {})["options"]
        severity = default.severity
        if self.severity is not None:
            severity = dg.AssetCheckSeverity[self.severity.upper()]
        options = replace(default, name=self.name, blocking=self.blocking, severity=severity)
        built: dg.AssetChecksDefinition = check.function(of.asset, **settings, options=options)
        return built


def _duration(text: str) -> dt.timedelta:
    try:
        return dt.timedelta(milliseconds=parse_duration_ms(text))
    except ValueError as error:
        raise InvalidInputError(
            f"The check 'freshness' needs max_age, such as '1 d': {error}.", kind="component"
        ) from error


@dataclass(frozen=True, kw_only=True)
class CheckedTable:
    """The table of checks, as its component declares it."""

    asset: dg.AssetsDefinition
    schema: Schema | None = None
    """As its component declares it."""
    source: FileSource | None = None
    """The landing folder of its component."""

    def needed(self, part: str, check: str) -> Any:
        """Return its schema or its source."""
        value = getattr(self, part)
        if value is None:
            raise InvalidInputError(
                f"The check '{check}' needs the {part} of the table: write it into `checks` of the "
                "component that declares the table.",
                kind="component",
            )
        return value


@dataclass(frozen=True)
class _Check:
    function: Callable[..., dg.AssetChecksDefinition]
    settings: tuple[str, ...] = ()
    """Fields of the YAML that it takes, by their names."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Parameter → the part of the table that it is."""


_CHECKS: Mapping[str, _Check] = {
    "row_count": _Check(build_row_count_check, ("expected", "minimum", "maximum")),
    "row_count_anomaly": _Check(build_row_count_anomaly_check, ("runs",)),
    "unique_key": _Check(build_unique_key_check, ("columns",)),
    "small_files": _Check(build_small_files_check),
    "sequence": _Check(build_sequence_check),
    "freshness": _Check(build_freshness_check, ("max_age",)),
    "schema": _Check(build_schema_check, parts={"declared": "schema"}),
    "quarantine": _Check(build_quarantine_check, parts={"source": "source"}),
}


def checks_of(checks: Sequence[TableCheck], of: CheckedTable) -> list[dg.AssetChecksDefinition]:
    """Return the checks of a table."""
    return [check.build(of) for check in checks]


@dg.scaffold_with(
    example(
        {
            "table": "shop.orders",
            "checks": [
                {"type": "freshness", "max_age": "1 d", "severity": "warn"},
                {"type": "row_count_anomaly"},
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
    resource_key: str = Field(default=DEFAULT_RESOURCE_KEY, description=OF_THE_RESOURCE)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the checks."""
        del context
        key = dg.AssetKey(self.asset_key) if self.asset_key else asset_key_of(self.table)
        metadata = {TABLE_NAME: self.table, RESOURCE_KEY: self.resource_key}
        # Says which table is meant; the asset itself is defined elsewhere.
        asset = dg.AssetsDefinition(specs=[dg.AssetSpec(key, metadata=metadata)])
        return dg.Definitions(asset_checks=checks_of(self.checks, CheckedTable(asset=asset)))
