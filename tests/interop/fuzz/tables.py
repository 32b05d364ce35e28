"""Tables of every kind both sides know, drawn by a number."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    AtomicType,
    DataField,
    DataType,
    TypeRoot,
)
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.interop.fuzz.values import Plain, draw_value

_ATOMIC = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "VARCHAR(10)",
    "CHAR(5)", "BYTES", "BINARY(4)", "VARBINARY(6)", "DATE", "DECIMAL(4, 2)", "DECIMAL(18, 9)",
    "DECIMAL(20, 0)", "DECIMAL(38, 10)", "TIME(0)", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)",
    "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(0) WITH LOCAL TIME ZONE",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
)  # fmt: skip
_NESTED = (
    "ARRAY<INT>", "ARRAY<STRING NOT NULL>", "ARRAY<TIMESTAMP(3)>", "MAP<STRING, INT>",
    "MAP<INT, DOUBLE>", "MAP<DATE, DECIMAL(5, 1)>", "MULTISET<STRING>", "ROW<x INT, y STRING>",
    "ROW<t TIMESTAMP(6), f FLOAT, b BYTES>", "ARRAY<ROW<x BIGINT, y ARRAY<STRING>>>",
    "MAP<STRING, ROW<d DATE, z BOOLEAN>>", "ROW<r ROW<x INT NOT NULL, y DECIMAL(20, 3)>>",
)  # fmt: skip
_PLAIN = ("INT", "BIGINT", "STRING", "DOUBLE", "BOOLEAN", "DATE", "DECIMAL(18, 9)", "ARRAY<INT>")
_FORMATS = ("parquet", "parquet", "parquet", "orc", "orc", "avro", "avro")
_CODECS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none"),
    "orc": ("zstd", "snappy", "lz4", "zlib", "none"),
    "avro": (
        "zstd",
        "snappy",
        "deflate",
        "null",
    ),  # as Java names them
}
_ENGINES = ("deduplicate", "deduplicate", "partial-update", "aggregation", "first-row")
_NUMBERS = ("INT", "BIGINT", "DECIMAL(18, 9)", "DECIMAL(38, 10)")
_AGGREGATES = {
    "sum": _NUMBERS, "product": ("INT", "BIGINT"), "max": _ATOMIC[1:5],
    "min": ("DATE", "STRING", "TIMESTAMP(3)"),
    "last_value": _ATOMIC, "last_non_null_value": _ATOMIC, "first_value": _ATOMIC,
    "first_non_null_value": _ATOMIC, "listagg": ("STRING",), "bool_and": ("BOOLEAN",),
    "bool_or": ("BOOLEAN",), "collect": ("ARRAY<INT>", "ARRAY<STRING NOT NULL>"),
    "merge_map": ("MAP<STRING, INT>",),
}  # fmt: skip
_RETRACTING = ("sum", "last_value", "last_non_null_value", "collect")
_COMMON = {
    "commit.min-retry-wait": "1 ms",
    "commit.max-retry-wait": "5 ms",
    "manifest.merge-min-count": "3",
    "orc.timestamp-ltz.legacy.type": "false",
    "alter-column-null-to-not-null.disabled": "false",
}
_GREGORIAN = -141_427
"""1582-10-15, in days."""
_DAY_NANOS = 86_400 * 10**9
POOL = 7
"""How many values a column has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One table, and who may do what to it."""

    seed: str
    schema: Schema
    kind: str
    """Merge engine, or what an append table is."""
    twin: bool = False
    """Whether a second table goes through the same steps, each done by the other side."""
    only_java_writes: bool = False
    only_we_write: bool = False
    hides: bool = False
    """Whether rows are seen once they are compacted only."""
    takes_segments: bool = False

    @property
    def options(self) -> dict[str, str]:
        return dict(self.schema.options)

    @property
    def is_keyed(self) -> bool:
        return bool(self.schema.primary_keys)

    @property
    def format(self) -> str:
        return self.options["file.format"]

    def features(self) -> Iterator[str]:
        """Yield what of formats, types and options this table has."""
        yield f"format {self.format} {self.options['file.compression']}"
        buckets = {"-1": "dynamic", "-2": "postponed"}.get(self.options.get("bucket", ""), "fixed")
        if not self.is_keyed:
            buckets = "fixed" if "bucket" in self.options else "none"
        elif not set(self.schema.partition_keys) <= set(self.schema.primary_keys):
            buckets = "cross-partition"
        yield f"{'keyed' if self.is_keyed else 'append'} buckets {buckets}"
        yield f"{len(self.schema.partition_keys)} partition keys"
        if self.twin:
            yield "with twin"
        for field in self.schema.fields:
            text = str(field.type).removesuffix(" NOT NULL")
            yield f"type {text if isinstance(field.type, AtomicType) else text.split('<')[0]}"
            if field.name in self.schema.partition_keys:
                yield f"partition {text}"
            elif field.name in self.schema.primary_keys:
                yield f"key {text}"
        for key, value in self.options.items():
            if key.startswith("fields."):
                name = key.split(".")[-1]
                yield f"{name} {value if name == 'aggregate-function' else ''}".strip()
            elif key not in _COMMON and not key.startswith(("file.", "bucket")):
                yield f"{key} {value if value[:1].isalpha() else ''}".strip()

    def __str__(self) -> str:
        columns = ", ".join(f"{field.name} {field.type}" for field in self.schema.fields)
        keys = f"key {self.schema.primary_keys}, partitions {self.schema.partition_keys}"
        options = {key: value for key, value in self.options.items() if key not in _COMMON}
        return f"{self.kind}{' with twin' if self.twin else ''}: {columns}; {keys}; {options}"

    def pool(self, column: DataField) -> list[Plain]:
        """Return the values of a column: the same ones at every call; None where it may be null."""
        chance = Random(f"{self.seed}/{column.id}/{column.type}")  # noqa: S311
        if column.name == "kind" and "rowkind.field" in self.options:
            return ["+I", "+I", "+U", "-D", "-U"]
        count = 3 if column.name in self.schema.partition_keys else POOL
        is_orc = self.format == "orc"
        wide = not is_orc or isinstance(column.type, AtomicType)  # inside one we read no such file
        values = [draw_value(chance, column.type, wide=wide) for _ in range(count)]
        if is_orc:
            exact = self.only_java_writes
            values = [in_orc(value, column.type, exact=exact) for value in values]
        if column.name in self.schema.partition_keys and column.type.root in BINARY_ROOTS:
            values = [_letters(value) for value in values]
        if column.type.root is TypeRoot.VARCHAR and "listagg" in self.options.values():
            values = [value for value in values if value.strip()] or ["a"]  # others Java 1.4 lists
        is_key = column.name in self.schema.primary_keys
        if column.name in ("seq", "g"):  # NaN ties with all others, so who wins lies in the files
            values = [value for value in values if value != "NaN"] or ["1.0"]
        if is_key:  # Java sorts these by one order, and compares them by another
            values = [value for value in values if value not in ("NaN", "-0.0")] or ["1.0"]
        return values if is_key or not column.type.nullable else [*values, None]


def in_orc(value: Plain, data_type: DataType, *, exact: bool) -> Plain:
    """Return a value that Java's own ORC files hold, and unless `exact` ours, too."""
    if value is None:
        return None
    if isinstance(value, list):
        return [in_orc(each, data_type, exact=exact) for each in value]
    if value == "-0.0":  # beside 0.0 it is read as that
        return "1.0"
    if not isinstance(data_type, AtomicType):
        return value
    if data_type.root is TypeRoot.DATE:  # filters take them for days of the Julian calendar
        return max(value, _GREGORIAN)
    if data_type.root not in {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ} or value >= 0:
        return value
    value = max(value, _GREGORIAN * _DAY_NANOS)  # those before Java reads by another calendar
    if not exact:
        value = value // 10**6 * 10**6
    return min(value, -(10**9))


