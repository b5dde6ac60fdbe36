#!/bin/sh
# coming_from.sh STAGE SOURCE CC
#
# The programs of docs/coming-from.md compile, run, and print the number that the page shows: ours against
# the installation in STAGE/prefix; those for OpenMP, StarPU and Taskflow if their compiler or library is
# here.
set -eu

stage=$1
source=$2
cc=$3

page=$source/docs/coming-from.md
out=$stage/coming_from
rm -rf "$out"
mkdir -p "$out"
cd "$out"

# block WORDS: the lines of the fenced block that begins with these words
block() {
    awk -v fence="\`\`\`$1" '
        $0 == fence { inside = 1; next }
        $0 == "```" { inside = 0 }
        inside' "$page"
}

block text >expected
[ "$(wc -l <expected)" -eq 1 ]

# check NAME COMPILER...: builds NAME from its source with the rest of the command, and runs it
check() {
    name=$1
    shift
    "$@" -o "$name"
    STARPU_SILENT=1 STARPU_HOME=$out "./$name" >"$name.out"
    diff -u expected "$name.out"
    echo "$name: as the page says"
}

block 'c pto' >pto.c
block 'c openmp' >openmp.c
block 'c starpu' >starpu.c
block 'cpp taskflow' >taskflow.cpp
for file in pto.c openmp.c starpu.c taskflow.cpp; do
    [ "$(wc -l <$file)" -gt 30 ] || { echo "$file is not in $page"; exit 1; }
done

PKG_CONFIG_PATH=$(dirname "$(find "$stage/prefix" -name pto.pc)")${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
LD_LIBRARY_PATH=$(pkg-config --variable=libdir pto)
export LD_LIBRARY_PATH
# shellcheck disable=SC2046 # words
check pto "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror pto.c $(pkg-config --cflags --libs pto)

if echo 'int main(void) { return 0; }' | "$cc" -fopenmp -x c - -o probe 2>probe.log; then
    check openmp "$cc" -Wall -Wextra -Werror -fopenmp openmp.c
else
    echo "openmp: not checked, $cc has no -fopenmp here"
fi
if pkg-config --exists starpu-1.3; then
    # shellcheck disable=SC2046
    check starpu "$cc" starpu.c $(pkg-config --cflags --libs starpu-1.3)
else
    echo "starpu: not checked, libstarpu-dev is not here"
fi
if echo '#include <taskflow/taskflow.hpp>' | "${CXX:-c++}" -std=c++17 -x c++ -fsyntax-only - 2>probe.log; then
    check taskflow "${CXX:-c++}" -std=c++17 taskflow.cpp -pthread
else
    echo "taskflow: not checked, its headers are not here"
fi
