"""Tables of every kind both sides know, drawn by a number."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from paimon_assets.engine.spec.schema.schema import Schema, TableSchema
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from tools.fuzz.values import Plain, draw_value

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
    "ARRAY<TIMESTAMP(9)>", "ROW<t TIMESTAMP(9), x INT>", "MULTISET<INT>", "MULTISET<DATE>",
    "MAP<STRING, TIMESTAMP(8) WITH LOCAL TIME ZONE>",
)  # fmt: skip
_MIXED_TIMES = (
    "ROW<a TIMESTAMP(9), b TIMESTAMP(3)>", "MAP<TIMESTAMP(3), TIMESTAMP(9)>",
    "ARRAY<ROW<a TIMESTAMP(7), b TIMESTAMP(6) WITH LOCAL TIME ZONE>>",
)  # fmt: skip
_PLAIN = ("INT", "BIGINT", "STRING", "DOUBLE", "BOOLEAN", "DATE", "DECIMAL(18, 9)", "ARRAY<INT>")
_FORMATS = ("parquet", "parquet", "parquet", "orc", "orc", "avro", "avro")
_ALL_FORMATS = ("parquet", "orc", "avro")
_CODECS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none"),
    "orc": ("zstd", "snappy", "lz4", "zlib", "none"),
    "avro": ("zstd", "snappy", "deflate", "null"),  # as Java names them
}
_COMMON_CODECS = ("zstd", "snappy")
_STATS = ("none", "counts", "full", "truncate(3)")
_IN_NO_AVRO = ("MULTISET<INT>", "MULTISET<DATE>")
_ENGINES = ("deduplicate", "deduplicate", "partial-update", "aggregation", "first-row")
_NUMBERS = ("INT", "BIGINT", "DECIMAL(18, 9)", "DECIMAL(38, 10)")
_AGGREGATES = {
    "sum": _NUMBERS, "product": ("INT", "BIGINT"), "max": _ATOMIC[1:5],
    "min": ("DATE", "STRING", "TIMESTAMP(3)"),
    "last_value": _ATOMIC, "last_non_null_value": _ATOMIC, "first_value": _ATOMIC,
    "first_non_null_value": _ATOMIC, "listagg": ("STRING",), "bool_and": ("BOOLEAN",),
    "bool_or": ("BOOLEAN",), "collect": ("ARRAY<INT>", "ARRAY<STRING NOT NULL>"),
    "merge_map": ("MAP<STRING, INT>",),
    "nested_update": ("ARRAY<ROW<a INT NOT NULL, b STRING, c BIGINT> NOT NULL>",),
    "nested_partial_update": ("ARRAY<ROW<a INT NOT NULL, b STRING, c BIGINT> NOT NULL>",),
    "merge_map_with_keytime": ("MAP<STRING, ROW<v INT, t STRING>>",),
}  # fmt: skip
_RETRACTING = ("sum", "last_value", "last_non_null_value", "collect", "nested_update")
_IN_GROUPS = ("sum", "max", "min", "last_value", "last_non_null_value", "first_value",
              "first_non_null_value", "listagg", "collect", "merge_map")  # fmt: skip
UNORDERED = frozenset({"collect", "nested_update", "nested_partial_update"})
"""Aggregates whose elements Java has in the order of its hash maps, or of its merges."""
_INDEXED = {
    "bloom-filter": ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "STRING", "VARCHAR(10)",
                     "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)"),
    "bitmap": ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "VARCHAR(10)", "DATE",
               "TIMESTAMP(3)"),
    "range-bitmap": ("INT", "BIGINT", "STRING", "DATE"),
}  # fmt: skip
_ZONES = ("UTC", "UTC", "Asia/Shanghai", "America/New_York", "Asia/Kolkata")
TABLES_OF_A_ZONE = 16
ELSEWHERE = "file://elsewhere"
"""A folder outside the warehouse."""
_LEGACY = "orc.timestamp-ltz.legacy.type"
_COMMON = {
    "commit.min-retry-wait": "1 ms",
    "commit.max-retry-wait": "5 ms",
    "manifest.merge-min-count": "3",
    _LEGACY: "false",
    "alter-column-null-to-not-null.disabled": "false",
}
_IN_2037 = 2_114_000_000 * 10**9
_GREGORIAN = -141_427
"""1582-10-15, in days."""
_DAY_NANOS = 86_400 * 10**9
POOL = 7
"""How many values a column has, most often."""


def zone_of(seed: str) -> str:
    """Return the zone of Java's machine for a table: some tables in a row have the same one."""
    run, _, number = seed.partition("/")
    chance = Random(f"{run}/zone/{int(number) // TABLES_OF_A_ZONE}")  # noqa: S311
    return chance.choice(_ZONES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    seed: str
    schema: Schema
    kind: str
    """Merge engine, or the kind of an append table."""
    twin: bool = False
    """Whether a second table goes through the same steps, each done by the other side."""
    only_java_writes: bool = False
    only_we_write: bool = False
    hides: bool = False
    """Whether rows are seen once they are compacted only."""
    takes_segments: bool = False
    formats: frozenset[str] = frozenset()
    """Formats that its files ever have."""
    later: tuple[tuple[str, str], ...] = ()
    """Options that may be set in mid-life."""
    zone: str = "UTC"
    values: int = POOL
    side: Literal["we", "java"] | None = None
    """The side of all steps, in the twin the other one; by turns if None."""
    refused: str = ""
    """Why we must refuse it, at its creation or its first write."""

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
        """Yield the formats, types and options of this table."""
        yield f"format {self.format} {self.options['file.compression']}"
        buckets = {"-1": "dynamic", "-2": "postponed"}.get(self.options.get("bucket", ""), "fixed")
        if not self.is_keyed:
            buckets = "fixed" if "bucket" in self.options else "none"
        elif self.crosses:
            buckets = "cross-partition"
        yield f"{'keyed' if self.is_keyed else 'append'} buckets {buckets}"
        yield f"{len(self.schema.partition_keys)} partition keys"
        if self.is_keyed and self.schema.partition_keys:
            inside = set(self.schema.partition_keys) & set(self.schema.primary_keys)
            shape = "all" if len(inside) == len(self.schema.partition_keys) else "some"
            yield f"{shape if inside else 'no'} partition keys in the key"
        if self.twin:
            yield "with twin" if self.side is None else "with twin of the other side alone"
        yield f"zone {self.zone}"
        yield f"{len(self.formats)} formats"
        for column in self.schema.fields:
            text = str(column.type).removesuffix(" NOT NULL")
            yield f"type {text if isinstance(column.type, AtomicType) else text.split('<')[0]}"
            if column.name in self.schema.partition_keys:
                yield f"partition {text}"
            elif column.name in self.schema.primary_keys:
                yield f"key {text}"
        for key, value in self.options.items():
            if key.startswith("fields."):
                name = key.split(".")[-1]
                yield f"{name} {value if name == 'aggregate-function' else ''}".strip()
            elif key not in _COMMON and not key.startswith(("file.", "bucket")):
                yield f"{key} {value if value[:1].isalpha() else ''}".strip()

    @property
    def crosses(self) -> bool:
        """Whether keys may change partition."""
        partitions = set(self.schema.partition_keys)
        return self.is_keyed and not partitions <= set(self.schema.primary_keys)

    @property
    def is_padded(self) -> bool:
        return "sequence.auto-padding" in self.options

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
        if column.name == "seq" and self.is_padded:
            return [0, 1, 2, 1_700_000_000]
        count = 3 if column.name in self.schema.partition_keys else self.values
        is_orc = "orc" in self.formats
        is_atomic = isinstance(column.type, AtomicType)  # inside one we read no such file
        wide = not is_orc or (is_atomic and self.zone == "UTC")
        values = [draw_value(chance, column.type, wide=wide) for _ in range(count)]
        if is_orc:
            exact = self.only_java_writes
            values = [in_orc(value, column.type, exact=exact) for value in values]
            if self.zone != "UTC":
                values = [self._of_zone(value, column.type) for value in values]
        is_key = column.name in self.schema.primary_keys
        in_orc_alone = self.formats == {"orc"}
        is_place = is_key or column.name in self.schema.partition_keys
        has_blanks = not is_orc or (not is_place and in_orc_alone)
        if column.type.root is TypeRoot.CHAR and has_blanks:
            values = [f"{value}{' ' * (n % 3)}"[:5] for n, value in enumerate(values)]
        if column.name in self.schema.partition_keys and column.type.root in BINARY_ROOTS:
            values = [_letters(value) for value in values]
        if column.type.root is TypeRoot.VARCHAR and "listagg" in self.options.values():
            values = [value for value in values if value.strip()] or ["a"]  # others Java 1.4 lists
        if "ARRAY<ROW<a INT NOT NULL" in str(column.type):  # newer Java takes a key twice as we do
            values = [list({row[0]: row for row in rows}.values()) for rows in values]
        if column.name in ("seq", "g", "h"):  # NaN ties with all, so who wins lies in the files
            values = [value for value in values if value != "NaN"] or ["1.0"]
        if is_key:  # Java sorts these by one order, and compares them by another
            values = [value for value in values if value not in ("NaN", "-0.0")] or ["1.0"]
        return values if is_key or not column.type.nullable else [*values, None]

    def _of_zone(self, value: Plain, data_type: DataType) -> Plain:
        """Return a value with the times that an ORC file written by a zone's clock holds."""
        match data_type:
            case ArrayType(element=element) if value is not None:
                return [self._of_zone(each, element) for each in value]
            case MapType(key=key, value=inner) if value is not None:
                pairs = [[self._of_zone(a, key), self._of_zone(b, inner)] for a, b in value]
                return list({repr(pair[0]): pair for pair in pairs}.values())
            case RowType(fields=fields) if value is not None:
                return [self._of_zone(v, each.type) for v, each in zip(value, fields, strict=True)]
            case AtomicType(root=root) if value is not None:
                is_legacy = root is TypeRoot.TIMESTAMP_LTZ and _LEGACY not in self.options
                return min(value, _IN_2037) if is_legacy else value
            case _:
                return value


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


@dataclass(slots=True, kw_only=True)
class _Draft:
    seed: str
    chance: Random
    zone: str
    formats: frozenset[str]
    options: dict[str, str]
    twin: bool
    later: list[tuple[str, str]] = field(default_factory=list)
    refused: str = ""

    def drawn(self, schema: Schema, kind: str, **more: Any) -> Drawn:
        """Return the table; features of only one side take its twin away."""
        alone = more.get("only_java_writes") or more.get("only_we_write") or self.refused
        twin = self.twin and not alone
        return Drawn(
            seed=self.seed,
            schema=schema,
            kind=kind,
            formats=self.formats,
            later=tuple(self.later),
            zone=self.zone,
            values=self.chance.choice((POOL, POOL, POOL, POOL, POOL, 40)),
            twin=twin,
            side=self.chance.choice(("we", "java", None, None)) if twin else None,
            refused=self.refused,
            **more,
        )


def draw_table(seed: str) -> Drawn:
    chance = Random(seed)  # noqa: S311 - nothing secret
    form = chance.choice(_FORMATS)
    options = {**_COMMON, "file.format": form, "file.compression": chance.choice(_CODECS[form])}
    if chance.random() < 0.3:
        options["metadata.stats-mode"] = chance.choice(_STATS)
    if chance.random() < 0.4:
        options |= _append_options_of_files(chance)
    twin = chance.random() < 0.35
    draft = _Draft(
        seed=seed,
        chance=chance,
        zone=zone_of(seed),
        formats=frozenset({form}),
        options=options,
        twin=twin,
    )
    is_append = chance.random() < 0.42
    _formats(draft, is_keyed=not is_append)
    return _append(draft) if is_append else _draw_keyed(draft)


def _append_options_of_files(chance: Random) -> dict[str, str]:
    return chance.choice(
        (
            {"target-file-size": "3 kb", "source.split.open-file-cost": "1 b"},
            {"parquet.enable.dictionary": "false"},
            {"file.block-size": "1 kb"},
            {"data-file.thin-mode": "true"},
        )
    )


def _formats(draft: _Draft, *, is_keyed: bool) -> None:
    """Add formats, codecs and statistics by level, for changelogs, and in mid-life."""
    chance, options = draft.chance, draft.options
    formats = set(draft.formats)
    if is_keyed and chance.random() < 0.25:
        levels = {level: chance.choice(_ALL_FORMATS) for level in chance.sample(range(6), 2)}
        options["file.format.per.level"] = _by_level(levels)
        formats |= set(levels.values())
    if is_keyed and chance.random() < 0.15:
        options["changelog-file.format"] = chance.choice(_ALL_FORMATS)
        formats.add(options["changelog-file.format"])
    if chance.random() < 0.2:
        formats.add(chance.choice(_ALL_FORMATS))
    if len(formats) > 1:
        options["file.compression"] = chance.choice(_COMMON_CODECS)
        draft.later += [("file.format", each) for each in sorted(formats)]
    if is_keyed and chance.random() < 0.2:
        codecs = {level: chance.choice(_COMMON_CODECS) for level in chance.sample(range(6), 2)}
        options["file.compression.per.level"] = _by_level(codecs)
    if is_keyed and chance.random() < 0.1:
        options["metadata.stats-mode.per.level"] = _by_level({0: "none", 5: "full"})
    draft.later += [("metadata.stats-mode", each) for each in _STATS]
    draft.later += [("file.compression", each) for each in _COMMON_CODECS]
    draft.later += [("target-file-size", "3 kb"), ("snapshot.num-retained.max", "30")]
    if chance.random() < 0.15:
        options |= {"snapshot.time-retained": "1 ms", "snapshot.num-retained.min": "1"}
        options["snapshot.num-retained.max"] = str(chance.randint(2, 8))
        if is_keyed and chance.random() < 0.5:
            options["changelog.num-retained.max"] = "20"
    if not draft.twin and chance.random() < 0.08:
        options["data-file.external-paths"] = ELSEWHERE
        options["data-file.external-paths.strategy"] = "round-robin"
    draft.formats = frozenset(formats)


def _by_level(levels: Mapping[int, str]) -> str:
    return ",".join(f"{level}:{value}" for level, value in sorted(levels.items()))


def _types(formats: frozenset[str], among: tuple[str, ...] = _ATOMIC) -> tuple[str, ...]:
    return tuple(t for t in among if "avro" not in formats or _avro_holds(t))


def _avro_holds(text: str) -> bool:
    fine = any(f"({digits})" in text for digits in (7, 8, 9))
    return not ("TIMESTAMP" in text and fine) and text not in _IN_NO_AVRO


def _type(chance: Random, formats: frozenset[str]) -> str:
    if chance.random() >= 0.2:
        return chance.choice(_types(formats))
    return chance.choice(_types(formats, (*_NESTED, *_MIXED_TIMES)))


def _columns(draft: _Draft, count: int) -> dict[str, str]:
    columns = {f"c{n}": _type(draft.chance, draft.formats) for n in range(count)}
    reason = "MULTISET of other than STRING in Avro"
    if draft.formats == {"avro"} and draft.chance.random() < 0.03:
        columns["c0"], draft.refused = draft.chance.choice(_IN_NO_AVRO), reason
    return columns


def _partitions(draft: _Draft, suffix: str) -> dict[str, str]:
    chance = draft.chance
    count = chance.choice((0, 1, 1, 2))
    types = _types(draft.formats)
    if chance.random() < 0.3:
        draft.options["partition.legacy-name"] = "false"
        reason = "LTZ partitions whose folders Java names by its zone"
        if count and chance.random() < 0.05:
            draft.refused = reason
            return {"p0": "TIMESTAMP(3) WITH LOCAL TIME ZONE" + suffix}
        types = tuple(t for t in types if "LOCAL" not in t)
    else:  # which has no text of bytes
        types = tuple(t for t in types if "BINARY" not in t and t != "BYTES")
    return {f"p{n}": chance.choice(types) + suffix for n in range(count)}


def _indexes(draft: _Draft, columns: Mapping[str, str]) -> None:
    """Add file indexes, at once or in mid-life."""
    for kind, types in _INDEXED.items():
        names = [n for n, t in columns.items() if t.removesuffix(" NOT NULL") in types]
        if not names or draft.chance.random() > (0.12 if kind != "range-bitmap" else 0.01):
            continue
        names = draft.chance.sample(names, min(2, len(names)))
        if kind == "range-bitmap":
            draft.refused = "range-bitmap indexes"
        if draft.chance.random() < 0.3 and not draft.refused:
            draft.later.append((f"file-index.{kind}.columns", ",".join(names)))
            continue
        draft.options[f"file-index.{kind}.columns"] = ",".join(names)
        draft.options["file-index.in-manifest-threshold"] = draft.chance.choice(("1 b", "1 kb"))


def _legacy_times(draft: _Draft, columns: dict[str, str]) -> bool:
    """Perhaps leave instants in ORC as Java has them by default; we do not write those."""
    instants = "orc" in draft.formats and any("LOCAL" in text for text in columns.values())
    if instants and draft.chance.random() < 0.5:
        del draft.options[_LEGACY]
        columns["zone"] = "TIMESTAMP(3)"  # files without one do not name their zone
        return True
    return False


def _append(draft: _Draft) -> Drawn:
    chance, options = draft.chance, draft.options
    kind = chance.choice(
        ("plain", "plain", "vectors", "buckets", "tracking", "evolution", "segments")
    )
    if kind == "segments":  # values that plain writers of Parquet and ORC store as Paimon does
        partitions = {}
        columns = {
            "id": "INT",
            **{f"c{n}": chance.choice(_PLAIN) for n in range(chance.randint(1, 6))},
        }
    else:
        partitions = _partitions(draft, "")
        columns = {"id": "INT", **_columns(draft, chance.randint(1, 6)), **partitions}
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
        case "plain":
            draft.later.append(("deletion-vectors.enabled", "true"))
            options["deletion-vectors.modifiable"] = chance.choice(("true", "false"))
        case _:
            pass
    draft.later.append(("compaction.min.file-num", "3"))
    if kind != "evolution":  # whose files may lack an indexed column
        _indexes(draft, {n: t for n, t in columns.items() if n not in partitions})
    only_java = kind != "segments" and _legacy_times(draft, columns)
    draft.twin &= kind in ("plain", "vectors", "buckets")
    schema = Schema.of(columns, partition_keys=list(partitions), options=options)
    is_segments = kind == "segments"
    return draft.drawn(schema, kind, only_java_writes=only_java, takes_segments=is_segments)


def _draw_keyed(draft: _Draft) -> Drawn:
    chance, options = draft.chance, draft.options
    engine = chance.choice(_ENGINES)
    may_wait = engine != "first-row" and chance.random() < 0.18
    if may_wait:  # rows wait in Avro files
        draft.formats |= {"avro"}
    partitions = _partitions(draft, " NOT NULL")
    inside = _partitions_of_key(chance, list(partitions))
    crosses = len(inside) < len(partitions)
    key_types = [t for t in _types(draft.formats) if t != "BOOLEAN"]
    keys = {
        f"k{n}": chance.choice(key_types) + " NOT NULL" for n in range(chance.choice((1, 1, 2)))
    }
    columns = {**partitions, **keys}
    options |= {"num-sorted-run.compaction-trigger": str(chance.randint(2, 4))}
    if engine != "deduplicate":
        options["merge-engine"] = engine
    if engine == "aggregation":
        values = _aggregates(draft, retracts=not crosses and chance.random() < 0.45)
    else:
        values = _columns(draft, chance.randint(1, 5))
    columns |= values
    if not crosses and engine == "deduplicate" and _pads(chance):
        columns["seq"] = "BIGINT NOT NULL"
        options |= {"sequence.field": "seq", "sequence.auto-padding": "second-to-micro"}
    else:
        _order(draft, engine, columns, values, crosses=crosses)
    if crosses and chance.random() < 0.5:  # no part of the key, so they may be null
        columns |= {
            n: t.removesuffix(" NOT NULL") for n, t in partitions.items() if n not in inside
        }
    postpones = may_wait and not crosses
    _buckets(draft, crosses=crosses, postpones=postpones)
    hides = engine == "first-row" or postpones
    if not postpones:
        hides |= _changes(draft, engine)
    if options.get("sequence.field.sort-order") == "descending":
        draft.twin = False  # Java's writers sort the records of one commit as if it were ascending
    looks_up = engine == "first-row" or "lookup" in options.values()
    marks = "deletion-vectors.enabled" in {**dict(draft.later), **options}
    if looks_up or marks or ("changelog-producer", "lookup") in draft.later:
        columns |= {  # Java looks up no keys of bytes
            name: "STRING NOT NULL"
            for name in keys
            if "BINARY" in keys[name] or "BYTES" in keys[name]
        }
    draft.later.append(("num-sorted-run.compaction-trigger", "3"))
    _indexes(draft, {n: t for n, t in columns.items() if n not in partitions})
    is_padded = "sequence.auto-padding" in options
    only_java = not postpones and not is_padded and _legacy_times(draft, columns)
    schema = Schema.of(
        columns,
        partition_keys=list(partitions),
        primary_keys=[*keys, *inside] if crosses else [*partitions, *keys],
        options=options,
    )
    return draft.drawn(
        schema, engine, hides=hides, only_we_write=is_padded, only_java_writes=only_java
    )


def _partitions_of_key(chance: Random, partitions: list[str]) -> list[str]:
    if chance.random() < 0.6:
        return partitions
    some = chance.random() < 0.6
    return partitions[chance.randint(0, 1) :][:1] if some and len(partitions) > 1 else []


def _pads(chance: Random) -> bool:
    return chance.random() < 0.06


def _buckets(draft: _Draft, *, crosses: bool, postpones: bool) -> None:
    chance, options = draft.chance, draft.options
    if crosses and chance.random() < 0.06:
        draft.refused = "a bucket without all partition columns"
        options["bucket"] = chance.choice(("1", "-2"))
    elif postpones:
        options |= {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
        if options["file.compression"] not in _CODECS["avro"]:
            options["file.compression"] = "zstd"
        draft.twin = False  # rows wait at each side until it compacts in its own way
    elif crosses or chance.random() < 0.2:
        options |= {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
    else:
        options["bucket"] = str(chance.choice((1, 1, 2, 3)))


def _order(
    draft: _Draft, engine: str, columns: dict[str, str], values: dict[str, str], *, crosses: bool
) -> None:
    """Add the order of records, and their kinds."""
    chance, options = draft.chance, draft.options
    orders = ("INT", "BIGINT", "TIMESTAMP(3)", "DOUBLE", "DATE")
    if engine != "first-row" and not crosses and chance.random() < 0.35:
        columns["seq"] = chance.choice(orders)
        options["sequence.field"] = "seq"
        if chance.random() < 0.3:
            options["sequence.field.sort-order"] = "descending"
    grouped = False
    if engine == "partial-update" and "sequence.field" not in options and chance.random() < 0.6:
        grouped = True
        _groups(draft, columns, values, chance.choice(orders), chance.choice(orders))
    reason = "ignore-delete where keys may change partition"
    if crosses and engine == "deduplicate" and chance.random() < 0.05:
        options["ignore-delete"], draft.refused = "true", reason
    if crosses or chance.random() >= 0.45:
        return
    match engine:
        case "deduplicate":
            columns["kind"] = "STRING"
            if chance.random() < 0.2:
                draft.later.append(("ignore-delete", "true"))
        case "partial-update":
            columns["kind"] = "STRING"
            if "sequence.field" in options or chance.random() < 0.5:
                options["ignore-delete"] = "true"
            elif not grouped:
                options["partial-update.remove-record-on-delete"] = "true"
        case _:
            pass
    if "kind" in columns:
        options["rowkind.field"] = "kind"


def _groups(
    draft: _Draft, columns: dict[str, str], values: dict[str, str], first: str, second: str
) -> None:
    """Add one sequence group, or two, or one of two fields; perhaps aggregates inside them."""
    chance, options = draft.chance, draft.options
    names = list(values)
    columns["g"] = first
    how = chance.choice(("one", "two", "both")) if len(names) > 1 else "one"
    parts = {"g": names[::2]}
    if how != "one":
        columns["h"] = second
        parts = {"g": names[::2], "h": names[1::2]} if how == "two" else {"g,h": names[::2]}
    for fields, ordered in parts.items():
        options[f"fields.{fields}.sequence-group"] = ",".join(ordered)
    for name in (name for ordered in parts.values() for name in ordered):
        fitting = [f for f in _IN_GROUPS if values[name] in _types(draft.formats, _AGGREGATES[f])]
        if fitting and chance.random() < 0.35:
            options[f"fields.{name}.aggregate-function"] = chance.choice(fitting)
            options[f"fields.{name}.ignore-retract"] = "true"


def _aggregates(draft: _Draft, *, retracts: bool) -> dict[str, str]:
    chance, options, values = draft.chance, draft.options, {}
    known = _types(draft.formats)
    for n in range(chance.randint(1, 5)):
        function = chance.choice(_RETRACTING if retracts else list(_AGGREGATES))
        types = [t for t in _AGGREGATES[function] if t in known or "<" in t]
        if draft.formats & {"avro", "orc"}:  # neither holds a sum that is too large for its type
            types = [t for t in types if t != "DECIMAL(18, 9)"] or types
        more = {"aggregate-function": function}
        if not retracts:
            more["ignore-retract"] = "true"
        values[f"c{n}"] = _settings(draft, function, chance.choice(types), more)
        options |= {f"fields.c{n}.{key}": value for key, value in more.items()}
    if retracts:
        values["kind"] = "STRING"
        options |= {"aggregation.remove-record-on-delete": "true", "rowkind.field": "kind"}
    return values


def _settings(draft: _Draft, function: str, data_type: str, options: dict[str, str]) -> str:
    """Add the settings of an aggregate; return the type of its column."""
    chance = draft.chance
    match function:
        case "collect" | "listagg" if chance.random() < 0.5:
            options["distinct"] = "true"
        case "nested_update":
            if chance.random() < 0.6:
                options["nested-key"] = "a"
            elif chance.random() < 0.3:  # below the length of a first array Java 1.4 differs
                options["count-limit"] = str(chance.randint(3, 5))
        case "nested_partial_update":
            options["nested-key"] = "a"
        case "merge_map_with_keytime":
            options["ts-field"] = "t"
            reason = "merge_map_with_keytime by other than STRING"
            if chance.random() < 0.1:
                draft.refused = reason
                return data_type.replace("t STRING", "t INT")
        case _:
            pass
    return data_type


def _changes(draft: _Draft, engine: str) -> bool:
    """Add changelogs or deletion vectors; return whether rows of level 0 are ever hidden."""
    chance, options = draft.chance, draft.options
    producers = ["none", "none", "lookup", "full-compaction"]
    if engine == "deduplicate" and "sequence.field" not in options:
        producers.append("input")
    if engine == "first-row":
        producers = ["none", "lookup"]
    # Java's compaction merges the only record of a key where it looks up older ones, only there.
    merges_one = engine == "aggregation" and "rowkind.field" in options
    merges_one |= any(key.endswith(".sequence-group") for key in options)
    if merges_one:
        producers.remove("lookup")
    producer = chance.choice(producers)
    if producer != "none":
        options["changelog-producer"] = producer
    draft.later += [("changelog-producer", each) for each in sorted(set(producers))]
    if engine == "first-row" or producer not in ("none", "lookup") or merges_one:
        return False
    if chance.random() < 0.3:
        options["deletion-vectors.enabled"] = "true"
        return True
    if chance.random() < 0.15:
        options["deletion-vectors.modifiable"] = chance.choice(("true", "true", "false"))
        draft.later.append(("deletion-vectors.enabled", "true"))
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
        TypeRoot.VARBINARY: ("BYTES", "STRING"),
        TypeRoot.TIME: ("STRING",),
    }
    choices = wider.get(data_type.root)
    return None if choices is None else chance.choice(choices)


def is_indexed(schema: TableSchema, name: str, data_type: str) -> bool:
    """Return whether indexes of a column, if it has any, are made of another type, too."""
    return all(
        data_type in _INDEXED[key.split(".")[1]]
        for key, value in schema.options.items()
        if key.startswith("file-index.") and name in value.split(",")
    )


def added_type(chance: Random, drawn: Drawn) -> str:
    return _type(chance, drawn.formats)
