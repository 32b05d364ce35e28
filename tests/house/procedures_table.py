"""The table of procedures in `docs/sql/sql.md`, made from the operations by `make options`."""

import re
from pathlib import Path

from paimon_assets.sql.procedures import PROCEDURES, parameters_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql/sql.md"
COMMAND = "make options"
_HEAD = "| procedure | parameters, `[…]` may be left out | |\n|---|---|---|\n"


def table() -> str:
    """Return a line for each procedure; its last cell is the first line of the docstring."""
    lines = []
    for name, operation in PROCEDURES.items():
        shown = [
            one.name if one.default is one.empty else f"[{one.name}]"
            for one in parameters_of(operation)
        ]
        help_line = (operation.__doc__ or "").partition("\n")[0]
        lines.append(f"| `{name}` | `{', '.join(shown)}` | {help_line} |\n")
    return _HEAD + "".join(lines)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    made = re.sub(re.escape(_HEAD) + r"(\|.*\n)*", lambda _: table(), text)
    PAGE.write_text(made, encoding="utf-8")
