"""Compaction changes files, never rows: every table is compared with a twin that never compacts."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets import InvalidInputError, Schema
from paimon_assets.engine.spec.evolution.schema_change import AddColumn, RenameColumn
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.types.data_types import string
from paimon_assets.engine.table.upkeep.compaction import bucket_numbers
from tests.testkit import compacting
from tests.testkit.errors import refused
from tests.testkit.tables import EXECUTOR, write

pytestmark = pytest.mark.slow

# If a late record may be older than a delete, rows depend on when a compaction drops the delete,
# in Java as here: those engines get no deletes.
ENGINES = {
    "deduplicate": ({"rowkind.field": "kind"}, 0.2),
    "deduplicate by sequence": ({"rowkind.field": "kind", "sequence.field": "seq"}, 0.0),
    "deduplicate by falling sequence": (
        {"sequence.field": "seq", "sequence.field.sort-order": "descending"},
        0.0,
    ),
    "padded sequence numbers": (
        {"sequence.field": "seq", "sequence.auto-padding": "second-to-micro"},
        0.0,
    ),
    "partial-update": ({"merge-engine": "partial-update"}, 0.0),
    "sequence groups": (
        {
            "merge-engine": "partial-update",
            "fields.seq.sequence-group": "n,kind",
            "fields.n.aggregate-function": "sum",
        },
        0.0,
    ),
    "aggregation": (
        {
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "fields.t.aggregate-function": "max",
            "fields.seq.aggregate-function": "min",
        },
        0.0,
    ),
    "sums that retract": (
        {
            "merge-engine": "aggregation",
            "rowkind.field": "kind",
            "fields.n.aggregate-function": "sum",
            "fields.t.aggregate-function": "last_value",
            "fields.seq.aggregate-function": "sum",
            "fields.kind.aggregate-function": "last_value",
        },
        0.0,
    ),
}
SHAPES: tuple[dict[str, str], ...] = (
    {},
    {"num-sorted-run.compaction-trigger": "2", "num-levels": "4"},
    {
        "num-sorted-run.compaction-trigger": "3",
        "compaction.max-size-amplification-percent": "100000",
        "target-file-size": "8 kb",
    },
    {"compaction.force-up-level-0": "true", "target-file-size": "6 kb"},
)
LOOKUPS = {
    "none": {},
    "lookup": {"changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
    "forced": {"force-lookup": "true"},
}


def work_on(catalog, options, deletes, seed, *, steps=5):
    """Write, and compact some of the time; the rows must be those of the twin."""
    rng = np.random.default_rng(seed)
    table = compacting.create(catalog, "compacted", options)
    plain = {k: v for k, v in options.items() if not k.startswith(("deletion-vectors", "force-l"))}
    twin = compacting.create(catalog, "twin", {**plain, "changelog-producer": "none"})
    seen = set()
    for step in range(steps):
        rows = compacting.some_rows(rng, 900 if step == 0 else 60, 700, deletes=deletes)
        write(table, rows)
        write(twin, rows)
        if rng.random() < 0.75 or step == 0:
            compacting.compact(table, "full" if step == 0 else "minor")
            seen.update(compacting.levels_of(table))
        assert compacting.rows_of(table) == compacting.rows_of(twin)
    compacting.compact(table, "full")
    assert compacting.rows_of(table) == compacting.rows_of(twin)
    assert len(set(compacting.levels_of(table))) == 1
    return seen


@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize("engine", ENGINES)
def test_compaction_keeps_rows(catalog, engine, lookup):
    options, deletes = ENGINES[engine]
    seed = sorted(ENGINES).index(engine) * 10 + sorted(LOOKUPS).index(lookup)
    shape = SHAPES[seed % len(SHAPES)]
    assert max(work_on(catalog, {**options, **LOOKUPS[lookup], **shape}, deletes, seed)) > 0


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_changelog_replays_to_table(catalog, engine, producer):
    options, deletes = ENGINES[engine]
    deduplicates = "true" if len(engine + producer) % 2 else "false"
    table = compacting.create(
        catalog,
        "logged",
        {
            **options,
            "changelog-producer": producer,
            "changelog-producer.row-deduplicate": deduplicates,
        },
    )
    rng = np.random.default_rng(7)
    state = {}
    for step in range(5):
        write(table, compacting.some_rows(rng, 3000 if step == 0 else 60, 2500, deletes=deletes))
        full = producer == "full-compaction" or step == 0
        outcome = compacting.compact(table, "full" if full else "minor")
        changes = compacting.changelog_of(table, outcome.snapshot)
        assert sum(bucket.changelog_rows for bucket in outcome.buckets) == len(changes)
        compacting.replay(state, changes)
        found = {row["id"]: row for row in compacting.rows_of(table)}
        if "rowkind.field" in options:
            assert state.keys() == found.keys()
        assert state == found
        if deduplicates == "true":
            olds = [change for change in changes if change["_kind"] == "-U"]
            news = [change for change in changes if change["_kind"] == "+U"]
            for old, new in zip(olds, news, strict=True):
                assert {**old, "_kind": ""} != {**new, "_kind": ""}
    if producer == "lookup":
        assert max(compacting.levels_of(table)) > min(compacting.levels_of(table))


def test_compaction_keeps_first_row_of_key(catalog):
    options = {"merge-engine": "first-row", "changelog-producer": "lookup", "write-only": "true"}
    table = compacting.create(catalog, "t", options)
    rng = np.random.default_rng(3)
    first, logged = {}, {}
    for step in range(6):
        rows = compacting.some_rows(rng, 500 if step == 0 else 90, 600)
        write(table, rows)
        for row in rows.to_pylist():
            first.setdefault(row["id"], row)
        outcome = compacting.compact(table, "full" if step == 0 else "minor")
        assert {row["id"]: row for row in compacting.rows_of(table)} == first
        changes = compacting.changelog_of(table, outcome.snapshot)
        assert {change["_kind"] for change in changes} <= {"+I"}
        compacting.replay(logged, changes)
        assert logged == first
    assert 0 not in compacting.levels_of(table)


@pytest.mark.parametrize("bitmap64", ["false", "true"])
@pytest.mark.parametrize("engine", ["deduplicate", "deduplicate by sequence", "aggregation"])
def test_vectors_mark_rows_replaced_by_newer_levels(catalog, engine, bitmap64):
    options, deletes = ENGINES[engine]
    vectors = {
        "deletion-vectors.enabled": "true",
        "deletion-vectors.bitmap64": bitmap64,
        "write-only": "true",
    }
    table = compacting.create(catalog, "t", {**options, **vectors})
    twin = compacting.create(catalog, "twin", options)
    rng = np.random.default_rng(11)
    most = 0
    for step in range(6):
        rows = compacting.some_rows(rng, 900 if step == 0 else 40, 800, deletes=deletes)
        write(table, rows)
        write(twin, rows)
        compacting.compact(table, "full" if step == 0 else "minor")
        assert compacting.rows_of(table) == compacting.rows_of(twin)
        indexes = compacting.index_files_of(table)
        assert len(indexes) <= 1
        marked = sum(v.cardinality for index in indexes for v in index.deletion_vectors)
        physical = sum(entry.file.row_count for entry in table.state.live_files())
        assert physical - marked == len(compacting.rows_of(table))
        most = max(most, marked)
    assert most > 20
    compacting.compact(table, "full")
    assert compacting.index_files_of(table) == []
    assert compacting.rows_of(table) == compacting.rows_of(twin)


def test_top_level_is_rewritten_where_rows_of_it_are_marked(catalog):
    options = {"deletion-vectors.enabled": "true", "write-only": "true", "rowkind.field": "kind"}
    table = compacting.create(catalog, "t", options)
    rows = compacting.some_rows(np.random.default_rng(0), 500, 10_000)
    write(table, rows)
    compacting.compact(table, "full")
    gone = rows.slice(0, 20).set_column(4, "kind", pa.array(["-D"] * 20))
    write(table, gone)
    compacting.compact(table, "minor")
    assert set(compacting.levels_of(table)) == {5}
    assert len(compacting.index_files_of(table)) == 1
    before = compacting.rows_of(table)
    outcome = compacting.compact(table, "full")
    assert outcome.rows_before - outcome.rows_after == len({r["id"] for r in gone.to_pylist()})
    assert compacting.rows_of(table) == before
    assert compacting.index_files_of(table) == []


@pytest.mark.parametrize("bucketed", [False, True])
def test_small_append_files_become_large_ones(catalog, bucketed):
    options = {"bucket": "1", "bucket-key": "id"} if bucketed else {}
    table = compacting.create(catalog, "t", options, keyed=False)
    rng = np.random.default_rng(0)
    written = []
    for step in range(6):
        rows = compacting.some_rows(rng, 50, 1000)
        write(table, rows)
        written += rows.to_pylist()
        if step == 3:
            assert compacting.compact(table).snapshot is None
    outcome = compacting.compact(table)
    assert (outcome.files_before, outcome.files_after) == (6, 1)
    assert outcome.rows_before == outcome.rows_after == 300
    assert table.latest_snapshot().commit_kind is CommitKind.COMPACT
    assert table.latest_snapshot().total_record_count == 300
    assert table.to_arrow().to_pylist() == written
    file = table.state.live_files()[0].file
    assert (file.min_sequence_number, file.file_source) == (0, 1)
    assert compacting.compact(table).snapshot is None


@pytest.mark.parametrize("bucketed", [False, True])
def test_compaction_drops_deleted_append_rows_and_vectors(catalog, bucketed):
    options = {"bucket": "1", "bucket-key": "id"} if bucketed else {}
    table = compacting.create(
        catalog, "t", {**options, "deletion-vectors.enabled": "true"}, keyed=False
    )
    for number in range(4):
        write(table, compacting.some_rows(np.random.default_rng(number), 50, 1000))
    files = [entry.file for entry in table.state.live_files()]
    deleted = {files[0].file_name: range(20), files[1].file_name: [0], files[3].file_name: [49]}
    compacting.delete_rows(table, deleted)
    before = table.to_arrow()
    assert before.num_rows == 200 - 22
    (unit,) = table.new_compaction_builder().plan().units
    assert unit.reason == "deleted-rows"
    outcome = compacting.compact(table)
    assert outcome.rows_before - outcome.rows_after == sum(
        len(deleted.get(file.file_name, ())) for file in files if file in unit.files
    )
    assert table.to_arrow().num_rows == before.num_rows
    if bucketed:
        assert table.to_arrow().equals(before)
    left = {
        v.data_file_name
        for index in compacting.index_files_of(table)
        for v in index.deletion_vectors
    }
    assert left == deleted.keys() - {file.file_name for file in unit.files}
    compacting.compact(table, "full")
    assert compacting.index_files_of(table) == []
    assert table.to_arrow().num_rows == before.num_rows


def test_foreign_files_and_full_files_are_unchanged(catalog):
    table = compacting.create(catalog, "t", {"target-file-size": "4 kb"}, keyed=False)
    write(table, compacting.some_rows(np.random.default_rng(0), 400, 1000))
    for number in range(6):
        write(table, compacting.some_rows(np.random.default_rng(number), 5, 1000))
    foreign = min(table.state.live_files(), key=lambda entry: entry.file.file_size).file
    path = f"{table.path}/bucket-0/{foreign.file_name}"
    compacting.replace_file(table, foreign, foreign._replace(external_path=path))
    large = {
        entry.file.file_name for entry in table.state.live_files() if entry.file.file_size > 2900
    }
    assert large
    before = compacting.rows_of(table)
    compacting.compact(table, "full")
    assert compacting.rows_of(table) == before
    left = {entry.file.file_name for entry in table.state.live_files()}
    assert left >= large | {foreign.file_name}


def test_full_compaction_takes_two_small_append_files(catalog):
    table = compacting.create(catalog, "t", keyed=False)
    for _ in range(2):
        write(table, compacting.some_rows(np.random.default_rng(0), 5, 10))
    assert compacting.compact(table).snapshot is None
    assert compacting.compact(table, "full").files_after == 1


def test_partitions_are_chosen_by_filter_and_by_age(catalog):
    columns = {"id": "BIGINT", "p": "STRING"}
    table = compacting.create(catalog, "t", columns=columns, partition_keys=("p",))
    for number in range(6):
        write(table, pa.table({"id": [number] * 2, "p": ["a", "b"]}))
    builder = table.new_compaction_builder()
    chosen = builder.with_filter("p = 'a'").plan().units
    assert [table.state.partition_text(unit.partition) for unit in chosen] == [{"p": "a"}]
    assert builder.with_partition_idle_time(dt.timedelta(hours=1)).plan().units == ()
    assert len(builder.with_partition_idle_time(dt.timedelta(0)).plan().units) == 2
    with refused(InvalidInputError, kind="partition-spec"):
        builder.with_filter("id = 1").plan()
    builder.with_filter("p = 'a'").run(EXECUTOR)
    assert sorted(compacting.levels_of(table)) == [0] * 6 + [5]


def test_plan_shows_work_of_run(catalog):
    table = compacting.create(catalog, "t")
    for step in range(5):
        write(table, compacting.some_rows(np.random.default_rng(step), 200, 1000))
    (unit,) = table.new_compaction_builder().plan().units
    assert (unit.reason, unit.runs_before, unit.runs_after) == ("size-amplification", 5, 1)
    assert (len(unit.files), unit.expected_files, unit.upgrades) == (5, 1, 0)
    seen = []
    outcome = compacting.compact(table, on_progress=seen.append)
    assert (outcome.files_before, outcome.bytes_before) == (5, unit.file_bytes)
    assert outcome.rows_before == unit.row_count
    assert outcome.buckets[0].rows_after == outcome.rows_after == len(compacting.rows_of(table))
    assert [(p.tasks_done, p.tasks, p.seconds_left) for p in seen] == [(1, 1, 0.0)]


def test_sequence_numbers_of_winners_are_kept(catalog):
    table = compacting.create(catalog, "t")
    rows = {"id": [1, 2], "n": [1, 1], "t": ["a", "b"], "seq": [1, 1], "kind": ["+I", "+I"]}
    for _ in range(5):
        write(table, pa.table(rows))
    compacting.compact(table)
    (file,) = (entry.file for entry in table.state.live_files())
    assert (file.min_sequence_number, file.max_sequence_number) == (8, 9)
    write(table, compacting.some_rows(np.random.default_rng(0), 1, 1))
    assert max(e.file.max_sequence_number for e in table.state.live_files()) == 10


def test_deletes_are_dropped_only_from_top_level(catalog):
    table = compacting.create(catalog, "t", {"rowkind.field": "kind"})
    rng = np.random.default_rng(0)
    write(table, compacting.some_rows(rng, 2000, 5000))
    compacting.compact(table, "full")
    for _ in range(5):
        write(table, compacting.some_rows(rng, 20, 5000, deletes=0.5))
    compacting.compact(table)
    middle = [entry.file for entry in table.state.live_files() if 0 < entry.file.level < 5]
    assert sum(file.delete_row_count for file in middle) > 0
    compacting.compact(table, "full")
    assert all(entry.file.delete_row_count == 0 for entry in table.state.live_files())


def test_files_of_older_schemas_are_rewritten_to_newest(catalog):
    table = compacting.create(catalog, "t")
    rng = np.random.default_rng(0)
    for _ in range(2):
        write(table, compacting.some_rows(rng, 50, 200))
    table = table.alter(
        [
            AddColumn(field_names=("extra",), data_type=string()),
            RenameColumn(field_names=("t",), new_name="u"),
        ]
    )
    rows = compacting.some_rows(rng, 50, 200).rename_columns(["id", "n", "u", "seq", "kind"])
    write(table, rows.append_column("extra", pa.array(["x"] * 50)))
    before = compacting.rows_of(table)
    compacting.compact(table, "full")
    assert compacting.rows_of(table) == before
    assert {entry.file.schema_id for entry in table.state.live_files()} == {table.schema.id}


def test_repeated_compaction_commits_once(catalog):
    table = compacting.create(catalog, "t")
    for step in range(5):
        write(table, compacting.some_rows(np.random.default_rng(step), 20, 100))
    builder = table.new_compaction_builder().with_commit_user("me").with_commit_identifier(4)
    first = builder.with_properties({"why": "test"}).run(EXECUTOR)
    write(table, compacting.some_rows(np.random.default_rng(9), 20, 100))
    again = builder.with_strategy("full").run(EXECUTOR)
    assert again.was_already_committed
    assert again.snapshot.id == first.snapshot.id
    assert first.snapshot.properties["why"] == "test"


def test_nothing_to_do_makes_no_snapshot(catalog):
    table = compacting.create(catalog, "t")
    assert compacting.compact(table, "full").snapshot is None
    write(table, compacting.some_rows(np.random.default_rng(0), 5, 5))
    assert compacting.compact(table).snapshot is None
    assert compacting.compact(table, "full").snapshot.commit_kind is CommitKind.COMPACT
    assert compacting.compact(table, "full").snapshot is None


@pytest.mark.parametrize("keyed", [True, False])
def test_every_file_can_be_rewritten(catalog, keyed):
    table = compacting.create(catalog, "t", {"file.format": "avro"}, keyed=keyed)
    for step in range(3):
        write(table, compacting.some_rows(np.random.default_rng(step), 50, 90))
    compacting.compact(table, "full")
    before = compacting.rows_of(table)
    assert compacting.compact(table, "full").snapshot is None
    other = table.copy({"file.format": "orc", "compaction.force-rewrite-all-files": "true"})
    assert [unit.reason for unit in full_plan(other).units] == ["rewrite"]
    compacting.compact(other, "full")
    assert {entry.file.file_format for entry in table.state.live_files()} == {"orc"}
    assert compacting.rows_of(table) == before


def full_plan(table):
    return table.new_compaction_builder().with_strategy("full").plan()


def test_only_buckets_that_are_named_are_compacted(catalog):
    table = catalog.create_table(
        "db.many", Schema.of({"id": "BIGINT"}, primary_keys=["id"], options={"bucket": "4"})
    )
    for _ in range(3):
        table.upsert(pa.table({"id": list(range(40))}))
    builder = table.new_compaction_builder().with_strategy("full")
    before = compacting.rows_of(table)
    outcome = builder.with_buckets("0-1, 3").run()
    assert sorted(bucket.bucket for bucket in outcome.buckets) == [0, 1, 3]
    files = {entry.bucket: 0 for entry in table.state.live_files()}
    for entry in table.state.live_files():
        files[entry.bucket] += 1
    assert files == {0: 1, 1: 1, 2: 3, 3: 1}
    assert [unit.task.split.bucket for unit in builder.plan().units] == [2]
    assert not builder.with_buckets([9]).plan().units
    assert compacting.rows_of(table) == before


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "0-9999999999", "1,,2"])
def test_text_that_names_no_buckets_is_refused(text):
    with pytest.raises(InvalidInputError, match="names no buckets"):
        bucket_numbers(text)


@pytest.mark.parametrize("strategy", ["values-time", "update-time"])
def test_partitions_about_to_expire_are_left_out_if_asked(catalog, strategy):
    options = {
        "bucket": "1",
        "partition.expiration-time": "30 d",
        "partition.expiration-strategy": strategy,
    }
    table = compacting.create(
        catalog,
        "days",
        options,
        partition_keys=["dt"],
        columns={"dt": "STRING", **compacting.COLUMNS},
    )
    young = dt.datetime.now(dt.UTC).date().isoformat()
    for _ in range(3):
        rows = compacting.some_rows(np.random.default_rng(0), 10, 5)
        for day in ("2001-01-01", young):
            write(table, rows.append_column("dt", pa.array([day] * rows.num_rows)))

    def partitions_to_compact(**more):
        plan = table.copy(more).new_compaction_builder().with_strategy("full").plan()
        return sorted(unit.task.split.partition for unit in plan.units)

    both, skipping = (
        partitions_to_compact(),
        partitions_to_compact(**{"compaction.skip-expired-partitions": "true"}),
    )
    # By update-time both partitions are new.
    assert (len(both), len(skipping)) == (2, 1 if strategy == "values-time" else 2)
