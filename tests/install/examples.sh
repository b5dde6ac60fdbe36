#!/bin/sh
# examples.sh EXAMPLES
#
# The examples work, end with the documented status, and refuse invalid arguments with a message.
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
expect 0 "result   right" "$examples/rearrange"
expect 0 "result   right" "$examples/rearrange" --images 3 --height 33 --width 17 --channels 5
expect 0 "usage: ./dev run rearrange" "$examples/rearrange" --help
expect 2 "--height takes a number from 1 to" "$examples/rearrange" --height 0
expect 2 "unknown option" "$examples/rearrange" --bad
expect 0 "share a byte" "$examples/overlap"
expect 0 "values: 0 1 (lost) 9" "$examples/survive"
expect 2 "unknown dtype" "$examples/overlap" float3:1 float32:1
expect 0 "1229 primes below 10000" "$examples/interrupt" 1
expect 0 "usage: ./dev run interrupt" "$examples/interrupt" --help
expect 2 "usage: ./dev run interrupt" "$examples/interrupt" 0
# Ctrl-C: the program ends in order once its handler is set; before that it just ends.
for delay in 0.1 0.5 2 8 30; do
    said=$(timeout --foreground --preserve-status -s INT $delay "$examples/interrupt" 2>&1)
    got=$?
    [ $got -eq 130 ] || {
        echo "interrupt, after $delay s: status $got, not 130: $said"
        bad=1
    }
    printf '%s\n' "$said" | grep -q interrupted && break
done
printf '%s\n' "$said" | grep -q interrupted || {
    echo "interrupt: never says that it was interrupted"
    bad=1
}
[ $bad -eq 0 ] && echo "the examples do what they say"
exit $bad
