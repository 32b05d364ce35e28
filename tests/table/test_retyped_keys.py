"""Keys that had another type: read beside a dict, refused to writers, and rewritten."""

from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, InvalidInputError, Schema, UnsupportedFeatureError
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.spec.predicate.predicate import CompareOp, Comparison
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.retyped_keys import retype, write_on
from tests.testkit.tables import new_table

EMBEDDED = EmbeddedExecutor(threads=1)

CHANGES = {
    "INT->BIGINT": ("INT", "BIGINT", int, int),
    "INT->STRING": ("INT", "STRING", int, str),
    "STRING->INT": ("STRING", "INT", str, int),
    "BIGINT->DECIMAL(12, 0)": ("BIGINT", "DECIMAL(12, 0)", int, Decimal),
    "STRING->BIGINT": ("STRING", "BIGINT", str, int),
}
"""(type before, type after, an integer as each)."""


def random_of(seed):
    return Random(seed)  # noqa: S311 - test data


def rows(key_type, to_key, numbers, values, *, kinds=None, part=None):
    count = len(numbers)
    keys = pa.array([to_key(n) for n in numbers], to_arrow_type(parse_type(key_type)))
    columns = {"k": keys, "v": pa.array(values, pa.int32())}
    columns["op"] = pa.array(kinds or ["+I"] * count, pa.string())
    columns["p"] = pa.array(part or [0] * count, pa.int32())
    return pa.table(columns)


def table_of(catalog, key_type, *, bucket="3", partitioned=False, **options):
    return new_table(
        catalog,
        {"k": key_type, "v": "INT", "op": "STRING", "p": "INT"},
        primary_keys=["p", "k"] if partitioned else ["k"],
        partition_keys=["p"] if partitioned else [],
        options={"bucket": bucket, "rowkind.field": "op", **options},
    )


def content(table, predicate=None):
    builder = table.new_read_builder()
    if predicate is not None:
        builder = builder.with_filter(predicate)
    result = builder.to_arrow()
    found = {(p, k): v for p, k, v in zip(*(result[n].to_pylist() for n in "pkv"), strict=True)}
    assert len(found) == result.num_rows
    return found


def batch(chance, model, key_type, to_key, to_new_key, *, partitioned):
    """Draw rows, and let the model take them."""
    numbers = chance.sample(range(-60, 60), 50)
    values = [chance.randrange(8) for _ in numbers]
    kinds = [chance.choice(["+I", "+I", "+I", "-D"]) for _ in numbers]
    parts = [chance.randrange(2) if partitioned else 0 for _ in numbers]
    for number, value, kind, part in zip(numbers, values, kinds, parts, strict=True):
        model.pop((part, to_new_key(number)), None)
        if kind == "+I":
            model[part, to_new_key(number)] = value
    return rows(key_type, to_key, numbers, values, kinds=kinds, part=parts)


def mixed_table(catalog, change, chance, *, partitioned=False, **options):
    """Return a table with files of both key types, and the model of its rows."""
    before, after, old_key, new_key = CHANGES[change]
    table, model = table_of(catalog, before, partitioned=partitioned, **options), {}
    for _ in range(3):
        drawn = batch(chance, model, before, old_key, new_key, partitioned=partitioned)
        table.new_write_builder().write(drawn)
    retype(table, "k", f"{after} NOT NULL")
    table = catalog.get_table("db.t")
    for _ in range(3):
        write_on(table, batch(chance, model, after, new_key, new_key, partitioned=partitioned))
    return table, model


@pytest.mark.parametrize(("bucket", "partitioned"), [("1", True), ("3", False), ("-1", True)])
@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_both_key_types_equal_dictionary(new_catalog, change, bucket, partitioned):
    chance = random_of(f"{change}{bucket}")
    table, model = mixed_table(new_catalog, change, chance, bucket=bucket, partitioned=partitioned)
    assert content(table) == model
    small = table.copy({"read.batch-memory": "1 kb", "read.batch-size": "7"})
    assert content(small) == model
    for value in range(3):
        found = content(table, Comparison("v", CompareOp.EQ, value))
        assert found == {key: held for key, held in model.items() if held == value}
    for _, key in list(model)[:3]:
        for op, passes in ((CompareOp.EQ, key.__eq__), (CompareOp.LE, key.__ge__)):
            found = content(table, Comparison("k", op, key))
            assert found == {place: v for place, v in model.items() if passes(place[1])}


ENGINES = {
    "plain": {},
    "by a field": {"sequence.field": "s"},
    "smallest first": {"sequence.field": "s", "sequence.field.sort-order": "descending"},
    "sums": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "last not null": {"merge-engine": "partial-update"},
}


