#!/bin/sh
# environment.sh SOURCE PROGRAM
#
# An invalid value of PTO_TEST_EFFORT or PTO_TEST_SEED ends PROGRAM, a test program, and also
# `./dev test` and `./dev sanitize`, before they do anything.
set -u

source=$1
program=$2
bad=0
unset PTO_TEST_SEED
PTO_TEST_EFFORT=1
export PTO_TEST_EFFORT

# refused NAME VALUE RANGE COMMAND...
refused() {
    name=$1
    value=$2
    range=$3
    shift 3
    said=$(env "$name=$value" "$@" 2>&1)
    status=$?
    if [ $status -ne 2 ] || [ "${said#dev: }" != "$name=$value: must be a decimal number $range" ]
    then
        echo "$name=$value $*: status $status, said: $said"
        bad=1
    fi
}

# everywhere NAME VALUE RANGE. Should ./dev go on, it finds no such test.
everywhere() {
    refused "$@" "$program"
    refused "$@" "$source/dev" test no.such.test
    refused "$@" "$source/dev" sanitize no.such.test
}

# taken NAME VALUE
taken() {
    said=$(env "$1=$2" "$program" 2>&1) || {
        echo "$1=$2 $program: $said"
        bad=1
    }
}

for value in abc 0 -5 +5 ' 5' 5x 0x5 1e3 100001 99999999999999999999999; do
    everywhere PTO_TEST_EFFORT "$value" "from 1 to 100000"
done
for value in abc -5 5x 18446744073709551616 99999999999999999999999; do
    everywhere PTO_TEST_SEED "$value" "from 0 to 18446744073709551615"
done
taken PTO_TEST_EFFORT 3
taken PTO_TEST_EFFORT ""
for value in "" 0 007 18446744073709551615; do
    taken PTO_TEST_SEED "$value"
done
exit $bad
