#!/bin/sh
# tidy.sh BUILD STAMPS FILE
#
# Runs clang-tidy on one file, unless the same input was clean before. The name of the stamp is the hash
# of the file, of all our headers that it includes, of the settings and of the tool.
set -u

build=$1
stamps=$2
file=$3

case $file in
*/consumer/*) exit 0 ;; # belongs to a build of its own
*_starpu.c) exit 0 ;;   # needs headers that only its bench installs
mpi/*.c | tests/mpi/*.c) # needs an MPI
    grep -q "/$file\"" "$build/compile_commands.json" || exit 0
    ;;
esac
includes="-Iinclude -Isrc -Itests/support -Itests/runtime -Ibench -Iexamples/workloads -Itools/pto -Impi/include"
# shellcheck disable=SC2086 # words
depends=$(clang -MM -MG $includes "$file" | sed 's/^[^:]*://; s/\\$//; s/ workloads\.inc//; s/ mpi\.h//') || exit 1
# shellcheck disable=SC2086
key=$({
    clang-tidy --version
    cat .clang-tidy cmake/compiler.cmake cmake/tidy.sh $depends
    echo "$file"
} | sha256sum | cut -d ' ' -f 1)
[ -e "$stamps/$key" ] && exit 0

mkdir -p "$stamps"
# The analyzer does not understand vector code, and takes half a minute.
checks=
case $file in
*/avx2.c | */avx512.c | */simd128.c) checks=--checks=-clang-analyzer-* ;;
# It knows requests that end with MPI_Wait only. Ours end with MPI_Test, on another thread.
mpi/*.c) checks=--checks=-clang-analyzer-optin.mpi.MPI-Checker ;;
esac
if clang-tidy -p "$build" --quiet --warnings-as-errors='*' ${checks:+"$checks"} "$file" \
    2>"$stamps/$key.err"; then
    rm -f "$stamps/$key.err"
    touch "$stamps/$key"
else
    cat "$stamps/$key.err"
    rm -f "$stamps/$key.err"
    exit 1
fi
