import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.errors import CommitConflictError, InvalidInputError, StorageError
from paimon_assets.spark.failure import WorkerError, encoded_errors, error_inside


@given(st.text(max_size=200), st.sampled_from([InvalidInputError, StorageError]))
def test_error_is_found_in_surrounding_text(message, kind_of_error):
    error = kind_of_error(message, kind="some-kind", column="a")
    text = f"Traceback …\n  File x\nWorkerError: {WorkerError(error)}\n\n\tat org.apache.spark"
    found = error_inside(RuntimeError(text))
    assert type(found) is kind_of_error
    assert (found.message, found.kind, found.details) == (message, "some-kind", {"column": "a"})


def test_other_failures_hold_no_error():
    assert error_inside(RuntimeError("Job aborted")) is None


def test_truncated_error_does_not_hide_complete_one():
    whole = str(WorkerError(CommitConflictError("twice")))
    cut = whole[: whole.index(":") + 9] + "]"
    assert isinstance(error_inside(RuntimeError(cut + whole)), CommitConflictError)


def test_only_our_errors_are_wrapped():
    with pytest.raises(WorkerError), encoded_errors():
        raise InvalidInputError("bad")
    with pytest.raises(ZeroDivisionError), encoded_errors():
        raise ZeroDivisionError
