"""Copies upstream's CDC records into `records.jsonl`: file, SHA-256 of the source, its records.

python tests/cdc/golden/copy_records.py <a clone of apache/paimon> [<commit>]
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

RESOURCES = "paimon-flink/paimon-flink-cdc/src/test/resources/kafka"
FORMATS = ("canal", "debezium", "json", "maxwell")


def main(clone: str, commit: str = "HEAD") -> None:
    def git(*words: str) -> bytes:
        return subprocess.run(["git", "-C", clone, *words], check=True, capture_output=True).stdout

    paths = [f"{RESOURCES}/{name}" for name in FORMATS]
    names = git("ls-tree", "-r", "--name-only", commit, *paths).decode().split()
    with Path(__file__).with_name("records.jsonl").open("w", encoding="utf-8") as target:
        for name in names:
            data = git("show", f"{commit}:{name}")
            records = [line for line in data.decode().splitlines() if line.startswith("{")]
            entry = {
                "file": name.removeprefix(f"{RESOURCES}/"),
                "sha256": hashlib.sha256(data).hexdigest(),
                "records": records,
            }
            target.write(json.dumps(entry, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
