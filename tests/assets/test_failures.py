"""Engine errors at the Dagster boundary: retries, or failures with a reason."""

from typing import Any

import dagster as dg
import pytest

from paimon_assets.assets import PaimonCatalogResource, failures, paimon_asset
from paimon_assets.assets.failures import MAX_RETRIES, dagster_failures
from paimon_assets.engine import errors
from paimon_assets.engine.control.catalog.catalog import Identifier
from tests.testkit.asset_tables import PLANES, failure_text, run

TABLE = Identifier("ods", "orders")
AGAIN = (errors.CommitConflictError, errors.CommitUnknownError, errors.StorageError)


@pytest.mark.parametrize("error_class", AGAIN, ids=lambda cls: cls.__name__)
def test_transient_failures_are_retried(error_class: type[errors.StorageError]) -> None:
    with pytest.raises(dg.RetryRequested) as caught, dagster_failures(TABLE):
        raise error_class("lost")
    retries = (MAX_RETRIES, failures.RETRY_WAIT_SECONDS)
    assert (caught.value.max_retries, caught.value.seconds_to_wait) == retries
    assert isinstance(caught.value.__cause__, error_class)


def test_client_that_waited_its_time_is_not_asked_again_by_itself(
    paimon: PaimonCatalogResource,
) -> None:
    tries = []

    @paimon_asset("ods.orders", PLANES)
    def orders() -> Any:
        tries.append(1)
        raise errors.StorageError("The broker did not answer.", waited_seconds=60)

    assert "did not answer" in failure_text(run(orders, paimon))
    assert len(tries) == 1


@pytest.mark.parametrize(
    "error_class",
    [cls for cls in errors.ERROR_CLASSES.values() if cls not in AGAIN],
    ids=lambda cls: cls.__name__,
)
def test_lasting_failures_fail_at_once(error_class: type[errors.InvalidInputError]) -> None:
    with pytest.raises(dg.Failure) as caught, dagster_failures(TABLE):
        raise error_class("Column 'a' is wrong.", kind="k", column="a", none=None)
    failure = caught.value
    assert failure.description == "Column 'a' is wrong. (table ods.orders)"
    assert failure.allow_retries is False
    assert {name: value.value for name, value in failure.metadata.items()} == {
        "paimon/table": "ods.orders",
        "paimon/error_kind": "k",
        "paimon/column": "a",
    }


def test_table_in_message_is_named_once() -> None:
    with pytest.raises(dg.Failure) as caught, dagster_failures(TABLE):
        raise errors.InvalidInputError("Table ods.orders is wrong.")
    assert caught.value.description == "Table ods.orders is wrong."


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(KeyError), dagster_failures(TABLE):
        raise KeyError("of the function")


@pytest.mark.parametrize("policy", [None, dg.RetryPolicy(max_retries=5)])
def test_own_retry_policy_is_used_and_failure_names_table(
    policy: dg.RetryPolicy | None, paimon: PaimonCatalogResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "RETRY_WAIT_SECONDS", 0)
    tries = []
    options: Any = {} if policy is None else {"retry_policy": policy}

    @paimon_asset("ods.orders", PLANES, **options)
    def orders() -> Any:
        tries.append(1)
        raise errors.StorageError("The storage did not answer.")

    result = run(orders, paimon)
    assert len(tries) == 1 + (MAX_RETRIES if policy is None else 5)
    [event] = [each for each in result.all_events if each.is_step_failure]
    error = event.step_failure_data.error
    assert error is not None
    assert "The storage did not answer. (table ods.orders)" in error.message
