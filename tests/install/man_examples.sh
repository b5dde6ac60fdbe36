#!/bin/sh
# man_examples.sh STAGE SOURCE CC
#
# The examples of the manual pages (docs/man/examples) compile against the installation in STAGE/prefix,
# with warnings, and run. Each checks its own results. That of pto/mpi.h is linked with each of the libraries for
# MPI that are there, and runs as one rank.
set -eu

stage=$1
source=$2
cc=$3

PKG_CONFIG_PATH=$(dirname "$(find "$stage/prefix" -name pto.pc)")
export PKG_CONFIG_PATH
LD_LIBRARY_PATH=$(pkg-config --variable=libdir pto)
export LD_LIBRARY_PATH
out=$stage/man_examples
rm -rf "$out"
mkdir -p "$out"
cd "$out"

# compile_and_run FILE NAME LIBRARY...
compile_and_run() {
    file=$1
    name=$2
    shift 2
    # A part may declare what it does not use, and no program uses all of example.h.
    # shellcheck disable=SC2046 # words
    "$cc" -std=gnu11 -Wall -Wextra -Werror -Wno-unused-variable -Wno-unused-function \
        -Wno-unused-but-set-variable "$file" -o "$name" "$@" $(pkg-config --cflags --libs pto) -pthread
    timeout 60 "./$name" >"$name.out" 2>&1 || {
        echo "$file: status $?"
        cat "$name.out"
        exit 1
    }
    count=$((count + 1))
}

count=0
for file in "$source"/docs/man/examples/*.c; do
    name=$(basename "$file" .c)
    if [ "$name" != mpi ]; then
        compile_and_run "$file" "$name"
        continue
    fi
    for mpi in openmpi mpich; do
        [ ! -e "$LD_LIBRARY_PATH/libpto-mpi-$mpi.so" ] ||
            compile_and_run "$file" "mpi_$mpi" "-lpto-mpi-$mpi" "-L$LD_LIBRARY_PATH"
    done
done
[ $count -ge 13 ]
echo "$count programs"
