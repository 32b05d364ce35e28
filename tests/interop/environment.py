"""The environments of the other implementations, fetched once into `.interop-venv` by name."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".interop-venv"
PINS = ("pypaimon==2.1.0", "pypaimon-rust==0.4.0")
"""Installed packages; a change of a pin makes the environment again."""

JAVA_ARTIFACT = "org.apache.paimon:paimon-bundle:1.4.2"
"""Java Paimon as one jar; Hadoop's classes come with pyspark."""
ROCKSDB_ARTIFACT = "com.ververica:frocksdbjni:6.20.3-ververica-2.0"
"""The library of Java Paimon's index of keys that may change partition."""


ICEBERG_PINS = (
    *("pyiceberg[pyarrow]==0.12.0", "pyarrow==26.0.1", "sqlalchemy==2.0.44"),
    *("duckdb==1.5.5", "duckdb-extension-iceberg==1.5.5", "duckdb-extension-avro==1.5.5", "pytz"),
    *("duckdb-extension-httpfs==1.5.5", "pyspark==4.1.4"),
)
"""Iceberg's readers; duckdb takes extensions of its own version only, pyiceberg's catalog in memory
needs sqlalchemy, and Iceberg's jars the newest Spark that they are released for."""
ICEBERG_JARS = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
)
"""Iceberg's own implementation, for the Spark of `iceberg_python`."""


def peer_python() -> Path:
    """Return the interpreter of the environment, creating it if it is absent or has other pins."""
    return _python(HOME, PINS)


def iceberg_home() -> Path:
    """Return the environment of Iceberg's readers, beside that of the other peers."""
    return HOME.with_name(f"{HOME.name}-iceberg")


def iceberg_python() -> Path:
    """Return the interpreter that has Iceberg's readers, creating it as `peer_python` does."""
    return _python(iceberg_home(), ICEBERG_PINS)


def _python(home: Path, pins: tuple[str, ...]) -> Path:
    python = home / "bin" / "python"
    stamp = home / "pins.json"
    if stamp.exists() and json.loads(stamp.read_text()) == list(pins):
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *pins], check=True)
    stamp.write_text(json.dumps(pins))
    return python


LINEAGE_PINS = ("dagster-openlineage==0.2.1", "openlineage-python==1.54.0")
"""The emitter of OpenLineage's events, beside the Dagster of this environment."""


def lineage_packages() -> Path:
    """Return the folder of the emitter, with its dependencies beside Dagster; fetched if absent."""
    folder = HOME.joinpath("-".join(("lineage", *LINEAGE_PINS)).replace("==", "-"))
    if not folder.exists():
        emitter, library = LINEAGE_PINS
        for options in (["--no-deps", emitter], [library, "cattrs"]):
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
            subprocess.run([*command, *options], check=True)
    return folder


REST_SERVER_ARTIFACTS = (
    "org.apache.paimon:paimon-core:1.4.2:jar:tests",
    "com.squareup.okhttp3:mockwebserver:4.9.3",
)
"""Java Paimon's own tests, with the test server of its REST client, and their dependencies."""
_OF_WEB_SERVER = (
    "com/squareup/**",
    "org/jetbrains/kotlin/**",
    "junit/junit/4.*",
    "org/hamcrest/**",
)


def _fetch(artifact: str, *, transitive: bool) -> None:
    subprocess.run(
        [
            *("mvn", "--quiet", "--batch-mode", "dependency:get"),
            *(f"-Dartifact={artifact}", f"-Dtransitive={str(transitive).lower()}"),
            f"-Dmaven.repo.local={HOME / 'm2'}",
        ],
        check=True,
    )


def java_jar(coordinates: str = JAVA_ARTIFACT) -> Path:
    """Return Java Paimon's jar or another one, fetched by Maven if it is absent."""
    group, artifact, version = coordinates.split(":")
    repository = HOME / "m2"
    jar = repository.joinpath(*group.split("."), artifact, version, f"{artifact}-{version}.jar")
    if not jar.exists():
        _fetch(coordinates, transitive=False)
    return jar


