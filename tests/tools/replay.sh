#!/bin/sh
# replay.sh PTO DATA
#
# `pto replay` from the shell: what it says of a kept trace, DATA/v1.ptrace, and of a run of today, in
# the smallest rings that it names, and how it ends when there is nothing to say.
set -u

pto=$1
data=$2
bad=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cp "$data/v1.ptrace" "$work/run.ptrace" || exit 1
cd "$work" || exit 1
unset PTO_TRACE PTO_TRACE_LIMIT PTO_RING_TASKS PTO_HEAP PTO_ARGS PTO_DEPS PTO_MAP_ENTRIES PTO_LEVELS

. "$(dirname -- "$0")/../support/expect.sh"

# ---- a kept trace ----
expect 0 "tasks      5 with 4 edges" "$pto" replay run.ptrace
expect 0 "limited by" "$pto" replay run.ptrace
expect 0 "recorded   3.99 ms" "$pto" replay run.ptrace
expect 0 "slots of level 0            2          2          2          8" \
    "$pto" replay run.ptrace --rings
expect 0 "PTO_RING_TASKS=8 PTO_HEAP=64 PTO_ARGS=128 PTO_DEPS=4 PTO_MAP_ENTRIES=8" \
    "$pto" replay run.ptrace --rings
expect 0 '"tasks":5,"edges":4' "$pto" replay --json run.ptrace
expect 0 '{"ring":"slots","level":0,"recorded":2,' "$pto" replay --json --rings run.ptrace
expect 0 "2 cube" "$pto" replay run.ptrace --workers 1,cube=2+vector=1

# ---- what it does not understand ----
expect 0 "usage: pto replay" "$pto" replay --help
expect 2 "which file" "$pto" replay
expect 2 "unexpected argument 'b'" "$pto" replay a b
expect 2 "did you mean --rings" "$pto" replay --ring-s run.ptrace
for wrong in x 1,,2 cube cube= cube=x tube=1 -1 1025 cube=1+; do
    expect 2 "--workers takes numbers" "$pto" replay run.ptrace --workers "$wrong"
done
expect 1 "No such file" "$pto" replay nowhere.ptrace
head -c 1000 run.ptrace >cut.ptrace
expect 1 "1000 bytes of the" "$pto" replay cut.ptrace

# ---- runs of today, in the smallest rings ----
# record WORKLOAD: what replay says of it is in `said`, its settings in `lines`
record() {
    if ! PTO_TRACE=today.ptrace "$pto" run "$1" --small --repeat 1 --no-profile >/dev/null 2>&1 ||
        ! "$pto" replay --rings today.ptrace >said; then
        echo "no trace of pto run $1, or no replay of it"
        bad=1
        return 1
    fi
    grep PTO_RING_TASKS= said >lines
    if [ "$(wc -l <lines)" -ne 3 ]; then
        echo "replay --rings of $1 has other than three lines of settings:"
        cat said
        bad=1
    fi
}

# None of them ends in a stall, whenever tasks complete.
for workload in vector attention decode; do
    record $workload || continue
    # Blocks of vector have different sizes, so the smallest heap that was found is not proven.
    if [ $workload = vector ] && ! grep -q "heap of level 1 is a guess: .* is proven" said; then
        echo "replay --rings of vector does not say that the heap is a guess:"
        cat said
        bad=1
    fi
    while read -r settings; do
        for workers in 1 3; do
            # shellcheck disable=SC2086 # words
            expect 0 "" env $settings PTO_WORKERS=$workers "$pto" run $workload --small --repeat 1 \
                --no-profile
        done
    done <lines
done

# With half of the minimum it does.
if record vector; then
    least=$(sed -n 's/^ *heap *of level 1 .* \([0-9.]* [KM]*i*B\)$/\1/p' said)
    case $least in
    *" KiB") half=$((${least%%[. ]*} * 512)) ;;
    *" B") half=$((${least% B} / 2)) ;;
    *) half= ;;
    esac
    expect 2 "of $half bytes in use" env "PTO_HEAP=1m,$half" "$pto" run vector --small
fi

# ---- a run of an older version ----
# The first record of a lifetime (section 13) gets kind 0, which only such files have.
at=$(od -An -v -tu4 -w4 today.ptrace | awk '{ word[NR - 1] = $1 }
    END { for (i = 0; i < word[3]; i++) if (word[word[4] / 4 + 6 * i] == 13) print word[word[4] / 4 + 6 * i + 2] }')
cp today.ptrace old.ptrace
printf '\0\0' | dd of=old.ptrace bs=1 seek=$((at + 30)) conv=notrunc 2>/dev/null
expect 1 "older version of the library, where scopes held tasks as well as memory; record it again" \
    "$pto" replay old.ptrace
expect 0 "tasks" "$pto" trace report old.ptrace

# ---- a run without tasks ----
# The first one is refused: it could never have memory.
expect 2 "too large" env PTO_TRACE=nothing.ptrace PTO_HEAP=64 "$pto" run vector --small --no-profile
expect 0 "no tasks" "$pto" replay nothing.ptrace
expect 0 "no tasks" "$pto" replay nothing.ptrace --rings
expect 0 '"tasks":0' "$pto" replay nothing.ptrace --rings --json
exit $bad
