"""Java Paimon as a fixture: one process on the warehouse that all tests share."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.interop.environment import HOME, ROOT, java_peer
from tests.testkit.oracle import Oracle


@pytest.fixture(scope="session")
def java(java_in: Callable[[str], Oracle]) -> Oracle:
    return java_in("")


@pytest.fixture(scope="session")
def java_in(
    shared_warehouse: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Oracle]]:
    """Java Paimon in a zone: one process for each."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("there is no JDK on the PATH")
    if not HOME.exists():
        pytest.skip("Java Paimon is absent; `make interop-java` fetches it")
    with ExitStack() as running:

        @cache
        def java_in(zone: str) -> Oracle:
            exchange = tmp_path_factory.mktemp("java")
            command = java_peer(shared_warehouse, zone=zone)
            return running.enter_context(Oracle(command, exchange=exchange, working_directory=ROOT))

        yield java_in
