#!/bin/sh
# gpu.sh BUILD SOURCE [PART...]: what needs an NVIDIA GPU. `./dev gpu test` calls it, and run.sh on a
# machine without build tools. A part prints a line for each test, and the end of the output of one that
# failed; it goes on after a failure. The exit status is 0 only if all passed.
#
#     tests      copies, operators, tasks, errors, DLPack
#     memcheck   the same under memcheck of compute-sanitizer, with fewer random cases
#     racecheck  everything that launches kernels, under racecheck
#     run        workloads of `pto run`
#     python     the Python package with PyTorch
#     bench      the benches, with all their output
#
# Without a part: tests, memcheck and racecheck. PTO_TEST_SECONDS: no more time than that for all
# (default 900).
set -u

build=$1
source=$2
shift 2
[ $# -gt 0 ] || set -- tests memcheck racecheck
tests=$build/tests/device/cuda
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
end=$(($(date +%s) + ${PTO_TEST_SECONDS:-900}))
export PTO_TEST_GPU=1
export PTO_TEST_GPU_OTHER="$build/gpu/other/libpto-gpu-kernels.so"
export PTO_TEST_TORCH="$source/bench/peers/gpu_torch.py"
export LD_LIBRARY_PATH="$build:$build/gpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# try SECONDS NAME COMMAND...: prints the output of the command only if it fails.
try() {
    limit=$1
    name=$2
    shift 2
    begin=$(date +%s)
    left=$((end - begin))
    [ "$left" -gt "$limit" ] || limit=$left
    if [ "$limit" -gt 0 ]; then
        timeout -k 5 "$limit" "$@" >"$work/log" 2>&1
        status=$?
    else
        echo "no time is left" >"$work/log"
        status=124
    fi
    took=$(($(date +%s) - begin))
    if [ "$status" -eq 0 ]; then
        echo "ok      $name: $(grep -o '[0-9]* test(s) run' "$work/log" | head -n 1 | sed 's/(s) run/s,/') $took s"
    else
        echo "FAILED  $name: status $status, $took s"
        tail -n 30 "$work/log"
        bad=1
    fi
}

# shown: the same, and the output in any case.
shown() {
    try "$@"
    [ "$status" -ne 0 ] || cat "$work/log"
}

part_tests() {
    try 90 "copies, rearrange, fill, errors" "$tests/test_gpu"
    try 30 "an illegal access" "$tests/test_gpu_lost"
    try 90 "tasks" "$tests/test_gpu_tasks"
    try 30 "an illegal access of a task" "$tests/test_gpu_tasks_lost"
    mkdir "$work/why" && cp "$tests/test_why" "$work/why/"
    try 20 "a library for another architecture" env PTO_TEST_WHY="was not compiled for" \
        LD_LIBRARY_PATH="$build/gpu/other:$LD_LIBRARY_PATH" "$work/why/test_why"
    try 20 "no GPU to be seen" env CUDA_VISIBLE_DEVICES= PTO_TEST_WHY="shows no GPU" \
        "$work/why/test_why"
    ! command -v python3 >/dev/null ||
        try 60 "DLPack with PyTorch" python3 "$source/tests/device/cuda/dlpack_torch.py" \
            "$build/libpto.so"
}

# sanitize SECONDS NAME TOOL PROGRAM: each launch is 100 times slower, so there are fewer random cases.
# For memcheck: errors of the API are part of the tests.
sanitize() {
    options="--tool $3 --error-exitcode 9"
    [ "$3" != memcheck ] || options="$options --report-api-errors no"
    # shellcheck disable=SC2086 # words
    try "$1" "$3: $2" env PTO_TEST_EFFORT="${PTO_TEST_EFFORT:-5}" \
        "$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)" $options "$4"
}

part_memcheck() {
    sanitize 150 "copies, rearrange, fill, errors" memcheck "$tests/test_gpu"
    sanitize 100 "tasks" memcheck "$tests/test_gpu_tasks"
}

# Racecheck looks at the threads of a block. It does not end if several threads of the host launch at
# once, so they take turns.
part_racecheck() {
    export PTO_TEST_TURNS=1
    for PTO_TEST_ONLY in random_copies random_strided_copies permutations order_without_waiting \
        new_results_and_dlpack several_threads; do
        export PTO_TEST_ONLY
        sanitize 60 "$PTO_TEST_ONLY" racecheck "$tests/test_gpu"
    done
    PTO_TEST_ONLY=operators
    sanitize 60 "operators as tasks" racecheck "$tests/test_gpu_tasks"
    unset PTO_TEST_ONLY PTO_TEST_TURNS
}

part_run() {
    pto=$build/pto
    [ -x "$pto" ] || pto=$build/tools/pto
    try 20 "pto info" "$pto" info
    for what in "vector" "vector --elements 100000000 --tile 4194304" \
        "bgemm --m 1024 --n 1024 --k 1024 --batch 2 --tile 256" "rearrange"; do
        # shellcheck disable=SC2086 # words
        shown 20 "pto run $what" "$pto" run $what --device nvidia:0
    done
}

part_python() {
    library=$source/build/python/lib check=$source/tests/python/torch_check.py
    [ -d "$library" ] || library=$source/python check=$source/python/torch_check.py
    shown 120 "the Python package with PyTorch" env PYTHONPATH="$library" python3 "$check"
}

part_bench() {
    shown 60 "bench of tasks" "$build/gpu/bench_gpu_tasks"
    shown 180 "bench of copies and Rearrange" "$build/gpu/bench_gpu"
}

for part; do
    case $part in
    tests) part_tests ;;
    memcheck) part_memcheck ;;
    racecheck) part_racecheck ;;
    run) part_run ;;
    python) part_python ;;
    bench) part_bench ;;
    *)
        echo "gpu.sh: no part '$part': tests, memcheck, racecheck, run, python, bench" >&2
        exit 2
        ;;
    esac
done
exit $bad