def rest_server_jars() -> list[Path]:
    """Return the jars of Java Paimon's REST server for tests, fetched by Maven if absent."""
    tests, web_server = REST_SERVER_ARTIFACTS
    repository = HOME / "m2"

    def find_jars() -> list[Path]:
        own = repository.glob("org/apache/paimon/paimon-core/*/*-tests.jar")
        return [*own, *(j for where in _OF_WEB_SERVER for j in repository.glob(f"{where}/*.jar"))]

    if not any("mockwebserver" in jar.name for jar in find_jars()):
        _fetch(tests, transitive=False)
        _fetch(web_server, transitive=True)
    return find_jars()


def java_classpath() -> str:
    """Return the class path of Java Paimon: its jar; pyspark lends Hadoop and codecs."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise RuntimeError("pyspark is not installed; Java Paimon takes Hadoop's classes from it")
    jars = Path(found.origin).parent / "jars"
    borrowed = ("hadoop-client-*.jar", "slf4j-api-*.jar", "snappy-java-*.jar", "lz4-java-*.jar")
    own = [java_jar(), java_jar(ROCKSDB_ARTIFACT)]
    paths = [*own, *(path for name in borrowed for path in jars.glob(name))]
    return os.pathsep.join(str(path) for path in paths)


def java_peer(warehouse: Path, *, heap: str = "1g", zone: str = "") -> list[str]:
    """Return the command that starts Java Paimon on a warehouse; compiles it if that is due."""
    return java_program("PaimonPeer", str(warehouse), heap=heap, zone=zone)


def java_program(program: str, *arguments: str, heap: str = "1g", zone: str = "") -> list[str]:
    """Return the command that starts a class of tests/interop/java; compiles it if that is due."""
    path = _compile("java", java_classpath())
    zones = [f"-Duser.timezone={zone}"] if zone else []
    return ["java", f"-Xmx{heap}", *zones, "-cp", path, program, *arguments]


def java_rest_server(
    warehouse: Path, *, auth: str = "bear", data_tokens: bool = False
) -> list[str]:
    """Return the command that starts Java Paimon's REST server for tests; compiles it if due."""
    libraries = [java_classpath(), *map(str, rest_server_jars())]
    path = _compile("java/rest", os.pathsep.join(libraries))
    arguments = [str(warehouse), auth, str(data_tokens).lower()]
    return ["java", "-Xmx512m", "-cp", path, "RestServer", *arguments]


def trino_server(java_home: Path) -> list[str]:
    """Return the command that starts Trino with a Java 25; Maven fetches 540 MB if due."""
    folder = ROOT / "tests" / "interop" / "java" / "trino"
    pom, classpath = folder / "pom.xml", HOME / "trino-classpath"
    if not classpath.exists() or classpath.stat().st_mtime < pom.stat().st_mtime:
        HOME.mkdir(exist_ok=True)
        subprocess.run(
            [
                *("mvn", "--quiet", "--batch-mode", "--file", str(pom)),
                *("dependency:build-classpath", f"-Dmdep.outputFile={classpath}"),
                f"-Dmaven.repo.local={HOME / 'm2'}",
            ],
            check=True,
        )
    return [
        *(str(java_home / "bin" / "java"), "-Xmx1500m", "-XX:+UseSerialGC"),
        *("-XX:TieredStopAtLevel=1", "--add-modules=jdk.incubator.vector"),
        *("-cp", classpath.read_text(), str(folder / "TrinoServer.java")),
    ]


def _compile(folder: str, libraries: str) -> str:
    """Return the class path of the sources in a folder, compiled if that is due."""
    classes = HOME / ("classes" if folder == "java" else f"classes-{folder.replace('/', '-')}")
    sources = sorted((ROOT / "tests" / "interop" / folder).glob("*.java"))
    built = max((path.stat().st_mtime for path in classes.glob("*.class")), default=0.0)
    if built < max(path.stat().st_mtime for path in sources):
        classes.mkdir(parents=True, exist_ok=True)
        command = ["javac", "-nowarn", "-d", str(classes), "-cp", libraries, *map(str, sources)]
        subprocess.run(command, check=True)
    return os.pathsep.join((str(classes), libraries))
