#!/bin/sh
# run-test.sh RESULTS NAME COMMAND...
#
# Runs one test program and writes RESULTS/NAME: a line "pass", "skip" or "fail" for each single
# test, with its name. A cmocka test that started and did not finish counts as failed, and so does a
# program that fails after its last test. A program without cmocka counts as one test. The exit status
# is 0 only if nothing failed.
set -u

results=$1
name=$2
shift 2
mkdir -p "$results"
result=$results/$name
log=$result.log

# Remains if this script is killed, for example by a timeout.
echo "fail $name: did not finish" >"$result"

{
    "$@" 2>&1
    echo $? >"$result.status"
} | tee "$log"
status=$(cat "$result.status")
rm -f "$result.status"

awk -v program="$name" -v status="$status" '
    function close_test() {
        if (running == "")
            return
        verdict = ok ? "pass" : skipped ? "skip" : "fail"
        count[running]++
        label = count[running] > 1 ? running " (" count[running] ")" : running
        print verdict, program ": " label
        failed += verdict == "fail"
        running = ""
    }
    # Not anchored at the start: a test may have printed something without a newline.
    match($0, /\[==========\] Running [0-9]+ test/) {
        announced += substr($0, RSTART + 21) + 0
    }
    match($0, /\[==========\] [0-9]+ test\(s\) run/) { close_test() }
    match($0, /\[ RUN      \] /) {
        close_test()
        running = substr($0, RSTART + RLENGTH)
        ok = skipped = 0
        begun++
    }
    running != "" && index($0, "[       OK ] " running) { ok = 1 }
    running != "" && index($0, "[  SKIPPED ] " running) { skipped = 1 }
    END {
        close_test()
        if (announced + begun == 0) {
            print (status == 0 ? "pass" : "fail"), program
            exit status != 0
        }
        for (i = begun; i < announced; i++) {
            print "fail", program ": never begun (" i + 1 " of " announced ")"
            failed++
        }
        if (status != 0 && failed == 0) {
            print "fail", program ": exit status " status
            failed++
        }
        exit failed != 0
    }' "$log" >"$result.new"
status=$?
mv "$result.new" "$result"
exit $status
