#!/bin/sh
# find_package.sh CMAKE STAGE CONSUMER CC
#
# Builds the consumer against the installation in STAGE/prefix by find_package, in C and C++, with
# each of the targets, and runs the programs. An incompatible version is refused.
set -eu

cmake=$1
stage=$2
consumer=$3
cc=$4

build=$stage/find_package
rm -rf "$build"
"$cmake" -S "$consumer" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$stage/prefix"
"$cmake" --build "$build"
for program in c_pto c_shared c_static cxx_pto cxx_shared cxx_static; do
    said=$("$build/$program")
    echo "$program: $said"
    needs=$(readelf -d "$build/$program" | grep -c 'NEEDED.*libpto\.so\.' || true)
    case $program in
    *_static) want=0 ;;
    *) want=1 ;;
    esac
    [ "$needs" -eq $want ] || { echo "$program: asks for libpto.so $needs times"; exit 1; }
done

if "$cmake" -S "$consumer" -B "$build/wrong" -G Ninja -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$stage/prefix" -DPTO_WANTED=9999.0 >"$build/wrong.log" 2>&1; then
    echo "version 9999.0 was found"
    exit 1
fi
grep -q 'version "9999.0"' "$build/wrong.log" || { cat "$build/wrong.log"; exit 1; }
