#!/bin/sh
# examples.sh EXAMPLES
#
# The examples do what they say, end with the status they promise, and refuse nonsense in words.
# EXAMPLES is the folder where they were built.
set -u

examples=$1
bad=0

# expect STATUS TEXT PROGRAM...: the program ends with STATUS and says TEXT
expect() {
    want=$1
    text=$2
    shift 2
    said=$(timeout 120 "$@" 2>&1 </dev/null)
    got=$?
    if [ $got -eq "$want" ] && printf '%s\n' "$said" | grep -qF -- "$text"; then
        return
    fi
    echo "$*: status $got, not $want; or does not say '$text':"
    printf '%s\n' "$said" | sed 's/^/    /'
    bad=1
}

expect 0 "twice twice 10.5 is 42" "$examples/hello"
expect 0 "result   right" "$examples/vector" --elements 300000 --tile 4096
expect 0 "in 1 tiles of 16384" "$examples/vector" --elements 1
expect 0 "result   right" "$examples/vector" --elements 1000 --tile 1
expect 0 "in 334 tiles of 3" "$examples/vector" --elements 1000 --tile 3 --workers 5
expect 0 "result   right" "$examples/vector" --elements 100000 --tile 1000000000
expect 0 "usage: ./dev run" "$examples/vector" --help
expect 2 "--tile takes a number from 1 to" "$examples/vector" --tile 0
expect 2 "--tile takes a number from 1 to" "$examples/vector" --tile
expect 2 "unknown option 'four'" "$examples/vector" four
expect 0 "in a ring that held 0.3 MB at most" "$examples/vector" --elements 1000000 --ahead 1
# What the runtime refuses it refuses in words, and with advice.
expect 1 "hint:" env PTO_LEVELS=99 "$examples/vector"
expect 0 "share a byte" "$examples/overlap"
expect 2 "unknown dtype" "$examples/overlap" float3:1 float32:1
expect 0 "1229 primes below 10000" "$examples/interrupt" 1
expect 0 "usage: ./dev run interrupt" "$examples/interrupt" --help
expect 2 "usage: ./dev run interrupt" "$examples/interrupt" 0
# Ctrl-C, early and late.
for delay in 0.1 0.5; do
    expect 130 "interrupted" timeout --foreground --preserve-status \
        -s INT $delay "$examples/interrupt"
done
[ $bad -eq 0 ] && echo "the examples do what they say"
exit $bad
