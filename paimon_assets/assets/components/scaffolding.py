"""What all components share: the example that `dg scaffold defs` writes, and texts."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

OF_THE_RESOURCE = "Key of the catalog's resource; PaimonCatalogComponent makes one called paimon."
"""The description of `resource_key`, where a component takes one."""


def example(
    attributes: Mapping[str, Any], files: Mapping[str, str] | None = None
) -> type[dg.Scaffolder[Any]]:
    """Return a scaffolder of one example.

    Files beside the YAML are given by name.
    """

    class Example(dg.Scaffolder[Any]):
        """Writes the example."""

        def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
            """Write the files."""
            for name, text in (files or {}).items():
                (request.target_path / name).write_text(text, encoding="utf-8")
            dg.scaffold_component(request, attributes)

    return Example