def _letters(value: str) -> str:
    """Return bytes that are a text: others have no name as a folder."""
    return base64.b64encode(
        bytes(ord("a") + each % 26 for each in base64.b64decode(value))
    ).decode()


def draw_table(seed: str) -> Drawn:
    """Draw a table."""
    chance = Random(seed)  # noqa: S311 - nothing secret
    form = chance.choice(_FORMATS)
    options = {**_COMMON, "file.format": form, "file.compression": chance.choice(_CODECS[form])}
    if chance.random() < 0.3:
        options["metadata.stats-mode"] = chance.choice(("none", "counts", "full", "truncate(3)"))
    if chance.random() < 0.4:
        options |= _append_options_of_files(chance)
    twin = chance.random() < 0.35
    if chance.random() < 0.42:
        return _append(seed, chance, options, form, twin=twin)
    return _keyed(seed, chance, options, form, twin=twin)


def _append_options_of_files(chance: Random) -> dict[str, str]:
    return chance.choice(
        (
            {"target-file-size": "3 kb", "source.split.open-file-cost": "1 b"},
            {"parquet.enable.dictionary": "false"},
            {"file.block-size": "1 kb"},
            {"data-file.thin-mode": "true"},
        )
    )


def _types(form: str) -> tuple[str, ...]:
    return tuple(t for t in _ATOMIC if form != "avro" or _avro_holds(t))


def _avro_holds(text: str) -> bool:
    data_type = parse_type(text)
    most = {TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6}
    if not isinstance(data_type, AtomicType) or data_type.root not in most:
        return True
    return (data_type.precision or 0) <= most[data_type.root]


