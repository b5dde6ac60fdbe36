#!/bin/sh
# trace.sh PTO DATA GOLDEN LABELS
#
# `pto trace` and `pto explain` on a kept trace, DATA/v1.ptrace, and on those that GOLDEN and LABELS
# record now: what they say, and how they end when there is nothing to say.
set -u

pto=$1
data=$2
golden=$3
labels=$4
bad=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cp "$data/v1.ptrace" "$work/run.ptrace" || exit 1
cd "$work" || exit 1
unset PTO_TRACE PTO_TRACE_LIMIT

. "$(dirname -- "$0")/../support/expect.sh"

# ---- report ----
expect 0 "tasks          5: 3 done, 1 failed, 1 skipped, 0 unfinished" "$pto" trace report run.ptrace
expect 0 "edges          4: 3 RAW, 1 WAR, 0 WAW, 0 after" "$pto" trace report run.ptrace
expect 0 "one for each pair of tasks, with the strongest reason" "$pto" trace report run.ptrace
expect 0 "lost           0 records" "$pto" trace report run.ptrace
expect 0 "slots of level 0" "$pto" trace report run.ptrace
expect 0 "ring                        waits" "$pto" trace report run.ptrace
expect 0 'na"st\y?\xff<€>' "$pto" trace report run.ptrace
expect 0 "orchestrator                  4" "$pto" trace report run.ptrace

# A task that submit ran: the flags of task 2 (tasks begin at byte 792, each has 96, flags are the last four).
"$pto" trace report run.ptrace | grep -q inline && { echo "run.ptrace: something ran inline"; bad=1; }
cp run.ptrace inline.ptrace
printf '\001' | dd of=inline.ptrace bs=1 seek=$((792 + 2 * 96 + 92)) conv=notrunc 2>/dev/null
expect 0 "ran inline     1 of them, in their submit" "$pto" trace report inline.ptrace
expect 0 "orchestrator, inline, done" "$pto" explain inline.ptrace 0 2

# ---- failures ----
"$golden" now.ptrace || { echo "$golden records nothing"; bad=1; }
expect 0 "task 1 (fails@golden.c:2) failed: PTO_KERNEL_FAILED: no luck" "$pto" trace report now.ptrace
expect 0 "skipped because of it: 1 task: task 3 (quick@golden.c:4)" "$pto" trace report now.ptrace
"$pto" trace report run.ptrace | grep -q '^failures' && {
    echo "run.ptrace: failures of a file that does not say why"
    bad=1
}

# ---- labels and ranges ----
"$labels" labels.ptrace || { echo "$labels records nothing"; bad=1; }
expect 0 "(quick@test_label.c:" "$pto" explain labels.ptrace 'tile (1, €)' 1
expect 0 " 'tile (1, €)') through one edge:" "$pto" explain labels.ptrace 0 1
expect 0 "step 1                        2" "$pto" trace report labels.ptrace
expect 0 "    sub                         1" "$pto" trace report labels.ptrace
expect 0 "open: from begin to end" "$pto" trace report labels.ptrace
"$pto" trace report run.ptrace | grep -q '^range' && { echo "run.ptrace: it has ranges"; bad=1; }

# ---- other formats ----
for format in html json dot ptrace; do
    expect 0 "out.$format" "$pto" trace $format run.ptrace -o out.$format
    [ -s out.$format ] || { echo "no out.$format"; bad=1; }
done
expect 0 "run.dot" "$pto" trace dot run.ptrace
cmp -s out.dot run.dot || { echo "run.dot is not out.dot"; bad=1; }
cmp -s out.ptrace run.ptrace || { echo "a copy differs"; bad=1; }
expect 0 "makespan" "$pto" trace diff run.ptrace out.ptrace

# A wait that was 1 ns long and is 10 s now: not a percentage of twelve digits. (The field is the
# eighth of a task, in eight bytes.)
cp run.ptrace run0.ptrace
for i in 0 1 2 3 4; do
    head -c 8 /dev/zero | dd of=run0.ptrace bs=1 seek=$((792 + i * 96 + 56)) conv=notrunc 2>/dev/null
done
cp run0.ptrace run1.ptrace
printf '\001' | dd of=run0.ptrace bs=1 seek=$((792 + 56)) conv=notrunc 2>/dev/null
printf '\000\344\013\124\002' | dd of=run1.ptrace bs=1 seek=$((792 + 56)) conv=notrunc 2>/dev/null
expect 0 "10000000000 times" "$pto" trace diff run0.ptrace run1.ptrace
expect 0 "-100.0 %" "$pto" trace diff run1.ptrace run0.ptrace

# ---- explain ----
expect 0 "task 1 (fails@golden.c:2) depends on task 0 (quick@golden.c:1) through one edge:" \
    "$pto" explain run.ptrace 0 1
