#!/bin/sh
# Build the pinned environment in .venv, once: a stamp remembers what was installed.
#
#   scripts/bootstrap.sh            install where pyproject.toml or constraints.txt changed
#   PYTHON=/path/to/python make …   choose the interpreter (3.11 or newer) yourself
set -eu
cd "$(dirname "$0")/.."

wanted=$(cat pyproject.toml constraints.txt scripts/bootstrap.sh | cksum | tr ' ' '-')
stamp=.venv/.installed-$wanted
[ -e "$stamp" ] && [ -x .venv/bin/python ] && exit 0

say() { printf '==> %s\n' "$*"; }

usable() { # an interpreter that runs, is new enough, and can make environments
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    usable "$PYTHON" || {
        echo "PYTHON=$PYTHON is not Python 3.11 or newer with venv and ensurepip." >&2
        exit 1
    }
    python=$PYTHON
else
    python=
    IFS=:
    for candidate in python3.11 python3.12 python3.13 python3 python; do
        # Every one on PATH, not only the first: version managers leave shims that do not run.
        for folder in $PATH; do
            if [ -x "$folder/$candidate" ] && usable "$folder/$candidate"; then
                python=$folder/$candidate
                break 2
            fi
        done
    done
    unset IFS
    if [ -z "$python" ]; then
        echo "No usable Python found on PATH. Needed: Python 3.11, 3.12 or 3.13 with venv and" >&2
        echo "ensurepip (on Debian and Ubuntu: apt install python3-venv). If it is elsewhere:" >&2
        echo "    make PYTHON=/path/to/python3.11 demo" >&2
        exit 1
    fi
fi

if ! usable .venv/bin/python; then
    say "creating .venv with $("$python" --version) ($python)"
    "$python" -m venv --clear .venv
fi
pip() { .venv/bin/python -m pip --disable-pip-version-check "$@" </dev/null; }

say "installing the pinned packages (constraints.txt); the first time this takes a few minutes"
pip install --quiet -c constraints.txt pip
failed=.venv/.install-failed # a pipe hides the exit status of its first command
rm -f "$failed"
{
    pip install --progress-bar off -c constraints.txt --build-constraint constraints.txt \
        -e '.[dagster,spark,connect,pandas,polars,duckdb,sketches,server,demo]' --group dev || : >"$failed"
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
