#!/bin/sh
# soak_grid.sh SOAK DEVICE PROGRAMS: so many programs of the soak test of place gpu on a device that needs no GPU,
# and one whose result is made wrong, which must be noticed.
set -u

soak=$1
device=$2
"$soak" --device "$device" --programs $((${PTO_TEST_EFFORT:-100} * $3 / 100 + 1)) --seed "${PTO_TEST_SEED:-1}" ||
    exit 1
text=$("$soak" --device "$device" --programs 3 --seed 7 --break 8 2>&1)
status=$?
case $status:$text in
1:*"program 8: cell 3 of the device is not what the serial run leaves"*"--seed 8 --only"*) ;;
*)
    echo "a wrong result: status $status: $text"
    exit 1
    ;;
esac
for wrong in --minutes "--minutes x" "--device cpu:0" "--device none" --more; do
    # shellcheck disable=SC2086 # words
    "$soak" $wrong >/dev/null 2>&1
    [ $? -eq 2 ] || {
        echo "soak_grid $wrong: no usage"
        exit 1
    }
done
