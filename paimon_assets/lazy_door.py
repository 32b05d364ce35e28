"""Packages whose names are loaded when they are first used (PEP 562)."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

_EXTRAS = {"dagster": "dagster", "pyspark": "spark"}
"""Package that others of ours import at once → the extra that installs it."""


def lazy_door(
    package: str, homes: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__all__`, the `__getattr__` and the `__dir__` of a package.

    Args:
        package: Its name.
        homes: Module below `paimon_assets` → the public names that are loaded from it. Type
            checkers follow the same imports in an `if TYPE_CHECKING:` block.
    """
    modules = {name: home for home, names in homes.items() for name in names.split()}
    names = sorted(modules)

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        try:
            return getattr(importlib.import_module(f"paimon_assets.{modules[name]}"), name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            extra = _EXTRAS.get(missing)
            if extra is None:
                raise
            way_out = f"pip install 'paimon-assets[{extra}]'"
            message = f"'{name}' needs the package '{missing}': {way_out}"
            raise ModuleNotFoundError(message, name=missing) from error

    return names, load, lambda: names
