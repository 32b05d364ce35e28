"""The state of `PaimonTablesComponent`: tables as JSON, and the names of their assets."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from paimon_assets.assets.external_tables import ExternalTable
from paimon_assets.assets.translator import PaimonTranslator, identifier_of
from paimon_assets.engine.codec.json.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import FormatError

_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class AssetNaming(PaimonTranslator):
    """The translator that YAML configures."""

    key_prefix: tuple[str, ...] = ()
    """Before `database, table`."""
    group_name: str | None = None
    owners: tuple[str, ...] = ()

    def get_asset_key(self, identifier: Identifier) -> dg.AssetKey:
        return super().get_asset_key(identifier).with_prefix(list(self.key_prefix))

    def get_group_name(self, identifier: Identifier) -> str:
        return self.group_name or super().get_group_name(identifier)

    def get_owners(self, identifier: Identifier) -> Sequence[str]:
        del identifier
        return self.owners


def tables_to_json(tables: Sequence[ExternalTable]) -> str:
    described = [
        {
            "table": str(table.identifier),
            "path": table.path,
            "schema": json.loads(schema_to_json(table.schema)),
        }
        for table in tables
    ]
    return json.dumps({"version": _VERSION, "tables": described}, indent=1, ensure_ascii=False)


def tables_from_json(text: str, path: str) -> list[ExternalTable]:
    try:
        return _tables_of(json.loads(text), path)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        message = f"'{path}' describes no tables: {error}. Refresh it: dg utils refresh-defs-state."
        raise FormatError(message, kind="external-tables", path=path) from error


def _tables_of(members: Mapping[str, Any], path: str) -> list[ExternalTable]:
    if members["version"] != _VERSION:
        raise ValueError(f"version {members['version']} is not known")
    return [
        ExternalTable(
            identifier=identifier_of(str(item["table"])),
            path=str(item["path"]),
            schema=schema_from_json(json.dumps(item["schema"]).encode(), path),
        )
        for item in members["tables"]
    ]
