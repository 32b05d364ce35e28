"""Metadata keys by which definitions describe tables that an IO manager writes and reads.

`paimon_output` and `paimon_input` return them. They are plain values: they can be written by hand,
show in the UI, and load without a catalog.

Inputs of columns inside columns.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.assets.failures import refuse_unknown
from paimon_assets.assets.metadata import Metadata, declared_columns
from paimon_assets.assets.partitions import PARTITION_COLUMNS, PartitionColumns
from paimon_assets.assets.resource import executor_kind
from paimon_assets.assets.tables.declared_table import SchemaPolicy, schema_policy
from paimon_assets.assets.tables.table_write import WriteMode, refuse_upsert_without_key, write_mode
from paimon_assets.assets.translator import RESOURCE_KEY, TABLE_NAME, identifier_of
from paimon_assets.engine.codec.arrow.arrow_types import empty_batch
from paimon_assets.engine.codec.json.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.evolution.option_rules import key_hints
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema, first_table_schema
from paimon_assets.engine.spec.types.data_types import DataField, RowType
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.frames.frames import spark_name
from paimon_assets.engine.table.read.plan import as_predicate
from paimon_assets.engine.table.read.read_builder import ReadBuilder

MODE = "paimon/mode"
SCHEMA = "paimon/schema"
EXECUTOR = "paimon/executor"
SCHEMA_POLICY = "paimon/schema_policy"
COLUMNS = "paimon/columns"
WHERE = "paimon/where"
BRANCH = "paimon/branch"
CONSUMER = "paimon/consumer"

PREFIX = "paimon/"
_TIME_TRAVEL = ("snapshot", "tag", "timestamp", "watermark", "between", "consumer")
_ENDS = 2
_LISTS = ("columns", "between")
OUTPUT_KEYS = frozenset({MODE, SCHEMA, SCHEMA_POLICY, EXECUTOR, PARTITION_COLUMNS, RESOURCE_KEY})


class OutputOptions(TypedDict, total=False):
    """Arguments of `paimon_output`: the table of an output, and how its rows are written."""

    table: str | Identifier
    """`database.table`; by default the last two parts of the asset key."""
    schema: Schema
    """The declared table. Without one a table is made from the first frame's columns."""
    mode: str
    """Effect on existing rows (`table_write.WriteMode`)."""
    partition_column: PartitionColumns
    """The column that holds the key of a partitioned asset; or dimension → column."""
    executor: Literal["spark", "embedded"]
    """The executor that writes; by default the resource's choice."""
    schema_policy: str
    """Action of a run where the declaration, or without one the frame, differs from the table:
    `error` by default, `add`, `widen`, `sync`; see `declared_table.SchemaPolicy`."""


class InputOptions(TypedDict, total=False):
    """Arguments of `paimon_input`: the table of an input, and the part that is read."""

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
    """Changes after one snapshot, up to and with another: two ids (0 is before the first), or
    two tags; see `ReadBuilder.between`."""
    branch: str
    """A branch of the table."""
    consumer: str
    """A name whose position is stored: the first read has the table, later ones its changes.
    Overwrites that remove rows need `row_kinds`; see docs/changes.md."""
    row_kinds: bool
    """Read retractions too, and the kind of each row in a first column, `rowkind`."""
    options: Mapping[str, str]
    """Table options of this read alone, such as `incremental-between-scan-mode`."""
    executor: Literal["spark", "embedded"]
    """The executor that reads, but for Spark frames; by default this process."""


INPUT_KEYS = frozenset(PREFIX + name for name in InputOptions.__annotations__ if name != "table")


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
        mode = write_mode(options["mode"], str(options.get("table", "")))
        if mode is WriteMode.UPSERT and "schema" in options:
            refuse_upsert_without_key(options["schema"].primary_keys, str(options.get("table", "")))
        metadata[MODE] = str(mode)
    if "partition_column" in options:
        metadata[PARTITION_COLUMNS] = options["partition_column"]
    if "executor" in options:
        metadata[EXECUTOR] = executor_kind(options["executor"])
    if "schema_policy" in options:
        policy = schema_policy(options["schema_policy"], str(options.get("table", "")))
        if policy is SchemaPolicy.SYNC and "schema" not in options:
            message = "The schema policy 'sync' needs a declared schema (paimon_output(schema=…))."
            raise InvalidInputError(message, kind="schema-policy")
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
            time = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            metadata[PREFIX + name] = int(time.timestamp() * 1000)
        elif isinstance(value, dt.datetime):
            metadata[PREFIX + name] = value.isoformat()
        else:
            metadata[PREFIX + name] = list(value) if name in _LISTS else value  # type: ignore[call-overload]  # because a TypedDict forgets
    return metadata


