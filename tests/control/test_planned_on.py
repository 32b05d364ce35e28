"""A change that holds only if nobody changed its buckets since it was planned."""

import pytest

from paimon_assets.engine.control.commit.planned_on import PlannedOn
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.predicate.predicate import equal
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.rows import rows_to_arrow

SCHEMA = Schema.of({"id": "BIGINT"}, primary_keys=["id"], options={"bucket": "2"})


def test_other_buckets_and_compactions_are_no_conflict(new_catalog):
    table = new_catalog.create_table("db.t", SCHEMA)

    def write(*ids):
        rows = rows_to_arrow([{"id": number} for number in ids], SCHEMA)
        table.new_write_builder().write(rows, EmbeddedExecutor(1))

    def check(planned_on):
        PlannedOn(snapshot_id=planned_on).check(table._store, table.latest_snapshot(), first)

    write(*range(8))
    buckets = {(entry.partition, entry.bucket) for entry in table.state.live_files()}
    first = frozenset(sorted(buckets)[:1])
    table.new_compaction_builder().with_strategy("full").run()
    check(1)
    check(2)
    write(*range(8))
    check(3)
    with pytest.raises(CommitConflictError) as caught:
        check(2)
    assert (caught.value.kind, caught.value.details["snapshot_id"]) == ("bucket-changed", 3)
    with pytest.raises(CommitConflictError, match="rolled back"):
        check(4)


def test_of_appended_files_only_those_that_may_match_conflict(new_catalog):
    table = new_catalog.create_table("db.t", Schema.of({"id": "BIGINT"}))

    def write(*ids):
        rows = rows_to_arrow([{"id": number} for number in ids], table.schema)
        table.new_write_builder().write(rows, EmbeddedExecutor(1))

    def check(planned_on, wanted):
        guard = PlannedOn(snapshot_id=planned_on, predicate=equal("id", wanted))
        guard.check(table._store, table.latest_snapshot(), frozenset())

    write(1, 5)
    write(7, 9)
    check(0, 6)
    check(1, 3)
    with pytest.raises(CommitConflictError) as caught:
        check(1, 8)
    assert (caught.value.kind, caught.value.details["snapshot_id"]) == ("rows-added", 2)
