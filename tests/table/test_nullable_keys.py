"""`primary-key.nullable`: null is a value of a key, equal to itself and below all others."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.errors import InvalidInputError, PaimonError
from paimon_assets.engine.spec.evolution.schema_change import set_option
from paimon_assets.engine.spec.schema.schema import Schema

COLUMNS = {"p": "STRING", "a": "BIGINT", "b": "STRING", "v": "INT"}
VALUES = {"p": [None, "x"], "a": [None, -5, 7], "b": [None, "", "longlonglong1", "longlonglong2"]}
KEYS = [("a",), ("b",), ("a", "b"), ("b", "a"), ("p", "a"), ("p", "b", "a")]
KINDS = [
    {"bucket": "1"},
    {"bucket": "3", "changelog-producer": "lookup"},
    {"bucket": "-1", "file.format": "orc"},
    {"bucket": "2", "changelog-producer": "full-compaction", "file.format": "avro"},
    {"bucket": "2", "deletion-vectors.enabled": "true"},
]


def _sorted(rows):
    return sorted(map(repr, rows))


@pytest.mark.parametrize("keys", KEYS, ids="-".join)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_are_those_of_a_dictionary(catalog, keys, kind):
    partitions = [name for name in keys if name == "p"]
    options = {"primary-key.nullable": "true", **kind}
    schema = Schema.of(COLUMNS, primary_keys=keys, partition_keys=partitions, options=options)
    table = catalog.create_table("db.t", schema)
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
        assert _sorted(table.to_arrow().to_pylist()) == _sorted(newest.values())
        of_null = [row for row in newest.values() if row[keys[-1]] is None]
        found = table.to_arrow(where=f"{keys[-1]} IS NULL").to_pylist()
        assert _sorted(found) == _sorted(of_null)


def test_the_option_is_fixed_and_needs_a_key(catalog):
    options = {"primary-key.nullable": "true"}
    with pytest.raises(InvalidInputError, match="needs a primary key"):
        catalog.create_table("db.t", Schema.of(COLUMNS, options=options))
    table = catalog.create_table("db.t", Schema.of(COLUMNS, primary_keys="a", options=options))
    table.upsert(
        pa.table(
            {"p": ["x"], "a": [None], "b": ["y"], "v": [1]}, to_arrow_schema(table.schema.fields)
        )
    )
    with pytest.raises(PaimonError, match="cannot change"):
        table.alter([set_option("primary-key.nullable", "false")])


def test_without_the_option_null_is_refused(catalog):
    table = catalog.create_table("db.t", Schema.of(COLUMNS, primary_keys="a"))
    with pytest.raises(InvalidInputError, match="null"):
        table.upsert(pa.table({"p": ["x"], "a": [None], "b": ["y"], "v": [1]}))


def test_a_key_that_others_declared_nullable_without_the_option_takes_no_null(catalog):
    options = {"primary-key.nullable": "true"}
    schema = Schema.of({"a": "INT", "v": "INT"}, primary_keys="a", options=options)
    table = catalog.create_table("db.t", schema)
    (file,) = (Path(table.path) / "schema").glob("schema-0")
    file.write_text(file.read_text().replace("primary-key.nullable", "comment.of-others"))
    table = catalog.get_table("db.t")
    assert table.schema.column("a").type.nullable
    with pytest.raises(InvalidInputError, match="a primary-key column"):
        table.upsert(pa.table({"a": [None, 1], "v": [1, 2]}, to_arrow_schema(table.schema.fields)))