def _check_input(options: InputOptions) -> None:
    targets = [name for name in _TIME_TRAVEL if name in options]
    if len(targets) > 1:
        raise InvalidInputError(
            f"paimon_input takes one of {', '.join(_TIME_TRAVEL)}: {' and '.join(targets)} exclude "
            "each other.",
            kind="time-travel",
        )
    columns, between = options.get("columns"), options.get("between", (0, 0))
    if isinstance(columns, str):
        message = f"paimon_input(columns='{columns}') is one text; give a list of names."
        raise InvalidInputError(message, kind="input-option")
    if isinstance(between, str) or len(between) != _ENDS:
        raise InvalidInputError(
            f"paimon_input(between={between!r}) needs two snapshots, or two tags: after which, and "
            "up to which.",
            kind="input-option",
        )
    for key, known in key_hints(options.get("options", ())).items():
        message = f"paimon_input has the table option '{key}'. Did you mean '{known}'?"
        raise InvalidInputError(message, kind="option-unknown", option=key)
    if "where" in options:
        as_predicate(options["where"])
    if "executor" in options:
        executor_kind(options["executor"])


_OF_DAGSTER = {"columns": COLUMNS, "partition_expr": PARTITION_COLUMNS}


def in_our_keys(metadata: Mapping[str, Any]) -> Metadata:
    """Return metadata with keys of Dagster's IO managers of databases under ours, unless set."""
    return {**{_OF_DAGSTER.get(key, key): metadata[key] for key in metadata}, **metadata}


def check_keys(metadata: Mapping[str, Any], known: frozenset[str], owner: str) -> None:
    """Refuse unknown keys that begin with `paimon/`; `known` are `OUTPUT_KEYS` or `INPUT_KEYS`.

    So is the database that Dagster's IO managers take as `schema`.
    """
    if isinstance(metadata.get("schema"), str):
        message = (
            f"The metadata of {owner} has 'schema', by which IO managers name a database. Here"
            " the table names it: paimon_output(table='database.table'), or a key of two parts."
        )
        raise InvalidInputError(message, kind="metadata-key", option="schema")
    ours = [key for key in metadata if key.startswith(PREFIX)]
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
        if PREFIX + name in metadata:
            read = change(read, metadata[PREFIX + name])
    return read


class NestedColumns(Value):
    """The columns of an input, some of them nested."""

    paths: dict[str, tuple[str, ...]]
    """Name in the frame → the column it is of, and the fields below that."""

    @property
    def tops(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path[0] for path in self.paths.values()))

    def tops_of(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns to read for some names; None is all names."""
        chosen = self.paths if names is None else names
        return tuple(dict.fromkeys(self._path(name)[0] for name in chosen))

    def narrow(
        self, reader: pa.RecordBatchReader, names: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Return a reader of the columns asked for; it holds one batch at a time.

        A column that is none of the tops, as `rowkind`, is first.
        """
        more = [name for name in reader.schema.names if name not in self.tops]
        chosen = [*more, *self.paths] if names is None else list(names)
        empty = empty_batch(reader.schema)
        schema = self._of(empty, chosen).schema

        def batches() -> Iterator[pa.RecordBatch]:
            with reader:
                for batch in reader:
                    yield self._of(batch, chosen)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def of_spark(self, frame: Any) -> Any:
        more = [name for name in frame.columns if name not in self.tops]
        return frame.select(*(_spark_field(frame, self._path(n), n) for n in (*more, *self.paths)))

    def _of(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        arrays: list[Any] = []
        for name in names:
            top, *below = self._path(name)
            column: Any = batch.column(batch.schema.names.index(top))
            arrays.append(pc.struct_field(column, below) if below else column)
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    def _path(self, name: str) -> tuple[str, ...]:
        return self.paths.get(name, (name,))


def nested_columns(names: Sequence[str], schema: TableSchema) -> NestedColumns | None:
    """Return the columns of an input, None if none of them is inside another.

    A column whose own name has dots is preferred to a field inside one.
    """
    paths = {name: _path(name, schema) for name in names}
    if all(len(path) == 1 for path in paths.values()):
        return None
    return NestedColumns(paths=paths)


def _path(name: str, schema: TableSchema) -> tuple[str, ...]:
    if name in schema.by_name:
        return (name,)
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        top = schema.by_name.get(".".join(parts[:length]))
        if top is not None:
            return (top.name, *_below(name, top, parts[length:]))
    return (name,)  # the plan of the read refuses it


def _below(name: str, top: DataField, parts: Sequence[str]) -> Sequence[str]:
    field = top
    for part in parts:
        inner = field.type.fields if isinstance(field.type, RowType) else ()
        next_field = next((each for each in inner if each.name == part), None)
        if next_field is None:
            has = ", ".join(each.name for each in inner) or "none"
            message = (
                f"Column '{name}' does not exist; '{field.name}' is {field.type.root} and has the "
                f"fields {has}."
            )
            raise NotFoundError(message, kind="column-not-found", column=name)
        field = next_field
    return parts


def _spark_field(frame: Any, path: Sequence[str], name: str) -> Any:
    top, *below = path
    column = frame[spark_name(top)]
    for part in below:
        column = column.getField(part)
    return column.alias(name)
