"""Doctests, looked for where there are some; else every module is imported and searched."""

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

_PROMPT = ">>>"


class WhereSomeAre:
    """A plugin beside `--doctest-modules`."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Leave out the doctests of a module that has no prompt."""
        found = yield
        if file_path.suffix != ".py" or _PROMPT in file_path.read_text(encoding="utf-8"):
            return found
        return [collector for collector in found if not isinstance(collector, DoctestModule)]
