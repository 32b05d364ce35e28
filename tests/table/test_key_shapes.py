"""Keys of every shape, in tables with partitions of every shape and every bucket mode."""

from itertools import combinations
from random import Random

import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import set_option
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.compacting import compact
from tests.testkit.rows import plain_rows, rows_to_arrow

COLUMNS = {"k": "INT", "l": "STRING", "p0": "INT", "p1": "STRING", "v": "INT"}
EXECUTOR = EmbeddedExecutor(threads=2)
PARTITIONS = [(), ("p0",), ("p0", "p1")]
KEYS = [
    (*own, *shared)
    for own in [("k",), ("l", "k")]
    for count in range(3)
    for shared in combinations(("p0", "p1"), count)
]
WRITES, ROWS = 4, 12


def _rows(write):
    chance = Random(write)  # noqa: S311 - test data
    return [
        dict(
            zip(
                COLUMNS,
                (chance.randrange(4), chance.choice("xy"), chance.randrange(3),
                 chance.choice("ab"), 100 * write + number),
                strict=True,
            )
        )
        for number in range(ROWS)
    ]  # fmt: skip


def _write(table, rows):
    table.new_write_builder().write(rows_to_arrow(rows, table.schema), EXECUTOR)


@pytest.mark.parametrize("bucket", ["1", "3", "-1", "-2"])
@pytest.mark.parametrize("partitions", PARTITIONS, ids="-".join)
@pytest.mark.parametrize("keys", KEYS, ids="-".join)
def test_a_key_is_all_its_columns(catalog, keys, partitions, bucket):
    options = {"bucket": bucket, "dynamic-bucket.target-row-num": "3"}
    schema = Schema.of(COLUMNS, primary_keys=keys, partition_keys=partitions, options=options)
    crossing = not set(partitions) <= set(keys)
    if crossing and bucket != "-1":
        with pytest.raises((InvalidInputError, UnsupportedFeatureError)):
            _write(catalog.create_table("db.t", schema), _rows(0))
        return
    table = catalog.create_table("db.t", schema)
    newest = {}
    for number in range(WRITES):
        rows = _rows(number)
        _write(table, rows)
        newest |= {tuple(row[name] for name in keys): tuple(row.values()) for row in rows}
        assert plain_rows(table.new_read_builder().to_arrow(), COLUMNS) == sorted(newest.values())


def test_a_delete_that_moves_a_key_is_never_ignored(catalog):
    schema = {
        "columns": COLUMNS,
        "primary_keys": ["k"],
        "partition_keys": ["p0"],
        "options": {"bucket": "-1"},
    }
    ignoring = {**schema, "options": {"bucket": "-1", "ignore-delete": "true"}}
    with pytest.raises(InvalidInputError, match="two rows"):
        catalog.create_table("db.t", Schema.of(**ignoring))
    table = catalog.create_table("db.t", Schema.of(**schema))
    with pytest.raises(InvalidInputError, match="two rows"):
        table.alter([set_option("ignore-delete", "true")])
    with pytest.raises(UnsupportedFeatureError, match="ignore-delete"):
        _write(table.copy({"ignore-delete": "true"}), _rows(0))
    kept = {**ignoring["options"], "merge-engine": "first-row"}
    catalog.create_table("db.first", Schema.of(**{**schema, "options": kept}))


def test_keys_of_char_in_orc_have_no_blanks_at_their_end(catalog):
    schema = Schema.of(
        {"c": "CHAR(4)", "v": "INT", "n": "ROW<m MAP<CHAR(2), CHAR(2)>>"},
        primary_keys=["c"],
        options={"bucket": "2", "file.format": "orc"},
    )
    table = catalog.create_table("db.t", schema)
    for number, text in enumerate(["a", "a ", "b  ", "b"]):
        row = {"c": text, "v": number, "n": {"m": [("x ", text[:2])]}}
        _write(table, [row])
    found = sorted(table.new_read_builder().to_arrow().to_pylist(), key=lambda row: row["v"])
    assert found == [
        {"c": "a", "v": 1, "n": {"m": [("x", "a")]}},
        {"c": "b", "v": 3, "n": {"m": [("x", "b")]}},
    ]


def test_blanks_of_char_do_not_outlive_a_change_to_orc(catalog):
    """Rows of other formats keep them; indexes and statistics of ORC files must not."""
    options = {"file-index.bloom-filter.columns": "c", "bucket": "1", "bucket-key": "v"}
    table = catalog.create_table("db.t", Schema.of({"c": "CHAR(5)", "v": "INT"}, options=options))
    for number in range(2):
        _write(table, [{"c": "ab   ", "v": number}])
    table.alter([set_option("file.format", "orc")])
    table = catalog.get_table("db.t")
    compact(table, "full")
    (entry,) = table.state.live_files()
    assert entry.file.file_format == "orc"
    assert table.new_read_builder().with_filter("c = 'ab'").count() == 2
