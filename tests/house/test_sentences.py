"""Pages and fragments have sentences of 30 words at most."""

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
LONGEST = 30
GENERATED = {"options.md", "errors.md", "cli.md"}


def _sentences(page: str) -> Iterator[str]:
    text = re.sub(r"```.*?```", "\n\n", page, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\. ))", text):
        if not block.lstrip().startswith(("|", "#", ":::", "!")):
            yield from re.split(r"(?<=[.!?:;])\s+(?=[A-Z0-9`*\[(])", " ".join(block.split()))


def test_sentences_of_pages_are_short() -> None:
    assert [len(each.split()) for each in _sentences("One two.\nThree\n\n- four five")] == [2, 1, 3]
    pages = [path for path in DOCS.rglob("*.md") if path.name not in GENERATED]
    pages += [path for path in DOCS.parent.glob("*.md") if path.name != "CHANGELOG.md"]
    pages += (DOCS.parent / "changes").glob("*.md")
    long = [
        f"{path.name}: {each}"
        for path in pages
        for each in _sentences(path.read_text(encoding="utf-8"))
        if len(each.split()) > LONGEST
    ]
    assert not long, "\n".join(long)
