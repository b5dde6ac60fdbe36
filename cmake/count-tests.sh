#!/bin/sh
# count-tests.sh RESULTS...
#
# Counts single tests over the result folders that run-test.sh filled. A test that ran in several
# builds counts once: as failed if it failed in any build, otherwise as passed if it passed in any.
# Failed tests are listed first; the last line is "N passed, M failed". The exit status is 0 only if
# at least one test passed and none failed.
set -u

for folder; do
    for result in "$folder"/*; do
        case $result in
        *.log) ;;
        *) [ -f "$result" ] && cat "$result" ;;
        esac
    done
done | awk '
    {
        verdict = $1
        sub(/^[a-z]+ /, "")
        if (verdict == "fail" || !($0 in worst) || (verdict == "pass" && worst[$0] == "skip"))
            worst[$0] = worst[$0] == "fail" ? "fail" : verdict
    }
    END {
        for (test in worst) {
            count[worst[test]]++
            if (worst[test] == "fail")
                print "failed: " test
        }
        if (count["skip"])
            print count["skip"] " skipped"
        print count["pass"] + 0 " passed, " count["fail"] + 0 " failed"
        exit count["fail"] > 0 || !count["pass"]
    }'
