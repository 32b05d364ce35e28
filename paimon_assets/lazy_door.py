"""Packages whose names are loaded when they are first used (PEP 562)."""

import ast
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

FRAME_MODULES: dict[str, str] = {}
"""Kind of frame that is made above the engine → the module whose `to_<kind>` makes it of a read."""


_EXTRAS = {"dagster": "dagster", "pyspark": "spark"}
"""Package that others of ours import at once → the extra that installs it."""


def lazy_door(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__all__`, the `__getattr__` and the `__dir__` of a package.

    Its names are those that its `if TYPE_CHECKING:` block imports: type checkers follow these, and
    nothing is written twice.

    Raises:
        ImportError: The package's source is not there.
    """
    homes = _homes(package)
    names = sorted(homes)

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        try:
            return getattr(importlib.import_module(home), name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            extra = _EXTRAS.get(missing)
            if extra is None:
                raise
            way_out = f"pip install 'paimon-assets[{extra}]'"
            message = f"'{name}' needs the package '{missing}': {way_out}"
            raise ModuleNotFoundError(message, name=missing) from error

    return names, load, lambda: names


def _homes(package: str) -> dict[str, str]:
    """Return name → module it is loaded from."""
    spec = importlib.util.find_spec(package)
    source = getattr(spec.loader, "get_source", lambda _: None)(package) if spec else None
    if source is None:
        raise ImportError(f"the source of package '{package}' is not there", name=package)
    return {
        alias.asname or alias.name: str(statement.module)
        for block in ast.parse(source).body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
