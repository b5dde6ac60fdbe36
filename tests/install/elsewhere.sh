#!/bin/sh
# elsewhere.sh CMAKE BUILD SOURCE STAGE CC
#
# Installs into a nonstandard folder, as `./dev install PREFIX` does, and runs the commands that it
# prints: then the shell, pkg-config, the loader and CMake find the installation.
set -eu

cmake=$1
build=$2
source=$3
stage=$4
cc=$5

out=$stage/elsewhere
prefix=$out/prefix
rm -rf "$out"
mkdir -p "$out"
unset DESTDIR PKG_CONFIG_PATH LD_LIBRARY_PATH CMAKE_PREFIX_PATH
"$cmake" --install "$build" --prefix "$prefix" >"$out/install.log"
"$source/cmake/use-prefix.sh" "$prefix" "$build/install_manifest.txt" | tee "$out/lines"
[ "$(grep -c '^export ' "$out/lines")" -eq "$(wc -l <"$out/lines")" ]
# The old value of a variable stays, after ours.
PKG_CONFIG_PATH=/first:/second
# shellcheck source=/dev/null
. "$out/lines"
case $PKG_CONFIG_PATH in
"$prefix"/*:/first:/second) ;;
*) echo "PKG_CONFIG_PATH=$PKG_CONFIG_PATH"; exit 1 ;;
esac
[ "$(command -v pto)" = "$prefix/bin/pto" ]
case $LD_LIBRARY_PATH in
*:) echo "the loader would look into the current folder: $LD_LIBRARY_PATH"; exit 1 ;;
esac

consumer=$source/tests/install/consumer
# shellcheck disable=SC2046 # pkg-config prints words
"$cc" "$consumer/consumer.c" -o "$out/by_pkg_config" $(pkg-config --cflags --libs pto)
"$out/by_pkg_config"
found=$(ldd "$out/by_pkg_config" | awk '/libpto\.so/ { print $3 }')
case $found in
"$prefix"/*) ;;
*) echo "loads $found"; exit 1 ;;
esac

"$cmake" -S "$consumer" -B "$out/cmake" -G Ninja -DCMAKE_C_COMPILER="$cc" >"$out/cmake.log"
grep -F "pto_DIR:PATH=$prefix/" "$out/cmake/CMakeCache.txt"

# The name of a folder is never interpreted as shell code.
odd="$out/a \"b\" \$HOME \`id\` \\c"
printf '%s\n' "$odd/share/bash-completion/completions/pto" "$odd/bin/pto" "$odd/lib/pkgconfig/pto.pc" "$odd/lib/libpto.so" >"$out/manifest"
unset PKG_CONFIG_PATH LD_LIBRARY_PATH CMAKE_PREFIX_PATH
"$source/cmake/use-prefix.sh" "$odd" "$out/manifest" >"$out/lines"
# shellcheck source=/dev/null
. "$out/lines"
[ "${PATH%%:*}" = "$odd/bin" ]
[ "$PKG_CONFIG_PATH" = "$odd/lib/pkgconfig" ]
[ "$LD_LIBRARY_PATH" = "$odd/lib" ]
[ "$CMAKE_PREFIX_PATH" = "$odd" ]
