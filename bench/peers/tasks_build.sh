#!/bin/sh
# tasks_build.sh FOLDER
#
# Builds the peers of bench_tasks into FOLDER: those whose library and compiler are here. What is
# newer than all its sources is left alone; why one cannot be built is in FOLDER/NAME.log.
set -u

folder=$1
here=$(dirname -- "$(readlink -f -- "$0")")
mkdir -p "$folder" || exit 1

# peer NAME SOURCE LIBRARIES COMMAND...
peer() {
    program=$folder/$1
    source=$here/$2
    libraries=$3
    shift 3
    if [ -e "$program" ] && [ -z "$(find "$source" "$here/tasks_peer.h" "$here/tasks_build.sh" \
        "$here/../tasks_patterns.h" "$here/../cores_patterns.h" -newer "$program")" ]; then
        return
    fi
    rm -f "$program"
    # shellcheck disable=SC2086 # words
    "$@" -O2 -Wall -Wextra "$source" -o "$program" $libraries >"$program.log" 2>&1
}

peer tasks_libgomp tasks_openmp.c '' gcc -std=gnu11 -fopenmp
peer tasks_libomp tasks_openmp.c '' clang -std=gnu11 -fopenmp=libomp
# shellcheck disable=SC2046 # words
peer tasks_starpu tasks_starpu.c "$(pkg-config --libs starpu-1.3 2>/dev/null)" \
    gcc -std=gnu11 $(pkg-config --cflags starpu-1.3 2>/dev/null)
peer tasks_tbb tasks_tbb.cpp -ltbb g++ -std=c++17
peer tasks_tbb_light tasks_tbb.cpp -ltbb g++ -std=c++17 -DTASKS_TBB_LIGHT
exit 0
