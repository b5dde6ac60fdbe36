#!/bin/sh
# headers.sh SOURCE CC
#
# Every header compiles when it is the only thing included, and when it is included twice: public
# ones as strict C11 and as C++17 under pedantic warnings, internal ones as C11.
set -eu

source=$1
cc=$2

c_flags="-std=c11 -Wall -Wextra -Wpedantic -Wundef -Wconversion -Werror"
cxx_flags="-std=c++17 -Wall -Wextra -Wpedantic -Wundef -Wconversion -Werror"

# twice HEADER COMPILER FLAGS...
twice() {
    header=$1
    shift
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" | "$@" -fsyntax-only -
}

checked=0
cd "$source/include"
for header in pto/*.h; do
    echo "public: $header"
    # shellcheck disable=SC2086 # the flags are words
    twice "$header" "$cc" -x c $c_flags -I.
    # shellcheck disable=SC2086
    twice "$header" "${CXX:-c++}" -x c++ $cxx_flags -I.
    checked=$((checked + 1))
done
cd "$source/src"
for header in */*.h; do
    echo "internal: $header"
    # shellcheck disable=SC2086
    twice "$header" "$cc" -x c -std=gnu11 -Wall -Wextra -Wundef -Werror -I. -I../include
    checked=$((checked + 1))
done
echo "$checked headers"
