"""The syntax trees of sources."""

import ast
import gc
from pathlib import Path


def syntax_of(source: str | Path) -> ast.Module:
    """Parse a source or the file of one.

    Python 3.11 to 3.11.7 fails with "AST constructor recursion depth mismatch" if the collector
    runs a finalizer in the middle (https://github.com/python/cpython/issues/106905).
    """
    text = source if isinstance(source, str) else source.read_text(encoding="utf-8")
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if collects:
            gc.enable()
