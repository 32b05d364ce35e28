"""Metadata keys by which definitions describe tables that an IO manager writes and reads.

`paimon_output` and `paimon_input` return them. They are plain values: they can be written by hand,
show in the UI, and load without a catalog.
"""

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from paimon_assets.assets.failures import refuse_unknown
from paimon_assets.assets.metadata import Metadata, declared_columns
from paimon_assets.assets.partitions import PARTITION_COLUMNS, PartitionColumns
from paimon_assets.assets.resource import executor_kind
from paimon_assets.assets.tables.declared_table import SchemaPolicy, schema_policy
from paimon_assets.assets.tables.table_write import write_mode
from paimon_assets.assets.translator import RESOURCE_KEY, TABLE_NAME, identifier_of
from paimon_assets.engine.codec.json.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.read.where import as_predicate

MODE = "paimon/mode"
SCHEMA = "paimon/schema"
EXECUTOR = "paimon/executor"
SCHEMA_POLICY = "paimon/schema_policy"
COLUMNS = "paimon/columns"
WHERE = "paimon/where"
BRANCH = "paimon/branch"
CONSUMER = "paimon/consumer"

_PREFIX = "paimon/"
_TIME_TRAVEL = ("snapshot", "tag", "timestamp", "watermark", "between", "consumer")
_ENDS = 2
_LISTS = ("columns", "between")
OUTPUT_KEYS = frozenset({MODE, SCHEMA, SCHEMA_POLICY, EXECUTOR, PARTITION_COLUMNS, RESOURCE_KEY})


class OutputOptions(TypedDict, total=False):
    """Options of `paimon_output`."""

    table: str | Identifier
    """`database.table`; by default the last two parts of the asset key."""
    schema: Schema
    """The declared table. Without one a table is made from the first frame's columns."""
    mode: str
    """What becomes of rows that are there already (`table_write.WriteMode`)."""
    partition_column: PartitionColumns
    """The column that holds the key of a partitioned asset; or dimension → column."""
    executor: Literal["spark", "embedded"]
    """The executor that writes; by default the resource's choice."""
    schema_policy: str
    """What a run does where the declaration, or without one the frame, is not what is stored:
    `error` by default, `add`, `widen`, `sync`; see `declared_table.SchemaPolicy`."""


class InputOptions(TypedDict, total=False):
    """Options of `paimon_input`."""

    table: str | Identifier
    """`database.table`; by default that of the upstream asset."""
    columns: Sequence[str]
    """Only these columns, in this order; `n.a` is the field `a` of the column `n`."""
    where: str
    """Only rows this is true for, such as `price > 3 AND region IN ('eu')`."""
    snapshot: int
    """The table as of this snapshot."""
    tag: str
    """The snapshot a tag holds."""
    timestamp: dt.datetime | int | str
    """The newest snapshot that is not younger; see `ReadBuilder.at_timestamp`."""
    watermark: dt.datetime | int
    """The first snapshot whose watermark, in epoch milliseconds, is not below this."""
    between: Sequence[int | str]
    """What changed after one snapshot, up to and with another: two ids (0 is before the first), or
    two tags; see `ReadBuilder.between`."""
    branch: str
    """A branch of the table."""
    consumer: str
    """A name to remember what was read by: first the table, then what changed since. Overwrites
    that take rows away need `row_kinds`; see docs/changes.md."""
    row_kinds: bool
    """Read retractions too, and the kind of each row in a first column, `rowkind`."""
    options: Mapping[str, str]
    """Table options of this read alone, such as `incremental-between-scan-mode`."""
    executor: Literal["spark", "embedded"]
    """The executor that reads, but for Spark frames; by default this process."""


INPUT_KEYS = frozenset(_PREFIX + name for name in InputOptions.__annotations__ if name != "table")


def paimon_output(**options: Unpack[OutputOptions]) -> Metadata:
    """Return metadata for an asset or `dg.Out` that `PaimonIOManager` writes.

    Raises:
        InvalidInputError: An option is none, or its value is.

    >>> paimon_output(table="ods.planes", mode="append")
    {'dagster/table_name': 'ods.planes', 'paimon/mode': 'append'}
    """
    known = OutputOptions.__annotations__
    refuse_unknown(options, known, "paimon_output", kind="output-option")
    metadata: Metadata = {}
    if "table" in options:
        metadata[TABLE_NAME] = str(identifier_of(options["table"]))
    if "schema" in options:
        schema = options["schema"]
        stored = schema_to_json(first_table_schema(schema, time_millis=0))
        metadata |= {SCHEMA: json.loads(stored), **declared_columns(schema)}
    if "mode" in options:
        metadata[MODE] = str(write_mode(options["mode"], str(options.get("table", ""))))
    if "partition_column" in options:
        metadata[PARTITION_COLUMNS] = options["partition_column"]
    if "executor" in options:
        metadata[EXECUTOR] = executor_kind(options["executor"])
    if "schema_policy" in options:
        policy = schema_policy(options["schema_policy"], str(options.get("table", "")))
        if policy is SchemaPolicy.SYNC and "schema" not in options:
            raise InvalidInputError(
                "The schema policy 'sync' needs a declared schema (paimon_output(schema=…)).",
                kind="schema-policy",
            )
        metadata[SCHEMA_POLICY] = str(policy)
    return metadata


