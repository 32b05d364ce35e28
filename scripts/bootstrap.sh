#!/bin/sh
# Build the pinned environment in .venv, once: a stamp remembers what was installed.
#
#   scripts/bootstrap.sh            install where pyproject.toml or requirements/constraints.txt changed
#   PYTHON=python3.13 make …        choose the interpreter (3.11 to 3.14) yourself; a .venv of another
#                                   version is built anew
#   HASHES=1 make setup             refuse whatever has not one of the hashes in requirements/hashes.txt
set -eu
cd "$(dirname "$0")/.."

wanted=$(cat pyproject.toml requirements/constraints.txt scripts/bootstrap.sh | cksum | tr ' ' '-')
stamp=.venv/.installed-$wanted

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
is_asked_for() { # .venv is of the version that PYTHON asks for, if it asks
    [ -x .venv/bin/python ] || return 1
    [ -z "${PYTHON:-}" ] || [ "$(version "$PYTHON")" = "$(version .venv/bin/python)" ]
}
[ -e "$stamp" ] && is_asked_for && exit 0

say() { printf '==> %s\n' "$*"; }

why_not() { # print why an interpreter does not serve; nothing of one that does
    "$1" -c '
import sys
if sys.version_info < (3, 11):
    sys.exit("is Python %d.%d" % sys.version_info[:2])
try:
    import ensurepip, venv
except ImportError:
    missing = "has no venv with ensurepip: on Debian and Ubuntu, apt install python%d.%d-venv"
    sys.exit(missing % sys.version_info[:2])
' 2>&1 >/dev/null || echo "does not run"
}
usable() { [ -z "$(why_not "$1")" ]; }

if [ -n "${PYTHON:-}" ]; then
    usable "$PYTHON" || {
        echo "Needed: Python 3.11 or newer. PYTHON=$PYTHON $(why_not "$PYTHON" | head -n 1)" >&2
        exit 1
    }
    python=$PYTHON
else
    python=
    IFS=:
    found=
    for candidate in python3.11 python3.12 python3.13 python3.14 python3 python; do
        # Every one on PATH, not only the first: version managers leave shims that do not run.
        for folder in $PATH; do
            [ -x "$folder/$candidate" ] || continue
            reason=$(why_not "$folder/$candidate" | head -n 1)
            if [ -z "$reason" ]; then
                python=$folder/$candidate
                break 2
            fi
            found="$found    $folder/$candidate $reason
"
        done
    done
    unset IFS
    if [ -z "$python" ]; then
        echo "Needed: Python 3.11 to 3.14 with venv and ensurepip. Found on PATH:" >&2
        printf '%s' "${found:-    none
}" >&2
        echo "If it is elsewhere: make PYTHON=/path/to/python3.11 demo" >&2
        exit 1
    fi
fi

if ! usable .venv/bin/python || ! is_asked_for; then
    say "creating .venv with $("$python" --version) ($python)"
    "$python" -m venv --clear .venv
fi
pip() { .venv/bin/python -m pip --disable-pip-version-check "$@" </dev/null; }

say "installing the pinned packages (requirements/constraints.txt); the first time this takes a few minutes"
pip install --quiet -c requirements/constraints.txt pip
extras=dagster,spark,connect,dagster-pyspark,pandas,polars,duckdb,server,demo,sketches
failed=.venv/.install-failed # a pipe hides the exit status of its first command
rm -f "$failed"
{
    { [ -z "${HASHES:-}" ] ||
        pip install --progress-bar off --require-hashes --no-deps -r requirements/hashes.txt; } &&
        pip install --progress-bar off -c requirements/constraints.txt --build-constraint requirements/constraints.txt \
        -e ".[$extras]" --group dev || : >"$failed"
} | awk '
    # The large ones are what one waits for.
    $1 == "Downloading" && / MB\)/ {
        split($2, part, "-")
        print "    " part[1] " " part[2] " " $3 " " $4
        fflush()
    }
    $1 == "Building" && $2 == "wheel" { print "    " $0; fflush() }
    $1 == "Installing" && $2 == "collected" { print "    unpacking ..."; fflush() }'
[ ! -e "$failed" ] || {
    echo "pip could not install the environment; its message is above." >&2
    exit 1
}
pip check

rm -f .venv/.installed-*
: >"$stamp"
say "environment ready: $(.venv/bin/python --version), $(pip freeze --exclude-editable | wc -l | tr -d ' ') packages"
