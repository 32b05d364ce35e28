"""Archives on the import path: their lists of files are read again only if they changed."""

import subprocess
import sys
import zipfile

import pytest

BEFORE_313 = pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python does it itself")

IMPORTS = """
import importlib, sys, zipfile, os
from paimon_assets.spark.shortcuts.worker_imports import keep_imports
keep_imports()
keep_imports()
path = sys.argv[1]
sys.path.insert(0, path)
import first
with zipfile.ZipFile(path, "a") as archive:
    archive.writestr("second.py", "value = 2")
importlib.invalidate_caches()
import second
print(first.value + second.value)
os.unlink(path)
importlib.invalidate_caches()
try:
    import third
except ImportError:
    print("gone")
"""


def test_what_is_added_to_an_archive_is_found(tmp_path):
    path = tmp_path / "modules.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("first.py", "value = 1")
    command = [sys.executable, "-c", IMPORTS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "gone"]


@BEFORE_313
def test_an_archive_that_did_not_change_is_not_read(tmp_path):
    path = tmp_path / "modules.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("first.py", "value = 1")
    program = (
        "import importlib, os, sys; from paimon_assets.spark.shortcuts import worker_imports as w;"
        "reads = []; eager = w._read_again; w._read_again = lambda i: reads.append(i) or eager(i);"
        "w.keep_imports(); sys.path.insert(0, sys.argv[1]); import first;"
        "[importlib.invalidate_caches() for _ in range(3)]; print(len(reads));"
        "os.utime(sys.argv[1], ns=(1, 1)); importlib.invalidate_caches(); print(len(reads))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "2"]


def test_after_the_first_task_imports_are_no_garbage_to_look_at():
    program = (
        "import gc; from paimon_assets.spark.shortcuts.worker_imports import keep_imports;"
        "found = [];"
        "[(keep_imports(), found.append(gc.get_freeze_count())) for _ in range(3)];"
        "print(found[0], found[1] > 10_000, found[2] == found[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import pyspark.sql; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["0", "True", "True"]


@pytest.mark.spark
def test_workers_of_the_suite_are_forked_with_their_imports(spark):
    found = spark.sparkContext.range(1, numSlices=1).mapPartitions(_what_a_worker_has).collect()
    assert found == ["no archive", "paimon_assets.spark.worker"]


def _what_a_worker_has(_):
    archives = [place for place in sys.path if place.endswith("pyspark.zip")]
    module = "paimon_assets.spark.worker"
    return [*(archives or ["no archive"]), *([module] if module in sys.modules else [])]
