"""Count the words that the glossary of CONTRIBUTING forbids, per package.

python -m tests.house.vocabulary            # counts, and the budgets that they would need
python -m tests.house.vocabulary what cdc   # the lines of one family in paths that contain 'cdc'
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.testkit.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("paimon_assets", "resources", "jobs", "tests", "tools")
FAMILIES = {
    "what": re.compile(r"\bwhat\b", re.IGNORECASE),
    "person": re.compile(r"\b(?:nobody|somebody|others|who)\b", re.IGNORECASE),
    "place": re.compile(r"\b(?:lies|stands|goes|comes)\b", re.IGNORECASE),
    "tale": re.compile(r"\b(?:told|said|says|deeds?|moments?|anew|apart)\b", re.IGNORECASE),
}
"""Words in docstrings, comments, messages and names."""
PARTICIPLE = "participle"
"""Functions that are named by one participle alone: no verb, no noun."""
_REGULAR = re.compile(r"_*(?!(?:n?e+d|s[ph]?eed|feed|embed|shared?|bed|led|red|shed)$)[a-z]+ed")
_IRREGULAR = re.compile(
    r"_*(?:told|kept|found|known|made|given|done|left|held|sent|written|taken|shown|drawn|built"
    r"|begun|bound|gone|grown|hidden|lost|met|paid|seen|sold|spent|stood|thrown|won|worn"
    r"|chosen|broken|bought|brought|caught|fallen|forgotten|meant|felt|laid|driven|frozen"
    r"|heard|torn)_*"
)


def package_of(path: Path) -> str:
    """Return the folder that a budget is for."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[: 3 if "engine" in parts[:2] else 2])


def sources() -> Iterator[Path]:
    """Yield the Python files of the project, but for these words' own test."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.stem not in {"vocabulary", "test_vocabulary"}:
                yield path


def words_of(text: str, *, has_messages: bool) -> Iterator[tuple[int, str]]:
    """Yield the docstrings, comments, names and, if asked, messages of a source, with lines."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    docstrings = set()
    for node in ast.walk(syntax_of(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as words) as value):
                docstrings.add(value)
                yield node.lineno, words
            case ast.Constant(value=str() as words) if has_messages and node not in docstrings:
                if " " in words:
                    yield node.lineno, words
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name.replace("_", " ")
            case ast.arg():
                yield node.lineno, node.arg.replace("_", " ")
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id.replace("_", " ")
            case _:
                pass


def participles_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the functions of a source that are named by a participle, with lines."""
    for node in ast.walk(syntax_of(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            _REGULAR.fullmatch(node.name) or _IRREGULAR.fullmatch(node.name)
        ):
            yield node.lineno, node.name


def hits(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield family, line and text of each word of a file that should not be there."""
    text = path.read_text(encoding="utf-8")
    for line, words in words_of(text, has_messages=not path.is_relative_to(ROOT / "tests")):
        for family, pattern in FAMILIES.items():
            for found in pattern.finditer(words):
                yield family, line + words.count("\n", 0, found.start()), words
    for line, name in participles_of(text):
        yield PARTICIPLE, line, name


@cache
def counts() -> dict[str, Counter[str]]:
    """Return the number of words of each family, per package."""
    result: dict[str, Counter[str]] = {}
    for path in sources():
        here = result.setdefault(package_of(path), Counter())
        here.update(family for family, _, _ in hits(path))
    return result


def lines_of(family: str, part: str) -> Iterator[str]:
    """Yield the lines with words of a family, in files whose path contains `part`."""
    for path in sources():
        if part in str(path.relative_to(ROOT)):
            lines = path.read_text(encoding="utf-8").splitlines()
            for name, line, _ in sorted(hits(path)):
                if name == family:
                    yield f"{path.relative_to(ROOT)}:{line}: {lines[line - 1].strip()}"


def budget_lines() -> Iterator[str]:
    """Yield the budgets that the present words need, and the sums."""
    families = [*FAMILIES, PARTICIPLE]
    for package, numbers in counts().items():
        if any(numbers.values()):
            yield f'    "{package}": ({", ".join(str(numbers[name]) for name in families)}),'
    yield ", ".join(f"{name} {sum(each[name] for each in counts().values())}" for name in families)


if __name__ == "__main__":
    _, *given = sys.argv
    report = lines_of(given[0], "".join(given[1:])) if given else budget_lines()
    sys.stdout.writelines(f"{line}\n" for line in report)
