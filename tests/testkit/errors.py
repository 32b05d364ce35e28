"""Errors that a test expects, with their kind."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from paimon_assets.engine.errors import PaimonError


@contextmanager
def refused(
    error: type[PaimonError], match: str | None = None, *, kind: str
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Expect an error of a kind, and of a message; more of it can be asked after the block."""
    with pytest.raises(error, match=match) as caught:
        yield caught
    assert caught.value.kind == kind
