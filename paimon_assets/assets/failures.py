"""PaimonError → what Dagster does next: try the step again, or stop and ask a person.

This is the Dagster boundary: engine errors are sorted by what the caller does next, and so are
Dagster's.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

import dagster as dg

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    PaimonError,
    StorageError,
)

MAX_RETRIES = 3
RETRY_WAIT_SECONDS = 2

TRY_AGAIN = (CommitConflictError, CommitUnknownError, StorageError)
"""After an unknown outcome the next try looks first, by commit user, so trying again is safe."""


@contextmanager
def dagster_failures(
    table: Identifier, *, wait_seconds: float = RETRY_WAIT_SECONDS
) -> Iterator[None]:
    """Turn engine errors of the block into Dagster's."""
    try:
        yield
    except TRY_AGAIN as error:
        raise dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=wait_seconds) from error
    except PaimonError as error:
        raise failure_of(error, table) from error


def failure_of(error: PaimonError, table: Identifier) -> dg.Failure:
    """Return the failure a person reads: the cause first, then the table, with details beside."""
    named = str(table) in error.message
    details = {f"paimon/{key}": value for key, value in error.details.items() if value is not None}
    return dg.Failure(
        description=error.message if named else f"{error.message} (table {table})",
        metadata={"paimon/table": str(table), "paimon/error_kind": error.kind, **details},
        allow_retries=False,
    )


def refuse_unknown(names: Iterable[str], expected: Iterable[str], owner: str, *, kind: str) -> None:
    """Refuse names that are not known.

    >>> refuse_unknown(["mode"], ["mode", "table"], "paimon_output", kind="output-option")
    """
    known = sorted(expected)
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise InvalidInputError(
                f"{owner} has no '{name}'.{hint} It takes {', '.join(names)}.",
                kind=kind,
                details={"option": name},
            )
