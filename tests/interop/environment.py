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
"""What is installed; change a pin and the environment is made anew."""

JAVA_ARTIFACT = "org.apache.paimon:paimon-bundle:1.4.2"
"""Java Paimon as one jar; Hadoop's classes come with pyspark."""


def peer_python() -> Path:
    """Return the interpreter of the environment, creating it if it is absent or has other pins."""
    python = HOME / "bin" / "python"
    stamp = HOME / "pins.json"
    if stamp.exists() and json.loads(stamp.read_text()) == list(PINS):
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PINS], check=True)
    stamp.write_text(json.dumps(PINS))
    return python


def java_jar() -> Path:
    """Return Java Paimon's jar, fetched by Maven if it is absent."""
    group, artifact, version = JAVA_ARTIFACT.split(":")
    repository = HOME / "m2"
    jar = repository.joinpath(*group.split("."), artifact, version, f"{artifact}-{version}.jar")
    if not jar.exists():
        subprocess.run(
            [
                *("mvn", "--quiet", "--batch-mode", "dependency:get"),
                *(f"-Dartifact={JAVA_ARTIFACT}", "-Dtransitive=false"),
                f"-Dmaven.repo.local={repository}",
            ],
            check=True,
        )
    return jar


def java_classpath() -> str:
    """Return what Java needs to run Java Paimon: its jar; pyspark lends Hadoop and codecs.

    Raises:
        RuntimeError: pyspark is not installed.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise RuntimeError("pyspark is not installed; Java Paimon takes Hadoop's classes from it")
    jars = Path(found.origin).parent / "jars"
    borrowed = ("hadoop-client-*.jar", "slf4j-api-*.jar", "snappy-java-*.jar", "lz4-java-*.jar")
    paths = [java_jar(), *(path for name in borrowed for path in jars.glob(name))]
    return os.pathsep.join(str(path) for path in paths)


def java_peer(warehouse: Path, *, heap: str = "1g") -> list[str]:
    """Return the command that starts Java Paimon on a warehouse; compiles it if that is due.

    Args:
        warehouse: Where its tables lie.
        heap: The most memory of the JVM, as its option `-Xmx` takes it.

    Raises:
        FileNotFoundError: There is no JDK on the PATH.
    """
    return java_program("PaimonPeer", str(warehouse), heap=heap)


def java_program(program: str, *arguments: str, heap: str = "1g") -> list[str]:
    """Return the command that starts a class of tests/interop/java; compiles it if that is due.

    Raises:
        FileNotFoundError: There is no JDK on the PATH.
    """
    classes, libraries = HOME / "classes", java_classpath()
    sources = sorted((ROOT / "tests" / "interop" / "java").glob("*.java"))
    built = max((path.stat().st_mtime for path in classes.glob("*.class")), default=0.0)
    if built < max(path.stat().st_mtime for path in sources):
        classes.mkdir(parents=True, exist_ok=True)
        command = ["javac", "-nowarn", "-d", str(classes), "-cp", libraries, *map(str, sources)]
        subprocess.run(command, check=True)
    path = os.pathsep.join((str(classes), libraries))
    return ["java", f"-Xmx{heap}", "-cp", path, program, *arguments]
