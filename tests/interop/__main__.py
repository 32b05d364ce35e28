"""`make interop` and `make interop-java`: fetch the other implementations, then ask them.

python -m tests.interop [java] [pytest options]
"""

import sys

import pytest

from tests.interop.environment import ROOT, iceberg_python, java_jar, peer_python


def main(arguments: list[str]) -> int:
    """Run the interop tests, of Python peers or of Java, and return pytest's exit code."""
    folder = ROOT / "tests" / "interop"
    if arguments[:1] == ["java"]:
        java_jar()
        iceberg_python()
        return int(pytest.main(["-m", "interop", str(folder / "java"), *arguments[1:]]))
    peer_python()
    iceberg_python()
    return int(
        pytest.main(["-m", "interop", str(folder), f"--ignore={folder / 'java'}", *arguments])
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
