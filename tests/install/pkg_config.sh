#!/bin/sh
# pkg_config.sh STAGE CONSUMER CC
#
# Builds the consumer against the installation in STAGE/prefix by pkg-config, in C and C++, with the
# shared and with the static library, and runs the programs.
set -eu

stage=$1
consumer=$2
cc=$3
cxx=${CXX:-c++}

PKG_CONFIG_PATH=$(dirname "$(find "$stage/prefix" -name pto.pc)")
export PKG_CONFIG_PATH
out=$stage/pkg_config
rm -rf "$out"
mkdir -p "$out"

version=$(sed -n 's/^#define PTO_VERSION "\(.*\)"$/\1/p' "$stage/prefix/include/pto/status.h")
pkg-config --modversion pto
[ "$(pkg-config --modversion pto)" = "$version" ]
pkg-config --cflags --libs pto
libs=$(pkg-config --variable=libdir pto)

# shellcheck disable=SC2046 # pkg-config prints words
{
    cp "$consumer/consumer.c" "$out/consumer.cpp"
    "$cc" "$consumer/consumer.c" -o "$out/c_shared" $(pkg-config --cflags --libs pto)
    "$cxx" -std=c++17 "$out/consumer.cpp" -o "$out/cxx_shared" $(pkg-config --cflags --libs pto)
    "$cc" -static "$consumer/consumer.c" -o "$out/c_static" \
        $(pkg-config --static --cflags --libs pto)
    "$cxx" -static -std=c++17 "$out/consumer.cpp" -o "$out/cxx_static" \
        $(pkg-config --static --cflags --libs pto)
}
for program in c_shared cxx_shared; do
    said=$(LD_LIBRARY_PATH=$libs "$out/$program")
    echo "$program: $said"
    found=$(LD_LIBRARY_PATH=$libs ldd "$out/$program" | awk '/libpto\.so/ { print $3 }')
    [ "$(realpath "$found")" = "$(realpath "$libs/libpto.so")" ] ||
        { echo "$program: loads $found"; exit 1; }
done
for program in c_static cxx_static; do
    said=$("$out/$program")
    echo "$program: $said"
done