def _columns(chance: Random, form: str, count: int) -> dict[str, str]:
    types = _types(form)
    return {
        f"c{n}": chance.choice(_NESTED if chance.random() < 0.2 else types) for n in range(count)
    }


def _partitions(chance: Random, form: str, options: dict[str, str], suffix: str) -> dict[str, str]:
    count = chance.choice((0, 1, 1, 2))
    types = _types(form)
    if chance.random() < 0.3:
        options["partition.legacy-name"] = "false"
    else:  # which has no text of bytes
        types = tuple(t for t in types if "BINARY" not in t and t != "BYTES")
    return {f"p{n}": chance.choice(types) + suffix for n in range(count)}


def _append(seed: str, chance: Random, options: dict[str, str], form: str, *, twin: bool) -> Drawn:
    kind = chance.choice(
        ("plain", "plain", "vectors", "buckets", "tracking", "evolution", "segments")
    )
    if kind == "segments":  # what plain writers of Parquet and ORC store as Paimon does
        partitions = {}
        columns = {
            "id": "INT",
            **{f"c{n}": chance.choice(_PLAIN) for n in range(chance.randint(1, 6))},
        }
    else:
        partitions = _partitions(chance, form, options, "")
        columns = {"id": "INT", **_columns(chance, form, chance.randint(1, 6)), **partitions}
    options["compaction.min.file-num"] = str(chance.randint(2, 4))
    match kind:
        case "vectors":
            options["deletion-vectors.enabled"] = "true"
            options["deletion-vectors.bitmap64"] = chance.choice(("true", "false"))
        case "buckets":
            options |= {"bucket": str(chance.randint(1, 3)), "bucket-key": "id"}
            if chance.random() < 0.3:
                options["bucket-function.type"] = "mod"
        case "tracking" | "evolution":
            options["row-tracking.enabled"] = "true"
            if kind == "evolution":
                options["data-evolution.enabled"] = "true"
        case _:
            pass
    return Drawn(
        seed=seed,
        schema=Schema.of(columns, partition_keys=list(partitions), options=options),
        kind=kind,
        twin=twin and kind in ("plain", "vectors", "buckets"),
        only_java_writes=kind in ("tracking", "evolution"),
        takes_segments=kind == "segments",
    )