expect 0 "through one edge:" "$pto" explain run.ptrace 1 0
expect 0 "0 -> task 1 (fails@golden.c:2): RAW, the same region" "$pto" explain run.ptrace quick fails
expect 0 "1 reads argument 0: uint8[8] strides (1) at 0x" "$pto" explain run.ptrace 0 fails@golden.c
expect 0 "both dense" "$pto" explain run.ptrace quick#1 2
expect 0 "through 2 edges" "$pto" explain run.ptrace quick@golden.c:1#1 quick@golden.c:4
expect 0 ") are independent." "$pto" explain run.ptrace 3 4
expect 2 "the trace has 5 tasks" "$pto" explain run.ptrace 0 5
expect 2 "3 tasks match" "$pto" explain run.ptrace 0 quick#4
expect 2 "0 tasks match" "$pto" explain run.ptrace 0 quick@other.c
expect 2 "is not a task" "$pto" explain run.ptrace 0 '@'
expect 2 "is not a task" "$pto" explain run.ptrace 0 'quick@golden.c:x'
expect 2 "are the same task, 0" "$pto" explain run.ptrace 0 quick

# ---- what it does not understand ----
expect 2 "usage: pto trace" "$pto" trace
expect 0 "usage: pto trace" "$pto" trace --help
expect 2 "usage: pto explain" "$pto" explain run.ptrace 1
expect 0 "usage: pto explain" "$pto" explain --help
expect 2 "did you mean 'report'" "$pto" trace repot run.ptrace
expect 2 "takes one file" "$pto" trace report
expect 2 "takes two files" "$pto" trace diff run.ptrace
expect 2 "'x.html' is not of the form NAME.json" "$pto" trace json run.ptrace -o x.html
expect 2 "'.json' is not of the form NAME.json" "$pto" trace json run.ptrace -o .json
expect 2 "'folder/.json' is not of the form NAME.json" "$pto" trace json run.ptrace -o folder/.json
expect 2 "pto trace: -o needs a value" "$pto" trace json run.ptrace -o
expect 2 "pto trace: unknown option '--ouput'" "$pto" trace json run.ptrace --ouput x.json
expect 2 "available: report html json dot ptrace diff" "$pto" trace picture run.ptrace
expect 2 "pto explain: unknown option '--why'" "$pto" explain --why run.ptrace 0 1
expect 0 "usage: pto options" "$pto" options --help
expect 2 "pto options: unknown option '--hlep'; did you mean --help?" "$pto" options --hlep
expect 1 "No such file" "$pto" trace report nowhere.ptrace
expect 1 "no trace" "$pto" trace report "$pto"
head -c 1000 run.ptrace >cut.ptrace
expect 1 "1000 bytes of the" "$pto" trace report cut.ptrace
expect 1 "1000 bytes of the" "$pto" explain cut.ptrace 0 1
expect 1 "1000 bytes of the" "$pto" trace diff run.ptrace cut.ptrace
expect 1 "cannot write '/nowhere/x.json'" "$pto" trace json run.ptrace -o /nowhere/x.json
expect 1 "no trace" "$pto" trace report /dev/zero
(cat run.ptrace && echo) >long.ptrace
expect 1 "more than the" "$pto" trace report long.ptrace

# ---- what it cannot write ----
if [ -c /dev/full ]; then
    # shellcheck disable=SC2016 # for that shell
    expect 1 "cannot write to stdout: No space left" sh -c '"$0" trace report run.ptrace >/dev/full' "$pto"
    ln -s /dev/full full.json
    expect 1 "cannot write 'full.json': No space left" "$pto" trace json run.ptrace -o full.json
    [ -c full.json ] || { echo "full.json was replaced"; bad=1; }
fi
# Ended in the middle of writing, here because files may not grow: nothing is left of it, and what was
# there is. In a file system that is known to have files without names.
if [ -w /dev/shm ]; then
    shm=$(mktemp -d /dev/shm/pto-XXXXXX) || exit 1
    trap 'rm -rf "$work" "$shm"' EXIT
    echo before >"$shm/run.html"
    # shellcheck disable=SC2016 # for that shell
    if sh -c 'ulimit -f 1 && "$0" "$@"; exit $?' "$pto" trace html run.ptrace -o "$shm/run.html" \
        >/dev/null 2>&1; then
        echo "a page was written into a file that may not grow"
        bad=1
    fi
    [ "$(ls "$shm")" = run.html ] || { echo "left behind: $(ls "$shm")"; bad=1; }
    [ "$(cat "$shm/run.html")" = before ] || { echo "what was there is gone"; bad=1; }
fi

# ---- a run of today ----
PTO_TRACE=today.ptrace "$pto" run reduce --small --workers 2 >/dev/null 2>&1 || {
    echo "pto run reduce: fails when it is recorded"
    bad=1
}
expect 0 "lost           0 records" "$pto" trace report today.ptrace
# decode reads a token back before it submits the next: the critical path says so.
PTO_TRACE=today.ptrace "$pto" run decode --small --no-check --no-profile --workers 1 >/dev/null 2>&1
expect 0 "times that the program waited before it submitted more, the path is " "$pto" trace report today.ptrace
exit $bad
