"""`docs/errors.md`, made from the raises of the package by `make options`."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

from paimon_assets.engine import errors
from paimon_assets.engine.errors import PaimonError
from tests.testkit.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"
COMMAND = "make options"
CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, PaimonError)
}
_LONGEST = 160
_HEAD = f"""# Errors

Made from the code by `{COMMAND}`. Everything this package raises on purpose is a `PaimonError`: a
message for people, a stable `kind` for programs, and `details`. Neither holds secrets.

| class | means | the same call again |
|---|---|---|
"""
_AGAIN = {
    "PaimonError": "",
    "InvalidInputError": "fails again",
    "NotFoundError": "fails until it exists",
    "AlreadyExistsError": "fails until it is gone",
    "AccessDeniedError": "fails until it is granted",
    "CommitConflictError": "plans on the newest snapshot, and may succeed",
    "CommitUnknownError": "finds its own commit if there is one, else makes it",
    "FormatError": "fails until the file is repaired",
    "StorageError": "may succeed",
    "UnsupportedFeatureError": "fails again",
}
_KINDS = """
## Kinds

`error.kind` of what is raised; where the message depends on the case, its beginning is here.

| kind | class | message |
|---|---|---|
"""


def page() -> str:
    """Return the text of `docs/errors.md`."""
    classes = "".join(
        f"| `{name}` | {_summary(CLASSES[name])} | {again} |\n" for name, again in _AGAIN.items()
    )
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for kind, name, arguments in errors_made():
        found[kind, name].add(_message(arguments))
    kinds = "".join(
        f"| `{kind}` | {name} | {min(texts, key=lambda text: (not text, len(text), text))} |\n"
        for (kind, name), texts in sorted(found.items())
    )
    return f"{_HEAD}{classes}{_KINDS}{kinds}"


def errors_made() -> Iterator[tuple[str, str, list[ast.expr]]]:
    """Yield (kind, class, arguments) of the calls in the package that make an error of a kind."""
    for path in sorted((ROOT / "paimon_assets").rglob("*.py")):
        for node in ast.walk(syntax_of(path)):
            _put_messages_in(node)
            if isinstance(node, ast.Call) and (error := _error_of(node)):
                yield error


def _summary(error: type) -> str:
    return " ".join((error.__doc__ or "").partition("\n\n")[0].split())


def _put_messages_in(node: ast.AST) -> None:
    """Put a message that is written above its raise into the raise."""
    blocks = [block for _, block in ast.iter_fields(node) if isinstance(block, list)]
    for above, below in chain.from_iterable(map(pairwise, blocks)):
        match above, getattr(below, "exc", None) or getattr(below, "value", None):
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=message),
                ast.Call(args=[ast.Name(id=same)]) as call,
            ) if name == same:
                call.args[0] = message


def _error_of(call: ast.Call) -> tuple[str, str, list[ast.expr]] | None:
    """Return (kind, class, arguments) of a call that makes an error of a kind."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="errors"), attr=name):
            pass
        case _:
            return None
    for keyword in call.keywords if name in CLASSES else ():
        if keyword.arg == "kind" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value), name, call.args
    return None


def _message(arguments: list[ast.expr]) -> str:
    """Return a message with `…` for its values; empty if it is made elsewhere."""
    if not arguments or isinstance(arguments[0], ast.Name | ast.Call | ast.Attribute):
        return ""
    text = re.sub("(…[^a-zA-Z…]*)+…", "…", text_of(arguments[0])).replace("|", "\\|")
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rpartition(' ')[0]} …"


def text_of(node: ast.expr) -> str:
    """Return a message with `…` for each value."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(text_of, parts))
        case ast.BinOp(left=left, right=right):
            return text_of(left) + text_of(right)
        case _:
            return "…"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
