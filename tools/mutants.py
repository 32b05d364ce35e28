"""Small faults are put into a module, one at a time; tests that still pass did not notice.

    python -m tools.mutants engine/data/merge tests/data/test_merge.py

Prints each survivor with its line. A survivor is either a missing test or a change without effect.
"""

import argparse
import ast
import copy
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_SECONDS = 120
"""A run of tests that takes longer counts as a failure: the fault made an endless loop."""


def _in_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of function bodies, without annotations and texts of errors."""
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    pending: list[ast.AST] = [line for function in functions for line in function.body]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.Raise | ast.FunctionDef | ast.JoinedStr):
            continue
        pending += [
            child
            for name, value in ast.iter_fields(node)
            if name != "annotation"
            for child in (value if isinstance(value, list) else [value])
            if isinstance(child, ast.AST)
        ]


def _change(node: ast.AST) -> str | None:
    """Put a fault into a node, and return its name; None if there is none for it."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        node.ops[0] = SWAPS[type(node.ops[0])]()
        return type(node.ops[0]).__name__
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        node.op = SWAPS[type(node.op)]()
        return type(node.op).__name__
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.op = ast.UAdd()  # +flag: 0 or 1
        return "without not"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
        return str(node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        node.value += 1
        return str(node.value)
    return None


def places(source: str) -> list[int]:
    """Return the numbers of the nodes that a fault can be put into."""
    nodes = enumerate(_in_functions(ast.parse(source)))
    kinds = (ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Constant)
    return [n for n, node in nodes if isinstance(node, kinds) and _change(copy.deepcopy(node))]


def mutant(source: str, place: int) -> tuple[int, str, str]:
    """Return the line, the fault and the source of a mutant.

    >>> source = "def f(a):\\n    return a < 1"
    >>> [mutant(source, place)[:2] for place in places(source)]
    [(2, 'LtE'), (2, '2')]
    """
    tree = ast.parse(source)
    node = next(islice(_in_functions(tree), place, None))
    return getattr(node, "lineno", 0), str(_change(node)), ast.unparse(tree)


def _is_killed(place: Path, tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-xq", "-n0", "-p", "no:cacheprovider", *tests]
    environment = {"PYTHONPATH": str(place), "PATH": "/usr/bin:/bin", "HOME": str(place)}
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode not in (0, 1):
        click.echo(done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:], err=True)
    return done.returncode != 0


def main() -> int:
    """Run a sample of a package's mutants; the exit code is 1 if some survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", help="below paimon_assets: a folder or a module")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    target = ROOT / "paimon_assets" / options.package
    modules = [target] if target.suffix else sorted(target.rglob("*.py"))
    every = [(path, place) for path in modules for place in places(path.read_text("utf-8"))]
    sample = random.Random(options.seed).sample(every, min(options.count, len(every)))  # noqa: S311
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("paimon_assets", "tests", "tools", "pyproject.toml"):
            copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copied(ROOT / name, place / name)
        if _is_killed(place, options.tests):
            raise SystemExit("the tests fail without a fault")
        for path, number in sample:
            line, fault, source = mutant(path.read_text("utf-8"), number)
            module = place / path.relative_to(ROOT)
            module.write_text(source, "utf-8")
            if not _is_killed(place, options.tests):
                survivors += 1
                text = path.read_text("utf-8").splitlines()[line - 1].strip()
                click.echo(f"{path.relative_to(ROOT)}:{line}: {fault}: {text}")
            shutil.copy(path, module)
    click.echo(f"{len(sample) - survivors} of {len(sample)} mutants killed, of {len(every)}")
    return int(survivors > 0)


if __name__ == "__main__":
    raise SystemExit(main())
