#!/bin/sh
# workloads_build.sh FOLDER
#
# Builds the peers of bench_workloads into FOLDER, which is bench/peers of a build folder, out of the
# archives that ours is linked with: those whose library and compiler are here. What is newer than
# all its sources is left alone; why one cannot be built is in FOLDER/NAME.log.
set -u

folder=$1
build=$folder/../..
here=$(dirname -- "$(readlink -f -- "$0")")
root=$here/../..
mkdir -p "$folder" || exit 1

# peer NAME SOURCE COMMAND...
peer() {
    program=$folder/$1
    source=$here/$2
    shift 2
    fresh=1
    for file in "$source" "$here/workloads_peer.h" "$here/workloads_tasks.h" \
        "$here/../workloads_shared.h" "$build/libpto_tool_parts.a" "$build/libpto.a" "$0"; do
        [ "$program" -nt "$file" ] || fresh=
    done
    [ -n "$fresh" ] && return
    rm -f "$program"
    # shellcheck disable=SC2086 # words
    "$@" -std=gnu11 -O3 -DNDEBUG -Wall -Wextra -I"$root/include" \
        "$source" -o "$program" "$build/libpto_tool_parts.a" "$build/libpto.a" $libraries \
        -lopenblas -ljansson -lpthread -lm >"$program.log" 2>&1
}

starpu=$(pkg-config --cflags starpu-1.3 2>/dev/null)
libraries=
peer workloads_libgomp workloads_openmp.c gcc -fopenmp
peer workloads_kernels workloads_openmp.c gcc -Wno-unknown-pragmas
peer workloads_openblas workloads_openblas.c gcc
peer workloads_decode_openblas workloads_decode.c gcc -DWORKLOADS_THREADED
peer workloads_decode_kernels workloads_decode.c gcc
libraries=$(pkg-config --libs starpu-1.3 2>/dev/null)
# shellcheck disable=SC2086 # words
peer workloads_starpu workloads_starpu.c gcc $starpu
exit 0
