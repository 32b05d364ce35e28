"""docs/errors.md lists the kinds of errors that the code raises."""

from tests.house.errors_page import CLASSES, COMMAND, PAGE, page


def test_page_lists_all_raised_errors() -> None:
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert written == page(), f"docs/errors.md is not what the code raises; run: {COMMAND}"
    assert [name for name in CLASSES if f"| `{name}` |" not in written] == []
