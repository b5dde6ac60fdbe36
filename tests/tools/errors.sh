#!/bin/sh
# errors.sh PTO
#
# What the pto command says and how it ends: help, summaries, settings, bad input, Ctrl-C.
set -u

pto=$1
bad=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

unset PTO_WORKERS PTO_SCHEDULER PTO_RING_TASKS PTO_HEAP PTO_DEPS PTO_ARGS PTO_MAP_ENTRIES PTO_LEVELS

. "$(dirname -- "$0")/../support/expect.sh"

# refuse TEXT ARGUMENTS...: bad input, reported only on stderr
refuse() {
    text=$1
    shift
    expect 2 "$text" "$pto" "$@"
    said=$("$pto" "$@" 2>/dev/null </dev/null)
    [ -z "$said" ] || {
        echo "pto $*: on stdout: $said"
        bad=1
    }
}

# ---- help ----
expect 0 "usage: pto COMMAND" "$pto" --help
expect 0 "pto 0." "$pto" --version
expect 0 "PTO_WORKERS" "$pto" options
for name in $("$pto" info | sed -n 's/^  \(PTO_[A-Z_]*\) .*/\1/p'); do
    "$pto" options | grep -q "^  $name [ ]*[^ ]" || {
        echo "pto options: no line for $name, or its value is not apart"
        bad=1
    }
done
expect 0 "  stencil " "$pto" run --list
expect 0 "--place PLACE" "$pto" run --help
expect 0 "elements of a tile (16k; 1 to 4g)" "$pto" run vector --help
expect 0 "--place PLACE" "$pto" run vector --help
for name in $("$pto" run --list | awk '{ print $1 }'); do
    expect 0 "usage: pto run $name" "$pto" run "$name" --help
done
if (: >/dev/full) 2>/dev/null; then
    # shellcheck disable=SC2016 # for the inner shell
    expect 1 "cannot write to stdout" sh -c '"$1" run vector --small >/dev/full' sh "$pto"
fi

# ---- bad input ----
refuse "usage: pto COMMAND"
refuse "usage: pto run NAME" run
refuse "no command 'rum'; did you mean 'run'?" rum
refuse "available: run" xyzzyx
refuse "unexpected argument 'x'" options x
refuse "no workload 'stensil'; did you mean 'stencil'?" run stensil
refuse "available: vector" run qqqqqqqq
refuse "the workload comes first" run --workers 2
refuse "unknown option '--tiles'; did you mean --tile?" run vector --tiles 4
refuse "unknown option '--wrokers=3'; did you mean --workers?" run vector --wrokers=3
refuse "unknown option '-z'" run vector -z
refuse "unexpected argument 'four'" run vector four
refuse "--tile needs a value" run vector --tile
refuse "--json takes no value" run vector --json=1
refuse "--tile takes a number from 1 to 4g, not '0'" run vector --tile 0
refuse "--tile takes a number from 1 to 4g, not '12x'" run vector --tile 12x
refuse "--tile takes a number from 1 to 4g, not ''" run vector --tile ''
refuse "not '99999999999999999999'" run vector --elements 99999999999999999999
refuse "not '9999999999t'" run vector --elements 9999999999t
refuse "--workers takes a number from 0 to 1k, not '-1'" run vector --workers -1
refuse "--place takes inline, thread, process or gpu, not 'moon'" run vector --place moon
refuse "cannot reach the memory of lu" run lu --small --place process
refuse "cannot reach the memory of vector: use --device cpu:0" run vector --small --place process --device none
refuse "--rings takes default or tight, not 'loose'" run vector --rings loose
refuse "--levels takes a number from 1 to 8" run vector --levels 9
refuse "larger than the plate" run stencil --small --tile 100
refuse "must not be below fan" run reduce --leaf 2 --fan 3
refuse "are available" run decode --small --tokens 65536 --batch 1024 --vocabulary 1m
refuse "pto run cholesky: a tile of 200 rows is larger than the matrix of 100" \
    run cholesky --n 100 --tile 200
refuse "--weights takes a text, not ''" run decode --weights ''
refuse "pto run decode: /nonexistent: No such file or directory" run decode --weights /nonexistent
refuse "no safetensors file, or not all of it" run decode --weights "$pto"
said=$("$pto" run cholesky --n 100 --tile 200 2>&1)
[ "$(printf '%s\n' "$said" | wc -l)" -eq 1 ] || {
    echo "more than one line for a bad size: $said"
    bad=1
}
expect 2 'PTO_LEVELS="99"' env PTO_LEVELS=99 "$pto" run vector --small

