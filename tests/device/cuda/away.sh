#!/bin/sh
# run.sh [PART...]: tests and benches of a GPU, from the folder that pack.sh made. The parts are those of
# gpu.sh; without one, all of them, in less than 8 minutes.
# run.sh grid [PART...]: the same for place gpu, with the parts of grid.sh.
# run.sh all [MINUTES]: everything, with a soak test of so many minutes (default 4).
here=$(cd -- "$(dirname -- "$0")" && pwd) || exit 1
run_grid() {
    sh "$here/tests/device/cuda/grid.sh" "$here" "$@"
}
run_gpu() {
    PTO_TEST_SECONDS="${PTO_TEST_SECONDS:-460}" sh "$here/tests/device/cuda/gpu.sh" "$here" "$here" "$@"
}
case ${1:-} in
grid)
    shift
    run_grid "$@"
    ;;
all)
    bad=0
    run_gpu tests run python bench racecheck memcheck || bad=1
    run_grid all ${2:+"$2"} || bad=1
    exit $bad
    ;;
'') run_gpu tests run python bench racecheck memcheck ;;
*) run_gpu "$@" ;;
esac
