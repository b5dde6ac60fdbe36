#!/bin/sh
# run.sh PTO [SANITIZE]
#
# Every workload at its small sizes, in every way to run it: right, and with the same verdict, which
# has figures of the result in it. PTO is the command; SANITIZE is there if it was built with
# sanitizers, which take their time: then in fewer ways.
set -u

pto=$1
sanitize=${2:-}
bad=0

unset PTO_WORKERS PTO_SCHEDULER PTO_RING_TASKS PTO_HEAP PTO_DEPS PTO_ARGS PTO_MAP_ENTRIES PTO_LEVELS

say() {
    echo "$*"
    bad=1
}

# run_one NAME OPTIONS...: the verdict is left in $verdict
run_one() {
    object=$(timeout 120 "$pto" run "$@" --small --json 2>&1)
    status=$?
    verdict=$(printf '%s\n' "$object" | sed -n 's/.*"right":true,"verdict":"\([^"]*\)".*/\1/p')
    if [ $status -ne 0 ] || [ -z "$verdict" ]; then
        say "pto run $* --small: status $status: $object"
    fi
}

ways() {
    if [ -n "$sanitize" ]; then
        echo "inline tight 3
thread default 1
thread tight 3
inline default 0"
        return
    fi
    for scheduler in inline thread; do
        for rings in default tight; do
            for workers in 0 1 3; do
                echo "$scheduler $rings $workers"
            done
        done
    done
}

workloads=$("$pto" run --list | awk '{ print $1 }')
[ -n "$workloads" ] || say "pto run --list: there are no workloads"
count=0
for name in $workloads; do
    first=
    while read -r scheduler rings workers; do
        # Twice, since the rings are in another state then, and watched once more.
        run_one "$name" --place "$scheduler" --rings "$rings" --workers "$workers" --repeat 2
        : "${first:=$verdict}"
        [ "$verdict" = "$first" ] ||
            say "pto run $name: '$first' at first, '$verdict' with $scheduler $rings $workers"
        count=$((count + 1))
    done <<END
$(ways)
END
    run_one "$name" --seed 7
done
# A misspelt option is named, and the run is right all the same.
text=$(PTO_WORKER=1 "$pto" run cholesky --small 2>&1) || say "pto run with PTO_WORKER: $text"
case $text in
*"warning: options: PTO_WORKER=1 is no option: did you mean PTO_WORKERS?"*) ;;
*) say "pto run says nothing of PTO_WORKER: $text" ;;
esac
text=$(PTO_WINDW=1 PTO_WORKER=1 PTO_HEPA=1 "$pto" run vector --small 2>&1)
for name in "PTO_WORKERS?" "PTO_HEAP? PTO_WINDW=1 is no option"; do
    case $text in
    *"$name"*) ;;
    *) say "pto run does not say '$name': $text" ;;
    esac
done
for command in options info; do
    for setting in PTO_WORKERS=many PTO_WINDW=1; do
        env "$setting" "$pto" $command >/dev/null 2>&1
        status=$?
        [ $status -eq 1 ] || say "$setting pto $command: exit status $status, not 1"
    done
done
text=$(PTO_WINDW=1 PTO_HEAPS=1 "$pto" options 2>&1)
case $text in
*"no options:"*"PTO_HEAPS: did you mean PTO_HEAP?"*) ;;
*) say "pto options says nothing of PTO_HEAPS: $text" ;;
esac
case $text in
*"  PTO_WINDW"*) ;;
*) say "pto options says nothing of PTO_WINDW: $text" ;;
esac
[ $bad -eq 0 ] && echo "every workload is right, in $count ways in all"
exit $bad
