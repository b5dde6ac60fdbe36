#!/bin/sh
# grid.sh BUILD [PART...]: place gpu on an NVIDIA GPU. From a folder that pack.sh made it is
# `sh tests/device/cuda/grid.sh .`, and needs no build tools. A part prints a line for each test, and the
# end of the output of one that failed; it goes on after a failure.
#
#     tests      each test of test_grid alone, and an illegal access
#     bench      the bars of bench_gpu_grid, with all output
#     memcheck   the tests under compute-sanitizer, with few random programs
#     racecheck  the same, for shared memory
#     soak [N]   random programs for N minutes (default 4): tests/soak/soak_grid.c
#     all [N]    tests, bench, memcheck, racecheck, and soak for N minutes
#
# Without a part: tests and bench. The last line says whether all passed. With PTO_TEST_DEVICE=sim:0, soak
# needs no GPU.
set -u

build=$(cd -- "$1" && pwd) || exit 1
shift
[ $# -gt 0 ] || set -- tests bench
device=${PTO_TEST_DEVICE:-nvidia:0}
tests=$build/tests/device/cuda
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
failed=0
export PTO_TEST_GPU=1
export LD_LIBRARY_PATH="$build:$build/gpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
names="strides_and_scalars shared_memory a_kernel_that_fails cancel it_leaves_and_comes_back
    tasks_of_the_host wrong_modules random_programs"

# try SECONDS NAME COMMAND...: prints the output only if it fails.
try() {
    limit=$1
    name=$2
    shift 2
    begin=$(date +%s)
    timeout -k 5 "$limit" "$@" >"$work/log" 2>&1
    status=$?
    if [ $status -eq 0 ]; then
        echo "ok      $name: $(($(date +%s) - begin)) s"
    else
        echo "FAILED  $name: status $status, $(($(date +%s) - begin)) s"
        tail -n 30 "$work/log"
        bad=1
        failed=$((failed + 1))
    fi
}

part_tests() {
    for only in $names; do
        try 60 "grid: $only" env PTO_TEST_ONLY="$only" "$tests/test_grid"
    done
    try 30 "grid: an illegal access" "$tests/test_grid_lost"
}

part_bench() {
    for part in chain rates latency metg memory; do
        try 100 "bench of the grid: $part" "$build/gpu/bench_gpu_grid" $part
        cat "$work/log"
    done
}

part_memcheck() {
    for only in $names; do
        try 120 "memcheck of the grid: $only" env PTO_TEST_ONLY="$only" PTO_TEST_EFFORT=2 "$sanitizer" \
            --tool memcheck --error-exitcode 9 --report-api-errors no "$tests/test_grid"
    done
}

part_racecheck() {
    for only in strides_and_scalars shared_memory a_kernel_that_fails random_programs; do
        try 120 "racecheck of the grid: $only" env PTO_TEST_ONLY="$only" PTO_TEST_EFFORT=2 "$sanitizer" \
            --tool racecheck --error-exitcode 9 "$tests/test_grid"
    done
}

part_soak() {
    soak=$build/tests/soak/soak_grid
    [ -x "$soak" ] || soak=$build/soak_grid
    PTO_TEST_PTO=$build/tools/pto
    [ -x "$PTO_TEST_PTO" ] || PTO_TEST_PTO=$build/pto
    export PTO_TEST_PTO
    limit=$(($1 * 60 + 180))
    try $limit "soak: $1 min" "$soak" --device "$device" --minutes "$1"
    [ "$status" -ne 0 ] || cat "$work/log"
}

while [ $# -gt 0 ]; do
    part=$1
    shift
    minutes=4
    case $part:${1:-} in
    soak:[1-9]* | all:[1-9]*)
        minutes=$1
        shift
        ;;
    esac
    case $part in
    tests | bench | memcheck | racecheck) "part_$part" ;;
    soak) part_soak "$minutes" ;;
    all)
        part_tests
        part_racecheck
        part_memcheck
        part_soak "$minutes"
        part_bench
        ;;
    *)
        echo "grid.sh: no part '$part': tests, bench, memcheck, racecheck, soak, all" >&2
        exit 2
        ;;
    esac
done
if [ $bad -eq 0 ]; then
    echo "grid: all passed"
else
    echo "grid: $failed FAILED"
fi
exit $bad
