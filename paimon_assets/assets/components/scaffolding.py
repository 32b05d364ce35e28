"""What `dg scaffold defs` writes: an example that loads as it stands."""

from collections.abc import Mapping
from typing import Any

import dagster as dg


def example(
    attributes: Mapping[str, Any], files: Mapping[str, str] | None = None
) -> type[dg.Scaffolder[Any]]:
    """Return a scaffolder of one example.

    Args:
        attributes: Of the component.
        files: Name of a file beside the YAML → its text.
    """

    class Example(dg.Scaffolder[Any]):
        """Writes the example."""

        def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
            """Write the files."""
            for name, text in (files or {}).items():
                (request.target_path / name).write_text(text, encoding="utf-8")
            dg.scaffold_component(request, attributes)

    return Example
