"""Keys of every shape, in tables with partitions of every shape and every bucket mode."""

from itertools import combinations
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.errors import InvalidInputError, PaimonError, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import set_option
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.compacting import compact
from tests.testkit.rows import plain_rows
from tests.testkit.tables import new_table, write

COLUMNS = {"k": "INT", "l": "STRING", "p0": "INT", "p1": "STRING", "v": "INT"}
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


@pytest.mark.parametrize("bucket", ["1", "3", "-1", "-2"])
@pytest.mark.parametrize("partitions", PARTITIONS, ids="-".join)
@pytest.mark.parametrize("keys", KEYS, ids="-".join)
def test_key_has_all_its_columns(catalog, keys, partitions, bucket):
    options = {"bucket": bucket, "dynamic-bucket.target-row-num": "3"}
    schema = Schema.of(COLUMNS, primary_keys=keys, partition_keys=partitions, options=options)
    crossing = not set(partitions) <= set(keys)
    if crossing and bucket != "-1":
        with pytest.raises((InvalidInputError, UnsupportedFeatureError)):
            new_table(catalog, schema, *_rows(0))
        return
    table = new_table(catalog, schema)
    newest = {}
    for number in range(WRITES):
        rows = _rows(number)
        write(table, *rows)
        newest |= {tuple(row[name] for name in keys): tuple(row.values()) for row in rows}
        assert plain_rows(table.to_arrow(), COLUMNS) == sorted(newest.values())


def test_key_moving_delete_is_never_ignored(catalog):
    schema = {
        "columns": COLUMNS,
        "primary_keys": ["k"],
        "partition_keys": ["p0"],
        "options": {"bucket": "-1"},
    }
    ignoring = {**schema, "options": {"bucket": "-1", "ignore-delete": "true"}}
    with pytest.raises(InvalidInputError, match="two rows"):
        catalog.create_table("db.t", Schema.of(**ignoring))
    table = new_table(catalog, Schema.of(**schema))
    with pytest.raises(InvalidInputError, match="two rows"):
        table.alter([set_option("ignore-delete", "true")])
    with pytest.raises(UnsupportedFeatureError, match="ignore-delete"):
        write(table.copy({"ignore-delete": "true"}), *_rows(0))
    kept = {**ignoring["options"], "merge-engine": "first-row"}
    catalog.create_table("db.first", Schema.of(**{**schema, "options": kept}))


def test_keys_of_char_in_orc_have_no_blanks_at_their_end(catalog):
    table = new_table(
        catalog,
        {"c": "CHAR(4)", "v": "INT", "n": "ROW<m MAP<CHAR(2), CHAR(2)>>"},
        primary_keys=["c"],
        options={"bucket": "2", "file.format": "orc"},
    )
    for number, text in enumerate(["a", "a ", "b  ", "b"]):
        row = {"c": text, "v": number, "n": {"m": [("x ", text[:2])]}}
        write(table, row)
    found = sorted(table.to_arrow().to_pylist(), key=lambda row: row["v"])
    assert found == [
        {"c": "a", "v": 1, "n": {"m": [("x", "a")]}},
        {"c": "b", "v": 3, "n": {"m": [("x", "b")]}},
    ]


def test_change_to_orc_drops_char_padding(catalog):
    """Rows of other formats keep them; indexes and statistics of ORC files must not."""
    options = {"file-index.bloom-filter.columns": "c", "bucket": "1", "bucket-key": "v"}
    table = new_table(catalog, {"c": "CHAR(5)", "v": "INT"}, options=options)
    for number in range(2):
        write(table, {"c": "ab   ", "v": number})
    table.alter([set_option("file.format", "orc")])
    table = catalog.get_table("db.t")
    compact(table, "full")
    (entry,) = table.state.live_files()
    assert entry.file.file_format == "orc"
    assert table.count("c = 'ab'") == 2


NULLABLE_COLUMNS = {"p": "STRING", "a": "BIGINT", "b": "STRING", "v": "INT"}
VALUES = {"p": [None, "x"], "a": [None, -5, 7], "b": [None, "", "longlonglong1", "longlonglong2"]}
NULLABLE_KEYS = [("a",), ("b",), ("a", "b"), ("b", "a"), ("p", "a"), ("p", "b", "a")]
KINDS = [
    {"bucket": "1"},
    {"bucket": "3", "changelog-producer": "lookup"},
    {"bucket": "-1", "file.format": "orc"},
    {"bucket": "2", "changelog-producer": "full-compaction", "file.format": "avro"},
    {"bucket": "2", "deletion-vectors.enabled": "true"},
]


def _sort_rows(rows):
    return sorted(map(repr, rows))


@pytest.mark.parametrize("keys", NULLABLE_KEYS, ids="-".join)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_equal_dictionary(catalog, keys, kind):
    partitions = [name for name in keys if name == "p"]
    options = {"primary-key.nullable": "true", **kind}
    table = new_table(
        catalog, NULLABLE_COLUMNS, primary_keys=keys, partition_keys=partitions, options=options
    )
    chance = Random(str((keys, kind)))  # noqa: S311 - test data
    newest = {}
    for number in range(6):
        names = (*VALUES, "v")
        rows = [
            dict(zip(names, (*map(chance.choice, VALUES.values()), 10 * number + row), strict=True))
            for row in range(6)
        ]
        table.upsert(pa.Table.from_pylist(rows, schema=to_arrow_schema(table.schema.fields)))
        newest |= {tuple(row[key] for key in keys): row for row in rows}
        if number % 2 or "deletion-vectors.enabled" in kind:
            table.compact(full=number == 3)
        assert _sort_rows(table.to_arrow().to_pylist()) == _sort_rows(newest.values())
        of_null = [row for row in newest.values() if row[keys[-1]] is None]
        found = table.to_arrow(where=f"{keys[-1]} IS NULL").to_pylist()
        assert _sort_rows(found) == _sort_rows(of_null)


def test_nullable_key_option_is_immutable_and_needs_key(catalog):
    options = {"primary-key.nullable": "true"}
    with pytest.raises(InvalidInputError, match="needs a primary key"):
        catalog.create_table("db.t", Schema.of(NULLABLE_COLUMNS, options=options))
    table = new_table(catalog, NULLABLE_COLUMNS, primary_keys="a", options=options)
    table.upsert(
        pa.table(
            {"p": ["x"], "a": [None], "b": ["y"], "v": [1]}, to_arrow_schema(table.schema.fields)
        )
    )
    with pytest.raises(PaimonError, match="cannot change"):
        table.alter([set_option("primary-key.nullable", "false")])


def test_null_key_is_refused_by_default(catalog):
    table = new_table(catalog, NULLABLE_COLUMNS, primary_keys="a")
    with pytest.raises(InvalidInputError, match="null"):
        table.upsert(pa.table({"p": ["x"], "a": [None], "b": ["y"], "v": [1]}))


def test_foreign_nullable_key_without_option_takes_no_null(catalog):
    options = {"primary-key.nullable": "true"}
    table = new_table(catalog, {"a": "INT", "v": "INT"}, primary_keys="a", options=options)
    (file,) = (Path(table.path) / "schema").glob("schema-0")
    file.write_text(file.read_text().replace("primary-key.nullable", "comment.of-others"))
    table = catalog.get_table("db.t")
    assert table.schema.column("a").type.nullable
    with pytest.raises(InvalidInputError, match="a primary-key column"):
        table.upsert(pa.table({"a": [None, 1], "v": [1, 2]}, to_arrow_schema(table.schema.fields)))
