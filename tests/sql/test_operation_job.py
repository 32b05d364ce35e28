"""Jobs of operations: their forms, reports and failures."""

from pathlib import Path

import dagster as dg
import pytest

from paimon_assets import InvalidInputError, Schema
from paimon_assets.sql import build_operation_job
from paimon_assets.sql.procedures import PROCEDURES, parameters_of
from tests.testkit.errors import refused
from tests.testkit.tables import new_catalog_in, new_table, read, write

PRICES = Schema.of({"id": "BIGINT NOT NULL", "price": "DOUBLE"}, primary_keys="id")


@pytest.fixture
def table(warehouse):
    return new_table(warehouse, PRICES, (1, 1.0), (2, 2.0), name="shop.prices")


def preview(paimon, *rows):
    """Write rows to a preview of the table."""
    branch = paimon.model_copy(update={"branch": "pr"}).catalog()
    write(branch.get_table("shop.prices"), *rows)


def run(paimon, instance, operation, **config):
    """Run the job of an operation; return whether it succeeded, its failure, and its metadata."""
    result = build_operation_job(operation).execute_in_process(
        run_config={"ops": {operation: {"config": config}}},
        resources={"paimon": paimon},
        instance=instance,
        raise_on_error=False,
    )
    if result.success:
        [event] = [e for e in result.all_events if e.is_successful_output]
        return True, "", event.step_output_data.metadata
    [event] = [e for e in result.all_events if e.is_step_failure]
    failure = event.step_failure_data.user_failure_data
    return False, failure.description, failure.metadata


def lines(metadata):
    return [record.data for record in metadata["paimon/result"].records]


def test_every_operation_has_job_with_its_parameters_as_form():
    assert PROCEDURES
    for name, operation in PROCEDURES.items():
        job = build_operation_job(name)
        [op] = job.nodes
        fields = op.definition.config_schema.config_type.fields
        assert list(fields) == [one.name for one in parameters_of(operation)]
        assert op.definition.description
    with refused(InvalidInputError, "Did you mean 'promote'?", kind="operation"):
        build_operation_job("promot")


def test_launchpad_begins_with_dry_run(paimon, instance, table):
    write(table, (3, 3.0))
    suggestion = {"table": "shop.prices", "where": "id = 3"}
    job = build_operation_job("erase", "forget_job", suggestion=suggestion)
    assert job.execute_in_process(resources={"paimon": paimon}, instance=instance).success
    assert len(read(table)) == 3


def test_diff_shows_numbers_and_text_of_comment(paimon, instance, table):
    write(table, (2, 5.0), (3, 3.0))
    succeeded, _, metadata = run(paimon, instance, "diff", table="shop.prices", from_version="1")
    assert succeeded
    assert lines(metadata) == [{"partition": None, "added": 1, "removed": 0, "changed": 1}]
    assert "| price | 1 |" in metadata["paimon/report"].value


def test_promote_makes_main_equal_to_branch_after_dry_run(paimon, instance, table):
    preview(paimon, (2, 5.0))
    for dry_run in (True, False):
        assert read(table.refresh()) == [(1, 1.0), (2, 2.0)]
        succeeded, _, metadata = run(paimon, instance, "promote", branch="pr", dry_run=dry_run)
        [line] = lines(metadata)
        assert (succeeded, line["promoted"], line["rows"]) == (True, not dry_run, 1)
        assert "`main@latest` → `pr@latest`" in metadata["paimon/report"].value
    assert read(table.refresh()) == [(1, 1.0), (2, 5.0)]


def test_refused_promotion_fails_and_discarded_branch_is_gone(paimon, instance, table):
    preview(paimon, (2, 5.0))
    write(table, (3, 3.0))
    succeeded, failure, metadata = run(paimon, instance, "promote", branch="pr")
    assert not succeeded
    assert failure.startswith("shop.prices: main has moved from snapshot 1 to snapshot 2")
    assert [line["promoted"] for line in lines(metadata)] == [False]
    succeeded, _, metadata = run(paimon, instance, "discard", branch="pr", tables=["shop.prices"])
    assert (succeeded, lines(metadata)) == (True, [{"discarded": "shop.prices"}])
    assert run(paimon, instance, "discard", branch="pr")[0]
    assert table.branches.list() == {}


def test_erase_fails_if_rows_may_be_left(paimon, instance, table, warehouse):
    [bucket] = Path(table.path).glob("bucket-*")
    (bucket / "copy.csv").write_text("1,1.0")
    succeeded, failure, metadata = run(
        paimon, instance, "erase", table="shop.prices", where="id = 1"
    )
    assert (succeeded, "copy.csv" in failure) == (False, True)
    assert read(new_catalog_in(warehouse, "shop").get_table("shop.prices")) == [(2, 2.0)]
    assert [line["kind"] for line in lines(metadata)] == ["snapshot", "outside"]
    (bucket / "copy.csv").unlink()
    succeeded, _, metadata = run(paimon, instance, "erase", table="shop.prices", where="id = 2")
    assert (succeeded, "1 stored row in 1 file erased" in metadata["paimon/report"].value) == (
        True,
        True,
    )


def test_bad_input_fails_with_message_of_operation(paimon, instance, table):
    succeeded, failure, _ = run(paimon, instance, "erase", table="shop.prices", where="no = 1")
    assert (succeeded, "no" in failure) == (False, True)
    succeeded, failure, _ = run(paimon, instance, "diff", table="shop.gone", from_version="1")
    assert (succeeded, "shop.gone" in failure) == (False, True)
    with pytest.raises(dg.DagsterInvalidConfigError, match="where"):
        run(paimon, instance, "erase", table="shop.prices")