def _keyed(seed: str, chance: Random, options: dict[str, str], form: str, *, twin: bool) -> Drawn:
    engine = chance.choice(_ENGINES)
    partitions = _partitions(chance, form, options, " NOT NULL")
    key_types = [t for t in _types(form) if t != "BOOLEAN"]
    keys = {
        f"k{n}": chance.choice(key_types) + " NOT NULL" for n in range(chance.choice((1, 1, 2)))
    }
    columns = {**partitions, **keys}
    options |= {"num-sorted-run.compaction-trigger": str(chance.randint(2, 4))}
    if engine != "deduplicate":
        options["merge-engine"] = engine
    values = _columns(chance, form, chance.randint(1, 5))
    if engine == "aggregation":
        values = _aggregates(chance, options, form)
    columns |= values
    _order(chance, engine, columns, options, values)
    crosses = (
        engine == "deduplicate"
        and bool(partitions)
        and chance.random() < 0.5
        and not {"sequence.field", "rowkind.field"} & options.keys()
    )
    hides = engine == "first-row"
    postpones = False
    if crosses and chance.random() < 0.5:  # no part of the key, so they may be null
        columns |= {name: columns[name].removesuffix(" NOT NULL") for name in partitions}
    if crosses or chance.random() < 0.2:
        options |= {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
    elif engine != "first-row" and chance.random() < 0.2:
        options |= {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
        if options["file.compression"] not in _CODECS["avro"]:  # waiting rows lie in Avro files
            options["file.compression"] = "zstd"
        hides = postpones = True
    else:
        options["bucket"] = str(chance.choice((1, 1, 2, 3)))
    if not postpones:
        hides |= _changes(chance, engine, options)
    if options.get("sequence.field.sort-order") == "descending":
        twin = False  # Java's writers sort the records of one commit as if it were ascending
    looks_up = engine == "first-row" or "lookup" in options.values()
    if looks_up or "deletion-vectors.enabled" in options:  # Java looks up no keys of bytes
        columns |= {
            name: "STRING NOT NULL"
            for name in keys
            if "BINARY" in keys[name] or "BYTES" in keys[name]
        }
    return Drawn(
        seed=seed,
        schema=Schema.of(
            columns,
            partition_keys=list(partitions),
            primary_keys=list(keys) if crosses else [*partitions, *keys],
            options=options,
        ),
        kind=engine,
        twin=twin and not crosses,
        only_we_write=crosses,
        hides=hides,
    )


def _order(
    chance: Random,
    engine: str,
    columns: dict[str, str],
    options: dict[str, str],
    values: dict[str, str],
) -> None:
    """Add what orders records, and their kinds."""
    orders = ("INT", "BIGINT", "TIMESTAMP(3)", "DOUBLE", "DATE")
    if engine != "first-row" and chance.random() < 0.35:
        columns["seq"] = chance.choice(orders)
        options["sequence.field"] = "seq"
        if chance.random() < 0.3:
            options["sequence.field.sort-order"] = "descending"
    if engine == "partial-update" and "sequence.field" not in options and chance.random() < 0.6:
        columns["g"] = chance.choice(orders)
        options["fields.g.sequence-group"] = ",".join(
            name for n, name in enumerate(values) if n % 2 == 0
        )
    if chance.random() < 0.45:
        match engine:
            case "deduplicate":
                columns["kind"] = "STRING"
            case "partial-update":
                columns["kind"] = "STRING"
                if "sequence.field" in options or chance.random() < 0.5:
                    options["ignore-delete"] = "true"
                elif "fields.g.sequence-group" not in options:
                    options["partial-update.remove-record-on-delete"] = "true"
            case _:
                pass
    if "kind" in columns:
        options["rowkind.field"] = "kind"


def _aggregates(chance: Random, options: dict[str, str], form: str) -> dict[str, str]:
    values = {}
    known = _types(form)
    retracts = chance.random() < 0.45
    for n in range(chance.randint(1, 5)):
        function = chance.choice(_RETRACTING if retracts else list(_AGGREGATES))
        types = [t for t in _AGGREGATES[function] if t in known or "<" in t]
        if form in ("avro", "orc"):  # neither holds a sum that is too large for its type
            types = [t for t in types if t != "DECIMAL(18, 9)"] or types
        values[f"c{n}"] = chance.choice(types)
        options[f"fields.c{n}.aggregate-function"] = function
        if not retracts:
            options[f"fields.c{n}.ignore-retract"] = "true"
    if retracts:
        values["kind"] = "STRING"
        options["aggregation.remove-record-on-delete"] = "true"
    return values


def _changes(chance: Random, engine: str, options: dict[str, str]) -> bool:
    """Add changelogs or deletion vectors; return whether rows of level 0 are hidden."""
    producers = ["none", "none", "lookup", "full-compaction"]
    if engine == "deduplicate" and "sequence.field" not in options:
        producers.append("input")
    if engine == "first-row":
        producers = ["none", "lookup"]
    # Java's compaction merges the only record of a key where it looks up older ones, only there.
    merges_one = engine == "aggregation" and "rowkind.field" in options
    merges_one |= engine == "partial-update" and "fields.g.sequence-group" in options
    if merges_one:
        producers.remove("lookup")
    producer = chance.choice(producers)
    if producer != "none":
        options["changelog-producer"] = producer
    may_mark = engine != "first-row" and producer in ("none", "lookup") and not merges_one
    if may_mark and chance.random() < 0.3:
        options["deletion-vectors.enabled"] = "true"
        return True
    return False


def widened(data_type: DataType, chance: Random) -> str | None:
    """Return a type that a column of this type may get, or None."""
    if not isinstance(data_type, AtomicType):
        return None
    wider: dict[TypeRoot, tuple[str, ...]] = {
        TypeRoot.TINYINT: ("SMALLINT", "INT", "BIGINT", "DOUBLE", "STRING", "DECIMAL(20, 0)"),
        TypeRoot.SMALLINT: ("INT", "BIGINT", "DOUBLE", "STRING"),
        TypeRoot.INT: ("BIGINT", "DOUBLE", "STRING", "DECIMAL(20, 0)", "SMALLINT"),
        TypeRoot.BIGINT: ("STRING", "DOUBLE", "DECIMAL(38, 10)", "INT"),
        TypeRoot.FLOAT: ("DOUBLE", "STRING"),
        TypeRoot.DOUBLE: ("STRING", "FLOAT"),
        TypeRoot.BOOLEAN: ("STRING", "INT"),
        TypeRoot.DATE: ("STRING", "TIMESTAMP(3)"),
        TypeRoot.TIMESTAMP: ("STRING", "DATE", "TIMESTAMP(6)"),
        TypeRoot.DECIMAL: ("DECIMAL(38, 10)", "STRING", "DOUBLE"),
        TypeRoot.CHAR: ("STRING", "VARCHAR(10)"),
        TypeRoot.VARCHAR: ("STRING",),
        TypeRoot.VARBINARY: ("BYTES",),
        TypeRoot.TIME: ("STRING",),
    }
    choices = wider.get(data_type.root)
    return None if choices is None else chance.choice(choices)


def added_type(chance: Random, drawn: Drawn) -> str:
    """Return the type of a column to add."""
    return chance.choice(_NESTED if chance.random() < 0.2 else _types(drawn.format))
