"""Packages whose names are loaded when they are first used (PEP 562)."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_door(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[list[str], Callable[[str], Any]]:
    """Return the `__all__` and the `__getattr__` of a package.

    Args:
        package: Its name.
        names: Module below the package → the names it has for the public.
    """
    homes = {name: home for home, members in names.items() for name in members}

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(importlib.import_module(f"{package}.{home}"), name)

    return sorted(homes), load
