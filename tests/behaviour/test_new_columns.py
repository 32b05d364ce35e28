"""Columns that rows have and the table lacks, and the other way round, on every executor."""

import pyarrow as pa
import pytest

from paimon_assets.engine.spec.evolution.schema_change import UpdateColumnDefaultValue
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog


@pytest.mark.parametrize("keys", [(), ("id",)], ids=["append", "keyed"])
def test_rows_bring_new_columns_and_defaults_fill_those_they_lack(runner, tmp_path, keys):
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("db")
    options = {"bucket": "2", "bucket-key": "id", "write.merge-schema": "true"}
    columns = {"id": "BIGINT", "n": "INT", "kind": "STRING"}
    schema = Schema.of(columns, primary_keys=keys, options=options)
    table = catalog.create_table("db.t", schema)
    default = UpdateColumnDefaultValue(field_names=("kind",), new_default_value="plain")
    table = table.alter([default])
    rows = pa.table({"id": [1, 2], "kind": [None, "own"], "more": [0.5, 1.5]})
    table.new_write_builder().write(runner.as_rows(rows), runner.executor)
    found = table.refresh().new_read_builder().to_arrow(runner.executor).sort_by("id")
    assert found.to_pylist() == [
        {"id": 1, "n": None, "kind": "plain", "more": 0.5},
        {"id": 2, "n": None, "kind": "own", "more": 1.5},
    ]