@pytest.mark.parametrize("compacts", [False, True], ids=["written", "compacted before"])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_merges_over_buckets_of_both_types(new_catalog, engine, compacts):
    chance, options = random_of(engine), ENGINES[engine]
    schema = Schema.of(
        {"k": "INT", "v": "INT", "s": "INT"}, primary_keys=["k"], options={"bucket": "4", **options}
    )
    table, model = new_catalog.create_table("db.t", schema), {}
    sign = -1 if "sequence.field.sort-order" in options else 1
    for write in range(6):
        if write == 3:
            if compacts:
                table.compact(full=True)
            retype(table, "k", "BIGINT NOT NULL")
            table = new_catalog.get_table("db.t")
        keys = chance.sample(range(-40, 5), 30)
        values = [chance.choice([None, *range(9)]) for _ in keys]
        order = [chance.randrange(4) for _ in keys]
        for key, value, at in zip(keys, values, order, strict=True):
            old = model.get(key)
            if "merge-engine" in options and old is not None and (value is None or old[0] is None):
                model[key] = (old[0] if value is None else value, at)
            elif engine == "sums" and old is not None:
                model[key] = (old[0] + value, at)
            elif old is None or engine in ("plain", "last not null") or sign * at >= sign * old[1]:
                model[key] = (value, at)
        key_type = pa.int32() if write < 3 else pa.int64()
        columns = [keys, values, order]
        types = [key_type, pa.int32(), pa.int32()]
        arrays = [pa.array(*each) for each in zip(columns, types, strict=True)]
        write_on(table, pa.table(dict(zip("kvs", arrays, strict=True))))
    found = table.to_arrow()
    assert dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True)) == {
        key: value for key, (value, _) in model.items()
    }
    assert found.num_rows == len(model)


@pytest.mark.parametrize("bucket", ["1", "3", "-1"])
@pytest.mark.parametrize("change", ["INT->BIGINT", "INT->STRING", "STRING->INT"])
def test_rescale_completes_key_change(new_catalog, change, bucket):
    chance = random_of(bucket)
    table, model = mixed_table(new_catalog, change, chance, bucket=bucket, partitioned=True)
    after, new_key = CHANGES[change][1], CHANGES[change][3]
    more = rows(after, new_key, [1, -7], [1, 2])
    with pytest.raises(UnsupportedFeatureError, match=r"Cannot write .*Table\.rescale"):
        table.new_write_builder().write(more)
    with pytest.raises(UnsupportedFeatureError, match=r"Cannot compact .*Table\.rescale"):
        table.compact(full=True)
    assert content(table) == model
    assert table.rescale(EMBEDDED) is not None
    assert content(table) == model
    assert {e.file.schema_id for e in table.state.live_files()} == {table.schema.id}
    if bucket != "-1":
        assert table.rescale(EMBEDDED) is None
    table.new_write_builder().write(more)
    model |= {(0, new_key(1)): 1, (0, new_key(-7)): 2}
    table.compact(full=True)
    assert content(table) == model
    for _, key in list(model)[:5]:
        found = content(table, Comparison("k", CompareOp.EQ, key))
        assert found == {place: v for place, v in model.items() if place[1] == key}


def test_one_partition_is_rewritten_during_appends(new_catalog):
    table, model = mixed_table(new_catalog, "INT->STRING", random_of(3), partitioned=True)
    table.rescale(EMBEDDED, partition={"p": 1})
    assert content(table) == model
    with pytest.raises(UnsupportedFeatureError):
        table.new_write_builder().write(rows("STRING", str, [1], [1]))
    table.rescale(EMBEDDED)
    assert content(table) == model


def test_overwrite_completes_key_change(new_catalog):
    table, _ = mixed_table(new_catalog, "INT->STRING", random_of(3))
    new = rows("STRING", str, [1, 10, 9], [1, 2, 3])
    table.new_write_builder().with_overwrite().write(new)
    assert content(table) == {(0, "1"): 1, (0, "10"): 2, (0, "9"): 3}
    table.new_write_builder().write(rows("STRING", str, [9], [4]))
    assert content(table)[0, "9"] == 4


def test_rows_compacted_by_older_engine_keep_old_buckets(new_catalog):
    """Their file has the new type, and numbers above those of the rows that replace them."""
    twin = table_of(new_catalog, "INT", bucket="1")
    keys = list(range(-20, 0))
    twin.new_write_builder().write(rows("INT", int, keys, [1] * 20))
    retype(twin, "k", "BIGINT NOT NULL")
    twin = new_catalog.get_table("db.t")
    twin.rescale(EMBEDDED)
    (entry,) = twin.state.live_files()
    compacted = Path(twin.path, "bucket-0", entry.file.file_name).read_bytes()
    new_catalog.drop_table("db.t")

    table = table_of(new_catalog, "INT", bucket="3")
    table.new_write_builder().write(rows("INT", int, [100], [100]))
    retype(table, "k", "BIGINT NOT NULL")
    table = new_catalog.get_table("db.t")
    Path(table.path, "bucket-1").mkdir(exist_ok=True)
    Path(table.path, "bucket-1", entry.file.file_name).write_bytes(compacted)
    message = CommitMessage(
        partition=entry.partition,
        bucket=1,
        total_buckets=3,
        data_increment=DataIncrement(new_files=(entry.file,)),
    )
    table.new_write_builder().commit([message])
    write_on(table, rows("BIGINT", int, keys, [9] * 20))
    assert content(table) == {(0, 100): 100, **{(0, key): 9 for key in keys}}


