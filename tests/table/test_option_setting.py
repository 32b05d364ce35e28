"""Options are judged where they are set: at create and at alter, before anything is written."""

import logging

import pytest

from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.evolution.schema_change import remove_option, set_option
from paimon_assets.engine.spec.schema.schema import Schema


def declared(**options):
    return Schema.of({"id": "INT"}, options=options)


def test_a_table_with_a_wrong_option_is_not_created(new_catalog):
    with pytest.raises(InvalidInputError, match=r"'file\.format' has the value 'xyz'"):
        new_catalog.create_table("db.t", declared(**{"file.format": "xyz"}))
    with pytest.raises(NotFoundError):
        new_catalog.get_table("db.t")


def test_an_option_is_not_set_to_a_wrong_value(new_catalog):
    table = new_catalog.create_table("db.t", declared())
    for change in ("file.format", "xyz"), ("snapshot.num-retained.max", "5"), ("bucket", "two"):
        with pytest.raises(InvalidInputError, match=change[0]):
            table.alter([set_option(*change)])
    assert new_catalog.get_table("db.t").schema.id == 0


def test_an_option_that_others_rely_on_is_not_removed(new_catalog):
    keeping = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "5"}
    table = new_catalog.create_table("db.t", declared(**keeping))
    with pytest.raises(InvalidInputError, match="= 10 must not be above"):
        table.alter([remove_option("snapshot.num-retained.min")])
    table.alter([remove_option(key) for key in keeping])


def test_a_slip_of_a_key_is_pointed_out_once_and_kept(new_catalog, caplog):
    with caplog.at_level(logging.WARNING):
        table = new_catalog.create_table("db.t", declared(bucke="1", mine="2"))
        table = table.alter([set_option("file-format", "orc")])
    hints = [record.getMessage() for record in caplog.records]
    assert ["'bucke'" in hints[0], "did you mean 'bucket'" in hints[0]] == [True, True]
    assert ["'file-format'" in hints[1], "did you mean 'file.format'" in hints[1]] == [True, True]
    assert len(hints) == 2
    assert table.schema.options == {"bucke": "1", "mine": "2", "file-format": "orc"}


@pytest.mark.parametrize("keys", ["primary_keys", "partition_keys"])
def test_a_key_that_is_no_column_is_refused_where_it_is_declared(keys):
    with pytest.raises(InvalidInputError, match=r"'idd' is not a column of the table; it has id"):
        Schema.of({"id": "INT", "v": "INT"}, **{keys: ["idd"]})
