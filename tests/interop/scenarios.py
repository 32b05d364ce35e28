"""Tables with all kinds of state between commits, and the steps on them."""

from dataclasses import dataclass, field

from paimon_assets.engine.contract.executor import Curve
from paimon_assets.engine.spec.schema.schema import Schema
from tests.interop.steps import Change, Chore, Compact, Empty, Keep, Sort, Step, Write
from tests.testkit.model import Row

COLUMNS = {"day": "STRING NOT NULL", "id": "INT NOT NULL", "kind": "STRING", "text": "STRING"}
NAMES = ("day", "id", "kind", "text")
BY_DAY = ("day",)
KEYED = {"rowkind.field": "kind", "num-sorted-run.compaction-trigger": "3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    options: dict[str, str]
    steps: tuple[Step, ...]
    primary_keys: tuple[str, ...] = ("day", "id")
    partition_keys: tuple[str, ...] = ()
    only_we: frozenset[type[Step]] = field(default_factory=frozenset)
    """Steps the programming interface of Java lacks."""

    @property
    def schema(self) -> Schema:
        return Schema.of(
            COLUMNS,
            primary_keys=self.primary_keys,
            partition_keys=self.partition_keys,
            options=self.options,
        )

    def __str__(self) -> str:
        return self.name


def rows(ids: range, text: str, *, kind: str = "+I", days: str = "ab") -> tuple[Row, ...]:
    return tuple(
        {"day": days[n % len(days)], "id": n, "kind": kind, "text": f"{text}{n}"} for n in ids
    )


CHANGES: tuple[Step, ...] = (
    Write(rows(range(40), "a")),
    Write(rows(range(20, 60), "b")),
    Write(rows(range(10, 30, 4), "gone", kind="-D")),
    Write(rows(range(14, 26), "c") + rows(range(56, 80), "d")),
)
COMPACTED: tuple[Step, ...] = (
    *CHANGES[:2],
    Compact(),
    CHANGES[2],
    Compact(is_full=False),
    CHANGES[3],
    Write(rows(range(16, 20), "gone", kind="-D")),
    Compact(),
)
MARKED: tuple[Step, ...] = (
    *COMPACTED,
    Write(rows(range(30, 36), "e") + rows(range(70, 74), "gone", kind="-D")),
    Compact(is_full=False),
)
CHANGED: tuple[Step, ...] = (
    Write(rows(range(20), "a")),
    Write(rows(range(20, 40), "b")),
    Change((3, 4, 25, 99)),
    Compact(),
    Change((0, 21, 22), "new"),
    Write(rows(range(40, 60), "c")),
    Change((41, 5, 6)),
    Change((5, 7, 45), "newer"),
    Compact(),
    Change(tuple(range(50, 60))),
    Write(rows(range(60, 65), "d")),
    Compact(is_full=False),
)
SETTLED: tuple[Step, ...] = (
    Write(rows(range(20), "a") + rows(range(20, 40), "b")),
    Compact(),
    Change((3, 4, 25, 99)),
    Compact(is_full=False),
    Change((5, 22), "new"),
    Write(rows(range(38, 44), "c")),
    Compact(is_full=False),
)
APPENDED: tuple[Step, ...] = (
    Write(rows(range(20), "a")),
    Write(rows(range(20, 40), "b")),
    Compact(),
    Write(rows(range(40, 50), "c")),
    Write(rows(range(50, 60), "d")),
    Compact(is_full=False),
    Write(rows(range(60, 70), "e")),
)
OVERWRITTEN: tuple[Step, ...] = (
    Write(rows(range(30), "a", days="abc")),
    Write(rows(range(8), "dynamic", days="ab"), replaces={}),
    Write(rows(range(100, 104), "static", days="c"), replaces={"day": "c"}),
    Write(rows(range(90, 99), "e", days="bcd")),
    Empty(({"day": "b"}, {"day": "x"})),
    Write(rows(range(95, 105), "f", days="ab")),
    Write(rows(range(7), "dynamic", days="b"), replaces={}),
)
EMPTIED: tuple[Step, ...] = (*OVERWRITTEN, Empty(), Write(rows(range(5), "last", days="ab")))

KEPT: tuple[Step, ...] = (
    *CHANGES[:2],
    Keep(Chore.ANALYZE),
    Compact(),
    Keep(Chore.COMPACT_MANIFESTS),
    CHANGES[2],
    Keep(Chore.EXPIRE),
    CHANGES[3],
    Compact(is_full=False),
    Keep(Chore.CLEAN_ORPHANS),
    Keep(Chore.EXPIRE),
    Keep(Chore.ANALYZE),
    Write(rows(range(16, 20), "gone", kind="-D")),
    Keep(Chore.EXPIRE),
    Keep(Chore.EXPIRE),
    Keep(Chore.CLEAN_ORPHANS),
    Keep(Chore.COMPACT_MANIFESTS),
    Compact(),
    Write(rows(range(20, 24), "e")),
    Keep(Chore.EXPIRE),
    Keep(Chore.CLEAN_ORPHANS),
)
PIECEMEAL: tuple[Step, ...] = (
    *(Write(rows(range(n, n + 30), f"a{n}")) for n in range(0, 40, 10)),
    Compact(is_full=False),
    *(Write(rows(range(n, n + 6), f"b{n}")) for n in range(0, 24, 8)),
    Compact(is_full=False),
    *(Write(rows(range(n, n + 3), "gone", kind="-D")) for n in range(2, 20, 6)),
    Compact(is_full=False),
    Write(rows(range(5), "c")),
    Compact(is_full=False),
    Compact(),
    Write(rows(range(3, 9), "d")),
    Compact(is_full=False),
)
"""Levels that fill while all sides take turns compacting due files."""


def _sort_twice(curve: Curve) -> tuple[Step, ...]:
    by_both = Sort(("text", "id"), curve)
    return (
        *APPENDED[:2],
        by_both,
        *APPENDED[3:5],
        Change((3, 41)),
        Compact(is_full=False),
        Write(rows(range(60, 70), "e")),
        by_both,
        Compact(),
        Change((5, 61), "new"),
        by_both,
        Keep(Chore.EXPIRE),
    )


def _keyed_scenario(
    name: str, options: dict[str, str], steps: tuple[Step, ...] = COMPACTED
) -> Scenario:
    return Scenario(name=name, options={"bucket": "2", **KEYED, **options}, steps=steps)


def _append(name: str, options: dict[str, str], steps: tuple[Step, ...] = APPENDED) -> Scenario:
    return Scenario(name=name, primary_keys=(), options=options, steps=steps)


VECTORS = {"deletion-vectors.enabled": "true", "write-only": "true"}
LONG = {"deletion-vectors.bitmap64": "true"}
BUCKETS = {"bucket": "2", "bucket-key": "id"}
ROLLING = {"compaction.min.file-num": "2"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "12"}

SCENARIOS: tuple[Scenario, ...] = (
    _keyed_scenario("compacted", {}),
    _keyed_scenario("dynamic", DYNAMIC, CHANGES),
    _keyed_scenario("dynamic_compacted", DYNAMIC),
    _keyed_scenario("dynamic_at_most_two", {**DYNAMIC, "dynamic-bucket.max-buckets": "2"}, CHANGES),
    Scenario(
        name="dynamic_overwritten",
        options={**KEYED, **DYNAMIC},
        partition_keys=BY_DAY,
        steps=EMPTIED,
    ),
    Scenario(
        name="across_partitions",
        options={**KEYED, "bucket": "-1", "dynamic-bucket.target-row-num": "12"},
        primary_keys=("id",),
        partition_keys=BY_DAY,
        steps=(
            Write(rows(range(30), "a", days="ab")),
            Write(rows(range(10, 40), "b", days="ba")),
            Write(rows(range(5, 9), "c", days="c")),
            Compact(),
            Write(rows(range(7), "d", days="d")),
        ),
        only_we=frozenset({Write}),
    ),
    Scenario(
        name="across_partitions_partly_in_the_key",
        options={**KEYED, "bucket": "-1"},
        primary_keys=("day", "id"),
        partition_keys=("day", "text"),
        steps=(
            Write(rows(range(6), "a")),
            Write(rows(range(3, 9), "b") + rows(range(2), "a", days="ba")),
            Compact(),
            Write(rows(range(2), "d")),
        ),
        only_we=frozenset({Write}),
    ),
    Scenario(
        name="overwritten", options={**KEYED, "bucket": "2"}, partition_keys=BY_DAY, steps=EMPTIED
    ),
    Scenario(
        name="append_overwritten",
        options={"bucket": "-1"},
        primary_keys=(),
        partition_keys=BY_DAY,
        steps=EMPTIED,
    ),
    _keyed_scenario("vectors", VECTORS, MARKED),
    _keyed_scenario("vectors_64", {**VECTORS, **LONG}, MARKED),
    _keyed_scenario(
        "vectors_beside_data", {**VECTORS, "index-file-in-data-file-dir": "true"}, MARKED
    ),
    _keyed_scenario("changed", {}, CHANGED),
    _keyed_scenario("changed_dynamic", DYNAMIC, CHANGED),
    _keyed_scenario("changed_vectors", VECTORS, SETTLED),
    _append("append_changed", {"bucket": "-1", **ROLLING}, CHANGED),
    _append("append_vectors", {"bucket": "-1", **ROLLING, **VECTORS}, CHANGED),
    _append("append_vectors_64", {"bucket": "-1", **ROLLING, **VECTORS, **LONG}, CHANGED),
    _append("append_buckets_vectors", {**BUCKETS, **ROLLING, **VECTORS}, CHANGED),
    Scenario(
        name="postponed",
        options={**KEYED, "bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
        partition_keys=BY_DAY,
        steps=(
            *CHANGES[:2],
            Compact(),
            *CHANGES[2:],
            Compact(),
            Compact(),
            Write(rows(range(75, 90), "e")),
            Keep(Chore.EXPIRE),
            Compact(),
        ),
    ),
    _keyed_scenario("piecemeal", {}, PIECEMEAL),
    _keyed_scenario("piecemeal_dynamic", DYNAMIC, PIECEMEAL),
    _keyed_scenario("piecemeal_vectors", VECTORS, PIECEMEAL),
    _keyed_scenario("piecemeal_changelog", {"changelog-producer": "lookup"}, PIECEMEAL),
    _keyed_scenario("kept", {}, KEPT),
    _keyed_scenario("retained_changelog", {"changelog-producer": "input"}, KEPT),
    _keyed_scenario("kept_dynamic", DYNAMIC, KEPT),
    _keyed_scenario("kept_vectors", VECTORS, (*KEPT, Compact(is_full=False))),
    Scenario(
        name="kept_partitions", options={**KEYED, "bucket": "1"}, partition_keys=BY_DAY, steps=KEPT
    ),
    _append("kept_append", {"bucket": "-1", **ROLLING}, KEPT),
    *(
        Scenario(
            name=f"sorted_{curve}{kind}",
            primary_keys=(),
            partition_keys=BY_DAY,
            options={"bucket": "-1", **ROLLING, **options},
            steps=_sort_twice(curve),
        )
        for curve in Curve
        for kind, options in (("", {}), ("_vectors", VECTORS))
    ),
    _append("append_compacted", {"bucket": "-1", **ROLLING}),
    _append("append_buckets", {**BUCKETS, **ROLLING}),
    *(_keyed_scenario(f"in_{name}", {"file.format": name}) for name in ("orc", "avro")),
    *(
        _append(f"append_in_{name}", {"bucket": "-1", "file.format": name, **ROLLING})
        for name in ("orc", "avro")
    ),
    _keyed_scenario(
        "format_per_level", {"file.format.per.level": "0:avro,3:orc", "num-levels": "4"}
    ),
    _keyed_scenario(
        "codec_per_level", {"file.compression.per.level": "0:lz4,5:snappy", "num-levels": "6"}
    ),
    *(
        _keyed_scenario(f"stats_{number}", {"metadata.stats-dense-store": dense, **modes})
        for dense in ("true", "false")
        for number, modes in enumerate(
            (
                {"metadata.stats-mode": "none"},
                {"metadata.stats-mode": "counts", "fields.id.stats-mode": "full"},
                {"metadata.stats-mode": "full", "metadata.stats-mode.per.level": "0:none"},
                {"metadata.stats-keep-first-n-columns": "2"},
            ),
            1 if dense == "true" else 5,
        )
    ),
)
