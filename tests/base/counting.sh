#!/bin/sh
# counting.sh SOURCE
#
# No crash may hide in the count at the end of `./dev test`. Runs programs that end in every way with
# run-test.sh, and checks the results of it and of count-tests.sh.
set -u

run=$1/cmake/run-test.sh
count=$1/cmake/count-tests.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# expect STATUS LINES SCRIPT: the results that run-test.sh records for this script.
expect() {
    sh "$run" "$work/one" program sh -c "$3" >/dev/null 2>&1
    status=$?
    got=$(sort "$work/one/program")
    if [ $status -ne "$1" ] || [ "$got" != "$2" ]; then
        echo "expected status $1 and: $2"
        echo "got status $status and: $got"
        bad=1
    fi
}

two='echo "[==========] Running 2 test(s)."; echo "[ RUN      ] a"; '
ok_a='echo "[       OK ] a"; echo "[ RUN      ] b"; '
ok_b='echo "[       OK ] b"; echo "[==========] 2 test(s) run."; '

expect 0 "pass program: a
pass program: b" "$two $ok_a $ok_b"
# Noise without a newline before the verdict.
expect 0 "pass program: a
pass program: b" "$two printf noise; $ok_a $ok_b"
expect 0 "pass program: b
skip program: a" "$two echo '[  SKIPPED ] a'; echo '[ RUN      ] b'; $ok_b"
# A failure, with the name of the failed test repeated at the end.
expect 1 "fail program: b
pass program: a" "$two $ok_a echo '[  FAILED  ] b'; echo '[  FAILED  ] b'; exit 1"
# Killed in the first test; in the second one; exit between them, with status 0.
expect 1 "fail program: a
fail program: never begun (2 of 2)" "$two kill -9 \$\$"
expect 1 "fail program: b
pass program: a" "$two $ok_a kill -SEGV \$\$"
expect 1 "fail program: a
fail program: never begun (2 of 2)" "$two exit 0"
# Failed after the last test, for example because of a leak report.
expect 1 "fail program: exit status 23
pass program: a
pass program: b" "$two $ok_a $ok_b exit 23"
# No cmocka program.
expect 0 "pass program" "echo fine"
expect 1 "fail program" "echo bad; exit 3"
expect 1 "fail program" "kill -9 \$\$"

# total LINE STATUS
total() {
    got=$(sh "$count" "$work/one" "$work/two" | tail -n 1)
    sh "$count" "$work/one" "$work/two" >/dev/null
    status=$?
    if [ "$got" != "$1" ] || [ $status -ne "$2" ]; then
        echo "expected \"$1\" and status $2, got \"$got\" and status $status"
        bad=1
    fi
}

# One test in two builds counts once, and as failed if it failed in one of them.
mkdir -p "$work/two"
printf 'pass program: a\npass program: b\nskip program: c\n' >"$work/one/program"
printf 'pass program: a\npass program: b\npass program: c\n' >"$work/two/program"
total "3 passed, 0 failed" 0
printf 'pass program: a\nfail program: b\nskip program: d\n' >"$work/two/program"
total "1 passed, 1 failed" 1
rm "$work/one/program"
total "1 passed, 1 failed" 1
rm "$work/two/program"
total "0 passed, 0 failed" 1

exit $bad
