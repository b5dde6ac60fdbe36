#!/bin/sh
# run.sh [PART...]: tests and benches of a GPU, from the folder that pack.sh made. The parts are those of
# gpu.sh; without one, all of them, in less than 8 minutes.
# run.sh grid [PART...]: the same for place gpu, with the parts of grid.sh.
here=$(cd -- "$(dirname -- "$0")" && pwd) || exit 1
if [ "${1:-}" = grid ]; then
    shift
    exec sh "$here/tests/device/cuda/grid.sh" "$here" "$@"
fi
[ $# -gt 0 ] || set -- tests run python bench racecheck memcheck
export PTO_TEST_SECONDS="${PTO_TEST_SECONDS:-460}"
exec sh "$here/tests/device/cuda/gpu.sh" "$here" "$here" "$@"