def paimon_input(**options: Unpack[InputOptions]) -> Metadata:
    """Return metadata for a `dg.AssetIn` or `dg.In` that `PaimonIOManager` reads.

    Raises:
        InvalidInputError: An option is none, or its value is; or two are time-travel targets.

    >>> paimon_input(columns=["id"], where="id > 3")
    {'paimon/columns': ['id'], 'paimon/where': 'id > 3'}
    """
    refuse_unknown(options, InputOptions.__annotations__, "paimon_input", kind="input-option")
    _check_input(options)
    metadata: Metadata = {}
    for name, value in options.items():
        if name == "table":
            metadata[TABLE_NAME] = str(identifier_of(options["table"]))
        elif name == "watermark" and isinstance(value, dt.datetime):
            metadata[_PREFIX + name] = _epoch_millis(value)
        elif isinstance(value, dt.datetime):
            metadata[_PREFIX + name] = value.isoformat()
        else:
            metadata[_PREFIX + name] = list(value) if name in _LISTS else value  # type: ignore[call-overload]  # because a TypedDict forgets
    return metadata


def _epoch_millis(time: dt.datetime) -> int:
    """Return a time as Paimon's watermarks count; without an offset it means UTC."""
    return int((time if time.tzinfo else time.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def _check_input(options: InputOptions) -> None:
    targets = [name for name in _TIME_TRAVEL if name in options]
    if len(targets) > 1:
        raise InvalidInputError(
            f"paimon_input takes one of {', '.join(_TIME_TRAVEL)}: {' and '.join(targets)} say "
            "different things of what is read.",
            kind="time-travel",
        )
    columns, between = options.get("columns"), options.get("between", (0, 0))
    if isinstance(columns, str):
        raise InvalidInputError(
            f"paimon_input(columns='{columns}') is one text; give a list of names.",
            kind="input-option",
        )
    if isinstance(between, str) or len(between) != _ENDS:
        raise InvalidInputError(
            f"paimon_input(between={between!r}) needs two snapshots, or two tags: after which, and "
            "up to which.",
            kind="input-option",
        )
    if "where" in options:
        as_predicate(options["where"])
    if "executor" in options:
        executor_kind(options["executor"])


def check_keys(metadata: Mapping[str, Any], known: frozenset[str], owner: str) -> None:
    """Refuse unknown keys that begin with `paimon/`.

    `known` are `OUTPUT_KEYS` or `INPUT_KEYS`.
    """
    ours = [key for key in metadata if key.startswith(_PREFIX)]
    refuse_unknown(ours, known, f"The metadata of {owner}", kind="metadata-key")


def declared_schema(metadata: Mapping[str, Any]) -> Schema | None:
    """Return the schema that `paimon_output` put into metadata."""
    value = metadata.get(SCHEMA)
    if value is None:
        return None
    return schema_from_json(json.dumps(value).encode(), f"metadata '{SCHEMA}'").declared


_READS: Mapping[str, Callable[[ReadBuilder, Any], ReadBuilder]] = {
    "where": ReadBuilder.with_filter,
    "branch": ReadBuilder.at_branch,
    "snapshot": ReadBuilder.at_snapshot,
    "tag": ReadBuilder.at_tag,
    "timestamp": ReadBuilder.at_timestamp,
    "watermark": ReadBuilder.at_watermark,
    "between": lambda read, ends: read.between(*ends),
    "consumer": ReadBuilder.with_consumer,
    "options": lambda read, options: read.with_options(
        {key: str(value) for key, value in options.items()}
    ),
    "row_kinds": lambda read, wants_kinds: read.with_row_kinds() if wants_kinds else read,
}
"""Option of `paimon_input` → how it changes the read."""


def described_read(read: ReadBuilder, metadata: Mapping[str, Any]) -> ReadBuilder:
    """Return the read that metadata of an input describes, of all columns."""
    for name, change in _READS.items():
        if _PREFIX + name in metadata:
            read = change(read, metadata[_PREFIX + name])
    return read
