#!/bin/sh
# perfetto.sh PTO RECORD DATA
#
# Runs as JSON for Perfetto, held against perfetto/schema.json and what no schema can say: two of the
# command PTO, one of RECORD that has pending tasks, and one from long ago, DATA/v1.ptrace. Then a good
# one is broken in every way that is looked for. Needs Python and its package jsonschema; skipped, and
# counted so, where they are not.
set -u

pto=$1
record=$2
data=$3
check=$(dirname -- "$0")/perfetto/check.py
bad=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset PTO_TRACE PTO_TRACE_LIMIT PTO_WORKERS PTO_RING_TASKS
export PYTHONDONTWRITEBYTECODE=1

complain() {
    echo "$*"
    bad=1
}

# ended NAME: reports one test, like the test programs do
ended() {
    if [ $bad -eq 0 ]; then
        echo "[       OK ] $1"
    else
        echo "[  FAILED  ] $1"
        exit 1
    fi
}

echo "[ RUN      ] runs_are_sound"
if ! python3 -c 'import sys
from importlib.util import find_spec
sys.exit(find_spec("jsonschema") is None)' 2>/dev/null; then
    echo "no Python, or no python3-jsonschema"
    echo "[  SKIPPED ] runs_are_sound"
    exit 0
fi
PTO_TRACE=$work/vector.json "$pto" run vector --small --elements 16384 --workers 2 >"$work/log" 2>&1 ||
    complain "vector: $(cat "$work/log")"
PTO_TRACE=$work/cholesky.json "$pto" run cholesky --small --workers 1 >"$work/log" 2>&1 ||
    complain "cholesky: $(cat "$work/log")"
"$record" "$work/pending.json" pending >"$work/log" 2>&1 || complain "pending: $(cat "$work/log")"
"$pto" trace json "$data/v1.ptrace" -o "$work/v1.json" >"$work/log" 2>&1 ||
    complain "v1: $(cat "$work/log")"
python3 "$check" "$work/vector.json" "$work/cholesky.json" "$work/pending.json" "$work/v1.json" ||
    complain "check.py: status $?"
# They are worth a look only if there is everything to see.
grep -q '"name":"level 1 heap"' "$work/vector.json" || complain "vector: no heap"
grep -q '"ph":"s","cat":"WAR"' "$work/cholesky.json" || complain "cholesky: no WAR"
grep -q '"orchestrator, pending 3"' "$work/pending.json" || complain "pending: not three at once"
"$record" "$work/golden.json" >"$work/log" 2>&1 || complain "golden: $(cat "$work/log")"
python3 "$check" "$work/golden.json" || complain "golden: status $?"
grep -q '"ph":"i","cat":"failure"' "$work/golden.json" || complain "golden: no failure"
# Its rings have two slots and nobody but the submitting thread runs tasks: it has to wait for room.
grep -q '"name":"wait for room: ' "$work/golden.json" || complain "golden: no wait for room"
ended runs_are_sound

echo "[ RUN      ] every_break_is_noticed"
python3 "$check" --broken "$work/golden.json" || complain "check.py --broken: status $?"
ended every_break_is_noticed
