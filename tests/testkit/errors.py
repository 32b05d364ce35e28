"""Errors that a test expects, with their kind."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from paimon_assets.engine.errors import PaimonError


@contextmanager
def refused(error: type[PaimonError], match: str | None = None, *, kind: str) -> Iterator[None]:
    """Expect an error of a kind, and of a message."""
    with pytest.raises(error, match=match) as caught:
        yield
    assert caught.value.kind == kind