# ---- summaries ----
expect 0 "result    right: every element" "$pto" run vector --small
expect 0 "elements 1, tile 3, ahead 16, device none, seed 9" "$pto" run vector --elements 1 --tile 3 --seed 9
expect 0 "result    right" "$pto" run cholesky --n 1 --tile 1 --seed 18
expect 0 "result    right" "$pto" run decode --small --vocabulary 64k --tokens 2 --tile 16
expect 0 "result    not checked" "$pto" run vector --small --no-check
expect 0 "the caller alone, scheduler inline" "$pto" run vector --small --workers 0
expect 0 "3 workers and the caller, scheduler on its own thread" \
    "$pto" run vector --small --workers 3 --place thread
expect 0 "the median of 4 runs" "$pto" run vector --small --repeat 4
expect 0 "this run" "$pto" run stencil --small --profile
expect 0 "10 of 10 KiB" "$pto" run vector --small --heap 10k
expect 0 "of 64" "$pto" run vector --small --ring-tasks 64
# What cannot fit is refused, with advice.
expect 2 "raise heap_bytes (PTO_HEAP)" "$pto" run vector --small --heap 4k
expect 2 "held by   the scope opened at" "$pto" run vector --small --heap 6k
expect 0 "result    right" "$pto" run vector --small --ring-tasks 2
# The variables of the runtime win over what a workload would like, and options over them.
expect 0 "2 workers and the caller, scheduler on its own thread" \
    env PTO_WORKERS=2 PTO_SCHEDULER=thread "$pto" run vector --small
expect 0 "the caller alone" env PTO_WORKERS=none "$pto" run vector --small
expect 0 "3 workers" env PTO_WORKERS=vector:2,all "$pto" run vector --small
expect 0 "of 12 KiB" env PTO_HEAP=12k "$pto" run vector --small
expect 0 "of 16 KiB" env PTO_HEAP=12k "$pto" run vector --small --heap 16k
expect 0 "scheduler inline" env PTO_SCHEDULER=thread "$pto" run vector --small --place inline

said=$("$pto" run vector --small --quiet 2>&1)
[ -z "$said" ] || {
    echo "--quiet says: $said"
    bad=1
}
for options in "" "--profile" "--no-check --no-profile --workers 0"; do
    # shellcheck disable=SC2086 # words
    object=$("$pto" run stencil --small --json $options)
    if [ "$(printf '%s\n' "$object" | wc -l)" -ne 1 ]; then
        echo "--json $options: not one line: $object"
        bad=1
    fi
    if command -v python3 >/dev/null 2>&1; then
        printf '%s\n' "$object" | python3 -m json.tool >/dev/null || {
            echo "--json $options: $object"
            bad=1
        }
    fi
done

# ---- Ctrl-C ----

# Sooner and later, until it met tasks that ran. (A shell starts what is in the background with the
# signal ignored: once somebody waits for it, the command is ready. Before it is the command it is a
# copy of this shell, who waits for it, too.)
interrupt() {
    for delay in 0 0.2 1 5 20; do
        "$pto" run stencil --small --steps 1000000 "$@" >"$work/said" 2>&1 &
        pid=$!
        tries=0
        until { [ "$(cat "/proc/$pid/comm")" = "$(basename "$pto")" ] &&
            grep -q '^SigCgt:.*[2367abef]$' "/proc/$pid/status"; } || [ $tries -gt 1000 ]; do
            sleep 0.02
            tries=$((tries + 1))
        done
        sleep $delay
        kill -INT $pid
        wait $pid
        got=$?
        if [ $got -ne 130 ] || ! grep -q "interrupted" "$work/said"; then
            echo "Ctrl-C of pto run stencil $*: status $got, not 130: $(cat "$work/said")"
            bad=1
        fi
        grep -q "interrupted after .* tasks done, " "$work/said" && return
    done
    echo "Ctrl-C of pto run stencil $*: tasks were never met: $(cat "$work/said")"
    bad=1
}

interrupt --place inline
interrupt --place thread --json --workers 2
interrupt --workers 0

# ---- a terminal ----

# on_terminal TEXT COMMAND: what it says on a terminal matches TEXT
on_terminal() {
    TERM=xterm script -qec "$2" /dev/null </dev/null >"$work/said"
    grep -q -- "$1" "$work/said" || {
        echo "on a terminal '$2' does not say '$1':"
        cat "$work/said"
        bad=1
    }
}

escape=$(printf '\033')
if script -qec true /dev/null >/dev/null 2>&1; then
    on_terminal "$escape\[32mright" "'$pto' run vector --small"
    # A busy machine may need longer until the first line.
    progress="stencil [ 0-9]* %  [0-9]* tasks  [0-9.]* s.*${escape}\[K"
    for seconds in 3 10 30; do
        command="timeout --foreground -s INT $seconds '$pto' run stencil --small --steps 1000000"
        TERM=xterm script -qec "$command" /dev/null </dev/null >"$work/said"
        grep -q -- "$progress" "$work/said" && break
    done
    grep -q -- "$progress" "$work/said" || {
        echo "on a terminal '$command' shows no progress:"
        cat "$work/said"
        bad=1
    }
fi
[ $bad -eq 0 ] && echo "the pto command does what it says"
exit $bad
