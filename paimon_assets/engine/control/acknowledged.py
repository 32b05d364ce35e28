"""Commits that were acknowledged, but could not be read back: they count as done."""

from collections.abc import Iterator
from contextlib import contextmanager

from paimon_assets.engine.errors import CommitUnknownError, NotFoundError, PaimonError

DONE = "done-but-unread"
"""Kind of the `CommitUnknownError` of what is surely done."""


@contextmanager
def after(deed: str, table: str) -> Iterator[None]:
    """Let errors of the block say that something was done before it."""
    try:
        yield
    except (NotFoundError, CommitUnknownError):
        raise
    except PaimonError as error:
        raise CommitUnknownError(
            f"Table '{table}' was {deed}, and then it could not be read: {error.message} Look at it"
            " before this is tried again.",
            kind=DONE,
            details={"table": table},
        ) from error