def test_key_unfit_for_new_type_is_named(new_catalog):
    table = table_of(new_catalog, "STRING")
    table.new_write_builder().write(rows("STRING", str, ["1", "abc"], [1, 2]))
    retype(table, "k", "INT NOT NULL")
    table = new_catalog.get_table("db.t")
    for read in (lambda: content(table), lambda: table.rescale(EMBEDDED)):
        with pytest.raises(InvalidInputError) as caught:
            read()
        assert caught.value.kind == "cast"
        for part in ("'k'", "db.t", "'abc'", ".parquet"):
            assert part in caught.value.message


def test_colliding_keys_become_one_row(new_catalog):
    table = table_of(new_catalog, "STRING", bucket="1")
    table.new_write_builder().write(rows("STRING", str, ["1", "01", "2"], [1, 2, 3]))
    retype(table, "k", "INT NOT NULL")
    table = new_catalog.get_table("db.t")
    assert content(table) == {(0, 1): 2, (0, 2): 3}


def test_unknown_row_is_refused(new_catalog):
    table, _ = mixed_table(new_catalog, "INT->STRING", random_of(1))
    with pytest.raises(UnsupportedFeatureError, match="Cannot read splits"):
        table.new_read_builder().plan_from(table.new_read_builder().plan().to_bytes())
    for mode in ("delta", "diff"):
        changes = table.copy({"incremental-between": "2,5", "incremental-between-scan-mode": mode})
        with pytest.raises(UnsupportedFeatureError, match=r"key column 'k' is STRING"):
            changes.to_arrow()
    retype(table, "k", "INT NOT NULL")
    with pytest.raises(UnsupportedFeatureError, match="has a type again that it had before"):
        content(new_catalog.get_table("db.t"))


def test_earlier_state_is_read_unchanged(new_catalog):
    table, model = mixed_table(new_catalog, "INT->STRING", random_of(1))
    table.rescale(EMBEDDED)
    before = content(table.copy({"scan.snapshot-id": "3"}))
    assert all(isinstance(key, int) for _, key in before)
    assert content(table.copy({"scan.snapshot-id": "6"})) == model


def test_deletion_vectors_of_all_buckets_count(new_catalog):
    table = table_of(new_catalog, "INT", **{"deletion-vectors.enabled": "true"})
    for values in ([1, 2, 3, 4], [5, 6, 7, 8]):
        table.new_write_builder().write(rows("INT", int, [-4, -1, 3, 9], values))
        table.compact()
    table.new_write_builder().write(rows("INT", int, [-1, 3], [0, 0], kinds=["-D", "-D"]))
    table.compact()
    assert any(split.deletion_files for split in table.new_read_builder().plan().splits)
    retype(table, "k", "STRING NOT NULL")
    table = new_catalog.get_table("db.t")
    assert content(table) == {(0, "-4"): 5, (0, "9"): 8}
    write_on(table, rows("STRING", str, [-4], [9]))
    with pytest.raises(InvalidInputError, match=r"deletion-vectors\.merge-on-read"):
        table.rescale(EMBEDDED)
    table.copy({"deletion-vectors.merge-on-read": "true"}).rescale(EMBEDDED)
    assert content(table) == {(0, "-4"): 9, (0, "9"): 8}


def test_sums_that_may_hold_foreign_rows_are_refused(new_catalog):
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    table = new_table(
        new_catalog,
        {"k": "INT", "v": "INT"},
        pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([2], pa.int32())}),
        primary_keys=["k"],
        options={"bucket": "1", "changelog-producer": "lookup", **options},
    )
    retype(table, "k", "BIGINT NOT NULL")
    with pytest.raises(UnsupportedFeatureError, match="which rows are whole"):
        new_catalog.get_table("db.t").to_arrow()


@pytest.mark.parametrize("name", ["files", "file_key_ranges"])
def test_system_tables_show_files_of_both_types(new_catalog, name):
    table, _ = mixed_table(new_catalog, "INT->STRING", random_of(1))
    shown = table.system_table(name).to_arrow()
    assert shown.num_rows == len(table.state.live_files())
    assert all(row["min_key"] and row["max_key"] for row in shown.to_pylist())
